"""Makes the network of `ms_models.mobilenet_v2` as ONNX and turns it into ``.ms`` with MindSpore Lite's own converter.

For the Python that the wheel mindspore-lite 2.0.0 is for, which is 3.7, with onnx 1.12 beside it: usage OUT [--half] [--size N].
The weights come in the same order from the same generator, so both files must compute the same.
"""

from __future__ import annotations

import argparse
import stat
from pathlib import Path

import mindspore_lite
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
CLASSES = 1001


class Network:
    """ONNX nodes and constants, as they are added."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list = []
        self.constants = [numpy_helper.from_array(np.float32(value), name) for name, value in (("zero", 0), ("six", 6))]

    def constant(self, value: np.ndarray) -> str:
        name = f"constant-{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype=np.float32), name))
        return name

    def node(self, kind: str, inputs: list, name: str = "", **attributes: object) -> str:
        name = name or f"{kind}-{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def conv(self, x: str, into: int, out: int, *, size: int, kernel: int = 1, stride: int = 1, group: int = 1) -> str:
        """A convolution with TensorFlow's padding SAME for an input of `size`; weights scaled as in the other network."""
        per_group = into // group
        weight = self.random.standard_normal((out, kernel, kernel, per_group)) * np.sqrt(
            2 / (kernel * kernel * per_group)
        )
        bias = self.random.standard_normal(out) * 0.1
        whole = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        # The converter insists on strides and dilations, which ONNX allows to be left away.
        return self.node(
            "Conv",
            [x, self.constant(weight.transpose(0, 3, 1, 2)), self.constant(bias)],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            dilations=[1, 1],
            group=group,
            pads=[whole // 2, whole // 2, whole - whole // 2, whole - whole // 2],
        )

    def relu6(self, x: str) -> str:
        return self.node("Clip", [x, "zero", "six"])


def make_mobilenet(size: int, seed: int = 1) -> onnx.ModelProto:
    """MobileNetV2, input NCHW ``[1, 3, size, size]``, output ``Softmax-65``."""
    net, extent, channels = Network(seed), size, 32
    x = net.relu6(net.conv("image", 3, channels, size=extent, kernel=3, stride=2))
    extent = -(-extent // 2)
    for expansion, out, repetitions, first_stride in STAGES:
        for stride in [first_stride] + [1] * (repetitions - 1):
            block, wide = x, channels * expansion
            if expansion != 1:
                block = net.relu6(net.conv(block, channels, wide, size=extent))
            block = net.relu6(net.conv(block, wide, wide, size=extent, kernel=3, stride=stride, group=wide))
            extent = -(-extent // stride)
            block = net.conv(block, wide, out, size=extent)
            x = net.node("Add", [x, block]) if stride == 1 and channels == out else block
            channels = out
    x = net.relu6(net.conv(x, channels, 1280, size=extent))
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x])], axis=1)
    head = net.random.standard_normal((1280, CLASSES)) / np.sqrt(1280)
    x = net.node("Gemm", [x, net.constant(head), net.constant(net.random.standard_normal(CLASSES) * 0.1)])
    net.node("Softmax", [x], "Softmax-65", axis=1)
    graph = helper.make_graph(
        net.nodes,
        "mobilenet-v2",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("Softmax-65", TensorProto.FLOAT, [1, CLASSES])],
        net.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    onnx.checker.check_model(model)
    return model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--half", action="store_true")
    asked = parser.parse_args()
    source = asked.out.with_suffix(".onnx")
    onnx.save(make_mobilenet(asked.size), str(source))
    converter = mindspore_lite.Converter()
    converter.save_type = mindspore_lite.ModelType.MINDIR_LITE
    converter.weight_fp16 = asked.half
    converter.convert(
        fmk_type=mindspore_lite.FmkType.ONNX, model_file=str(source), output_file=str(asked.out.with_suffix(""))
    )
    asked.out.chmod(stat.S_IRUSR | stat.S_IWUSR)  # The converter leaves a file that may not even be replaced.


if __name__ == "__main__":
    main()
