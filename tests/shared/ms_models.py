"""Whole ``.ms`` models with seeded weights: the smallest useful one, and one with the topology of MobileNetV2."""

from __future__ import annotations

import numpy as np

from tests.shared import ms_ops as ops
from tests.shared.ms_numpy import SAME, Array
from tests.shared.ms_writer import ModelWriter

MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, repetitions, stride of each stage (Sandler et al., MobileNetV2, table 2)."""


def add_softmax() -> ModelWriter:
    """Two nodes: x [1, 4] + constant, then softmax."""
    model = ModelWriter(name="add-softmax")
    x = model.add_input("x", [1, 4])
    total = ops.binary(model, "add", x, model.add_constant(np.asarray([0.5, -0.5, 1, 0], np.float32)), name="sum")
    model.mark_output(ops.softmax(model, total, name="probabilities"))
    model.fill_dims(np.zeros((1, 4), np.float32))
    return model


def mobilenet_v2(
    *, seed: int = 1, size: int = 224, width: float = 1.0, classes: int = 1001, half: bool = False
) -> ModelWriter:
    """A classifier with the 67 nodes and 175 tensors of MobileNetV2, input NHWC ``[1, size, size, 3]``.

    The weights are random, scaled so that activations keep their size; `half` stores them as float16.
    """
    model = ModelWriter(name="mobilenet-v2")
    random = np.random.default_rng(seed)

    def conv(x: int, out: int, kernel: int = 1, stride: int = 1, group: int = 1, act: str = "relu6") -> int:
        per_group = channels[x] // group
        weight = random.standard_normal((out, kernel, kernel, per_group)) * np.sqrt(2 / (kernel * kernel * per_group))
        constants = [model.add_constant(value.astype(number)) for value in (weight, random.standard_normal(out) * 0.1)]
        result = ops.conv2d(model, x, *constants, stride=(stride, stride), mode=SAME, group=group, act=act)
        channels[result] = out
        return result

    number = np.float16 if half else np.float32
    x = model.add_input("graph_input-173", [1, size, size, 3])
    channels = {x: 3}
    x = conv(x, _channels(32, width), kernel=3, stride=2)
    for expansion, out, repetitions, first_stride in MOBILENET_STAGES:
        for stride in [first_stride] + [1] * (repetitions - 1):
            block, wide, narrow = x, channels[x] * expansion, _channels(out, width)
            if expansion != 1:
                block = conv(block, wide)
            block = conv(block, wide, kernel=3, stride=stride, group=wide)
            block = conv(block, narrow, act="none")
            if stride == 1 and channels[x] == narrow:
                block = ops.binary(model, "add", x, block)
                channels[block] = narrow
            x = block
    x = conv(x, _channels(1280, max(width, 1.0)) if width >= 1 else 128)
    features = channels[x]
    x = ops.pool2d(model, x, kind="mean", whole=True)
    x = ops.flatten(model, ops.transpose(model, x, (0, 3, 1, 2)))
    head = (random.standard_normal((features, classes)) / np.sqrt(features)).astype(number)
    shift = (random.standard_normal(classes) * 0.1).astype(number)
    x = ops.matmul(model, x, model.add_constant(head), model.add_constant(shift), name="head")
    model.mark_output(ops.softmax(model, x, name="Softmax-65"))
    return model


def seeded_image(size: int, seed: int = 7) -> Array:
    return np.random.default_rng(seed).random((1, size, size, 3), dtype=np.float32)


def _channels(count: int, width: float) -> int:
    """Rounded to a multiple of eight, as the paper's own code does."""
    return max(8, int(count * width + 4) // 8 * 8)
