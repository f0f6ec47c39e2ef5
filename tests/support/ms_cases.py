"""Random one-operator models, by operator: what the reference runtime is compared with NumPy on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.shared import ms_ops as ops
from tests.shared.ms_numpy import EXPLICIT, SAME, VALID, Array
from tests.shared.ms_writer import ModelWriter

Draw = Callable[[Any], Any]
Case = tuple[ModelWriter, list[Array]]
FUSED = st.sampled_from(["none", "relu", "relu6"])


def numbers(draw: Draw, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> Array:
    seed = draw(st.integers(0, 2**32 - 1))
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def shape(draw: Draw, least: int = 1, most: int = 4, largest: int = 6) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(1, largest), min_size=least, max_size=most)))


def size(draw: Draw, largest: int, least: int = 1) -> int:
    return int(draw(st.integers(least, largest)))


def _image(draw: Draw, channels: int) -> tuple[int, int, int, int]:
    return size(draw, 2), size(draw, 9), size(draw, 9), channels


def _start(draw: Draw, dims: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> tuple[ModelWriter, int, Array]:
    model = ModelWriter()
    return model, model.add_input("x", dims), numbers(draw, dims, low, high)


def conv2d(draw: Draw) -> Case:
    depthwise = draw(st.booleans())
    group = size(draw, 19, 2) if depthwise else size(draw, 3)
    per_in, per_out = (1, 1) if depthwise else (size(draw, 5), size(draw, 11))
    kernel, stride, dilation = [(size(draw, top), size(draw, top)) for top in (3, 3, 2)]
    mode = draw(st.sampled_from([EXPLICIT, SAME, VALID]))
    pads = tuple(size(draw, 2, 0) for _ in range(4)) if mode == EXPLICIT else None
    need = [(side - 1) * gap + 1 for side, gap in zip(kernel, dilation, strict=True)]
    dims = (size(draw, 2), size(draw, 9, need[0]), size(draw, 9, need[1]), per_in * group)
    model, x, value = _start(draw, dims)
    weight = model.add_constant(numbers(draw, (per_out * group, *kernel, per_in), -0.5, 0.5))
    bias = model.add_constant(numbers(draw, (per_out * group,))) if draw(st.booleans()) else None
    act = draw(FUSED)
    result = ops.conv2d(
        model, x, weight, bias, stride=stride, dilation=dilation, pads=pads, mode=mode, group=group, act=act
    )
    model.mark_output(result)
    return model, [value]


def conv2d_transpose(draw: Draw) -> Case:
    """One group, or one for each channel: MindSpore Lite takes no others, and no dilation with the latter."""
    depthwise = draw(st.booleans())
    ins = size(draw, 4)
    outs = 1 if depthwise else size(draw, 4)
    model, x, value = _start(draw, _image(draw, ins))
    kernel, stride, dilation = [(size(draw, top), size(draw, top)) for top in (3, 3, 2)]
    if depthwise or ins == outs == 1:
        dilation = (1, 1)
    weight = model.add_constant(numbers(draw, (ins, *kernel, outs), -0.5, 0.5))
    group = ins if depthwise else 1
    bias = model.add_constant(numbers(draw, (ins if depthwise else outs,))) if draw(st.booleans()) else None
    pads = tuple(0 if side == 1 else size(draw, 1, 0) for side in (1, kernel[0], 1, kernel[1]))
    result = ops.conv2d_transpose(
        model,
        x,
        weight,
        bias,
        stride=stride,
        dilation=dilation,
        pads=pads,
        output_pads=(1, 0),
        group=group,
        act=draw(FUSED),
    )
    model.mark_output(result)
    return model, [value]


def pool(kind: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        kernel, stride = ((size(draw, 3), size(draw, 3)) for _ in range(2))
        mode = draw(st.sampled_from([EXPLICIT, SAME, VALID]))
        dims = (size(draw, 2), size(draw, 9, kernel[0]), size(draw, 9, kernel[1]), size(draw, 5))
        # A window must see at least one cell: padding below the kernel, and rounding up only without far padding.
        ceil = mode != SAME and all(s <= k for s, k in zip(stride, kernel, strict=True)) and draw(st.booleans())
        top, left = size(draw, kernel[0] - 1, 0), size(draw, kernel[1] - 1, 0)
        pads = (top, 0, left, 0) if mode == EXPLICIT else None
        model, x, value = _start(draw, dims)
        result = ops.pool2d(
            model,
            x,
            kind=kind,
            kernel=kernel,
            stride=stride,
            pads=pads,
            mode=mode,
            ceil=ceil,
            whole=draw(st.integers(0, 4)) == 0,
            act=draw(FUSED),
        )
        model.mark_output(result)
        return model, [value]

    return case


def matmul(draw: Draw) -> Case:
    rows, depth, columns = size(draw, 9), size(draw, 40), size(draw, 20)
    transpose_a, transpose_b, constant = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    lead_a = shape(draw, 0, 2, 3)
    lead_b = draw(st.sampled_from([(), lead_a]))
    dims_a = (*lead_a, depth, rows) if transpose_a else (*lead_a, rows, depth)
    dims_b = (*lead_b, columns, depth) if transpose_b else (*lead_b, depth, columns)
    model, a, value = _start(draw, dims_a, -1, 1)
    factor = numbers(draw, dims_b, -1, 1)
    b = model.add_constant(factor) if constant else model.add_input("b", dims_b)
    bias = model.add_constant(numbers(draw, (columns,))) if draw(st.booleans()) else None
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b, "act": draw(FUSED)}
    model.mark_output(ops.matmul(model, a, b, bias, **options))
    return model, [value] if constant else [value, factor]


def full_connection(draw: Draw) -> Case:
    dims = shape(draw, 2, 4, 4)
    axis = draw(st.one_of(st.none(), st.integers(1, len(dims) - 1)))
    depth = int(np.prod(dims[1 if axis is None else axis :]))
    model, x, value = _start(draw, dims, -1, 1)
    outs = size(draw, 12)
    weight = model.add_constant(numbers(draw, (outs, depth), -0.5, 0.5))
    bias = model.add_constant(numbers(draw, (outs,))) if draw(st.booleans()) else None
    model.mark_output(ops.full_connection(model, x, weight, bias, axis=axis, act=draw(FUSED)))
    return model, [value]


def binary(kind: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        dims = shape(draw)
        stretched = tuple(1 if draw(st.booleans()) else side for side in dims)[size(draw, len(dims), 0) :]
        low = 0.5 if kind == "div" else -2.0
        model, a, first = _start(draw, dims, low)
        b, second = model.add_input("b", stretched), numbers(draw, stretched, low)
        values = [first, second]
        if draw(st.booleans()) and kind != "div":
            a, b = b, a
        act = "none" if kind in ("maximum", "minimum") else draw(FUSED)
        model.mark_output(ops.binary(model, kind, a, b, act=act))
        return model, values

    return case


def squared_difference(draw: Draw) -> Case:
    dims = shape(draw)
    model, a, value = _start(draw, dims)
    b = model.add_constant(numbers(draw, dims[-1:]))
    model.mark_output(model.add_node(149, [a, b], compute=lambda a, b: (ops.double(a) - b) ** 2)[0])
    return model, [value]


def eltwise(draw: Draw) -> Case:
    model, a, first = _start(draw, shape(draw))
    b, second = model.add_input("b", first.shape), numbers(draw, first.shape)
    model.mark_output(ops.eltwise(model, draw(st.sampled_from(["prod", "sum", "max"])), [a, b]))
    return model, [first, second]


def activation(draw: Draw) -> Case:
    model, x, value = _start(draw, shape(draw), -8, 8)
    kind = draw(st.sampled_from([kind for kind in ops.ACTIVATIONS if kind != "none"]))
    alpha = draw(st.sampled_from([0.01, 0.25, 1.0]))
    model.mark_output(ops.activation(model, x, kind, alpha=alpha, approximate=draw(st.booleans())))
    return model, [value]


def unary(kind: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        low = 0.1 if kind in ("log", "sqrt", "rsqrt") else -3.0
        model, x, value = _start(draw, shape(draw), low, 3.0)
        model.mark_output(ops.unary(model, x, kind))
        return model, [value]

    return case


def simple(add: Callable[[ModelWriter, int, Draw], int], least: int = 1) -> Callable[[Draw], Case]:
    """A case with one random input of `least` dimensions or more, and one node that `add` makes of it."""

    def case(draw: Draw) -> Case:
        model, x, value = _start(draw, shape(draw, least))
        model.mark_output(add(model, x, draw))
        return model, [value]

    return case


def _dims(model: ModelWriter, x: int) -> list[int]:
    return model.tensors[x].dims


def _axis(model: ModelWriter, x: int, draw: Draw) -> int:
    rank = len(_dims(model, x))
    return int(draw(st.integers(-rank, rank - 1)))


def _channel_values(model: ModelWriter, x: int, draw: Draw, low: float = -2.0) -> int:
    return model.add_constant(numbers(draw, (_dims(model, x)[-1],), low))


def _concat(model: ModelWriter, x: int, draw: Draw) -> int:
    axis = _axis(model, x, draw)
    dims = list(_dims(model, x))
    dims[axis] = size(draw, 3)
    return ops.concat(model, [x, model.add_constant(numbers(draw, tuple(dims))), x], axis)


def _transpose(model: ModelWriter, x: int, draw: Draw) -> int:
    return ops.transpose(model, x, draw(st.permutations(range(len(_dims(model, x))))))


def _reshape(model: ModelWriter, x: int, draw: Draw) -> int:
    dims = _dims(model, x)
    new = [*dims[::-1]] if draw(st.booleans()) else [0, -1]
    return ops.reshape(model, x, new)


def _pad(model: ModelWriter, x: int, draw: Draw) -> int:
    widths = [(size(draw, 2, 0), size(draw, 2, 0)) for _ in _dims(model, x)]
    return ops.pad(model, x, widths, value=draw(st.sampled_from([0.0, -1.5])))


def _reduce(model: ModelWriter, x: int, draw: Draw) -> int:
    axes = sorted(draw(st.sets(st.integers(0, len(_dims(model, x)) - 1), min_size=1)))
    to_end = draw(st.booleans())
    kind = draw(st.sampled_from(["mean", "max", "min", "prod", "sum", "sum_square", "abs_sum", "l2"]))
    return ops.reduce(
        model,
        x,
        axes[:1] if to_end else axes,
        kind,
        keep=draw(st.booleans()),
        to_end=to_end,
        coefficient=draw(st.sampled_from([1.0, 0.5])),
    )


def _softmax_axis(model: ModelWriter, x: int, draw: Draw) -> int:
    """MindSpore Lite takes -1 as the only negative one."""
    return int(draw(st.integers(-1, len(_dims(model, x)) - 1)))


def _squeeze(model: ModelWriter, x: int, draw: Draw) -> int:
    rank = len(_dims(model, x))
    axis = draw(st.integers(0, rank))
    wide = ops.unsqueeze(model, x, [axis])
    return ops.squeeze(model, wide, [axis])


def _unsqueeze(model: ModelWriter, x: int, draw: Draw) -> int:
    return ops.unsqueeze(
        model, x, sorted(draw(st.sets(st.integers(0, len(_dims(model, x)) + 1), min_size=2, max_size=2)))
    )


def _scale(model: ModelWriter, x: int, draw: Draw) -> int:
    axis = _axis(model, x, draw)
    dims = (_dims(model, x)[axis],)
    factor = model.add_constant(numbers(draw, dims))
    offset = model.add_constant(numbers(draw, dims)) if draw(st.booleans()) else None
    return ops.scale(model, x, factor, offset, axis, act=draw(FUSED))


def _batch_norm(model: ModelWriter, x: int, draw: Draw) -> int:
    parts = [_channel_values(model, x, draw, low) for low in (-2.0, -2.0, -2.0, 0.1)]
    return ops.batch_norm(model, x, parts, 1e-3)


def _layer_norm(model: ModelWriter, x: int, draw: Draw) -> int:
    axis = size(draw, len(_dims(model, x)) - 1, 0)
    dims = tuple(_dims(model, x)[axis:])
    return ops.layer_norm(
        model, x, model.add_constant(numbers(draw, dims)), model.add_constant(numbers(draw, dims)), axis, 1e-2
    )


def _power(model: ModelWriter, x: int, draw: Draw) -> int:
    exponent = model.add_constant(np.asarray(draw(st.sampled_from([2.0, 3.0, 0.5])), np.float32))
    return ops.power(model, x, exponent, factor=0.5, shift=2.0)


def _gather(model: ModelWriter, x: int, draw: Draw) -> int:
    axis = size(draw, len(_dims(model, x)) - 1, 0)
    indices = draw(st.lists(st.integers(0, _dims(model, x)[axis] - 1), min_size=1, max_size=5))
    return ops.gather(model, x, model.add_constant(np.asarray(indices, np.int32)), axis)


def _cut(model: ModelWriter, x: int, draw: Draw) -> int:
    begin = [size(draw, side - 1, 0) for side in _dims(model, x)]
    length = [draw(st.sampled_from([-1, size(draw, side - b)])) for side, b in zip(_dims(model, x), begin, strict=True)]
    return ops.cut(model, x, begin, length)


def _strided_slice(model: ModelWriter, x: int, draw: Draw) -> int:
    dims = _dims(model, x)
    begin = [size(draw, side - 1, 0) for side in dims]
    step = [draw(st.sampled_from([1, 2, -1])) for _ in dims]
    end = [size(draw, side, b + 1) if s > 0 else -side - 1 for b, s, side in zip(begin, step, dims, strict=True)]
    shrink = draw(st.integers(0, 2 ** len(dims) - 1))
    return ops.strided_slice(model, x, begin, end, step, shrink=shrink)


def _split(model: ModelWriter, x: int, draw: Draw) -> int:
    axis = _axis(model, x, draw)
    doubled = ops.concat(model, [x, x, x], axis)
    first, second, third = ops.split(model, doubled, [size(draw, _dims(model, x)[axis])] * 2 + [-1], axis)
    model.mark_output(third, first)
    return second


def _shape(model: ModelWriter, x: int, draw: Draw) -> int:
    """The shape of x, used to bring a doubled x back into it: numbers that are known before the run."""
    return ops.reshape_as(model, ops.concat(model, [x, x], 0), ops.doubled_shape(model, x))


def _cast(model: ModelWriter, x: int, draw: Draw) -> int:
    return ops.cast(model, ops.cast(model, x, np.int32, 34), np.float32, 43)


def resize(draw: Draw) -> Case:
    model, x, value = _start(draw, _image(draw, size(draw, 4)))
    coordinates = draw(st.sampled_from(list(ops.COORDINATES)))
    model.mark_output(ops.resize(model, x, size(draw, 12), size(draw, 12), coordinates=coordinates))
    return model, [value]


CASES: dict[int, Callable[[Draw], Case]] = {
    2: activation,
    17: pool("mean"),
    23: simple(lambda model, x, draw: ops.bias_add(model, x, _channel_values(model, x, draw))),
    28: simple(_cast),
    30: simple(lambda model, x, draw: ops.clip(model, x, -0.5, 1.25)),
    31: simple(_concat),
    35: conv2d,
    36: conv2d_transpose,
    52: eltwise,
    61: simple(lambda model, x, draw: ops.flatten(model, x, size(draw, len(_dims(model, x)) - 1, 0))),
    67: full_connection,
    68: simple(_batch_norm),
    69: simple(_gather),
    75: simple(_layer_norm),
    89: matmul,
    92: pool("max"),
    107: simple(_pad),
    110: simple(_power),
    112: simple(lambda model, x, draw: ops.prelu(model, x, _channel_values(model, x, draw)), least=4),
    118: simple(_reduce),
    119: simple(_reshape, least=2),
    120: resize,
    127: simple(_scale),
    130: simple(_shape),
    135: simple(_cut),
    138: simple(lambda model, x, draw: ops.softmax(model, x, _softmax_axis(model, x, draw))),
    145: simple(_split),
    147: simple(_squeeze),
    149: squared_difference,
    151: simple(_strided_slice),
    162: simple(_transpose),
    165: simple(_unsqueeze),
    189: simple(lambda model, x, draw: ops.log_softmax(model, x, _softmax_axis(model, x, draw))),
    **{number: binary(kind) for kind, number in ops.BINARY.items()},
    **{number: unary(kind) for kind, (number, _) in ops.UNARY.items()},
}
"""By the operator's number: a function that draws a model with it and inputs for it."""
