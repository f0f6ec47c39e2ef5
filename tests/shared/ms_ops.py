"""Operators of the ``.ms`` format for `ModelWriter`: the attributes of the file together with NumPy's answer.

Every function adds one node and returns the index of its (first) output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.shared import ms_numpy as known
from tests.shared.ms_numpy import ACTIVATIONS, Array
from tests.shared.ms_writer import ModelWriter, boolean, f32, i8, i32, i64, i64_matrix, i64s

BINARY = {"add": 5, "mul": 99, "sub": 152, "div": 47, "maximum": 90, "minimum": 96}
FORMULA = {
    "add": np.add,
    "mul": np.multiply,
    "sub": np.subtract,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
UNARY = {
    "abs": (1, np.abs),
    "ceil": (29, np.ceil),
    "cos": (37, np.cos),
    "exp": (55, np.exp),
    "floor": (63, np.floor),
    "log": (79, np.log),
    "neg": (101, np.negative),
    "round": (125, np.round),
    "rsqrt": (126, lambda x: 1 / np.sqrt(x)),
    "sin": (133, np.sin),
    "sqrt": (146, np.sqrt),
    "square": (148, np.square),
}
COORDINATES = {"asymmetric": 0, "align_corners": 1, "half_pixel": 2}


def double(x: Array) -> Array:
    return np.asarray(x, np.float64)


def activation(
    model: ModelWriter, x: int, kind: str, *, alpha: float = 0.0, approximate: bool = False, name: str = ""
) -> int:
    return model.add_node(
        2,
        [x],
        {0: i8(ACTIVATIONS[kind]), 1: f32(alpha), 4: boolean(approximate)},
        name=name,
        compute=lambda x: known.activation(x, kind, alpha, approximate=approximate),
    )[0]


def unary(model: ModelWriter, x: int, kind: str) -> int:
    number, formula = UNARY[kind]
    attributes = {0: f32(-1.0), 1: f32(1.0)} if kind == "exp" else {}
    return model.add_node(number, [x], attributes, compute=lambda x: formula(double(x)))[0]


def binary(model: ModelWriter, kind: str, a: int, b: int, *, act: str = "none", name: str = "") -> int:
    attributes = {0: i8(ACTIVATIONS[act])} if kind not in ("maximum", "minimum") else {}
    return model.add_node(
        BINARY[kind],
        [a, b],
        attributes,
        name=name,
        compute=lambda a, b: known.activation(FORMULA[kind](double(a), double(b)), act),
    )[0]


def eltwise(model: ModelWriter, kind: str, inputs: Sequence[int]) -> int:
    number, ufunc = {"prod": (0, np.multiply), "sum": (1, np.add), "max": (2, np.maximum)}[kind]
    return model.add_node(
        52, inputs, {0: i8(number)}, compute=lambda *values: ufunc.reduce([double(value) for value in values])
    )[0]


def conv2d(
    model: ModelWriter,
    x: int,
    weight: int,
    bias: int | None = None,
    *,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Sequence[int] | None = None,
    mode: int = known.EXPLICIT,
    group: int = 1,
    act: str = "none",
    name: str = "",
) -> int:
    out, kernel_h, kernel_w, per_group = model.constants[weight].shape
    attributes = {
        0: i32(1),
        1: i64s((kernel_h, kernel_w)),
        2: i64s(stride),
        3: i64s(dilation),
        4: i8(mode),
        7: i64(group),
        8: i64(per_group * group),
        9: i64(out),
        10: i8(ACTIVATIONS[act]),
    }
    if pads is not None:
        attributes[5] = i64s(pads)
    return model.add_node(
        35,
        [x, weight] if bias is None else [x, weight, bias],
        attributes,
        name=name,
        compute=lambda x, w, b=None: known.conv2d(
            x, w, b, stride=stride, dilation=dilation, pads=pads or (), mode=mode, group=group, act=act
        ),
    )[0]


def conv2d_transpose(
    model: ModelWriter,
    x: int,
    weight: int,
    bias: int | None = None,
    *,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    output_pads: Sequence[int] = (0, 0),
    group: int = 1,
    act: str = "none",
) -> int:
    _, kernel_h, kernel_w, _ = model.constants[weight].shape
    attributes = {
        1: i64s((kernel_h, kernel_w)),
        2: i64s(stride),
        3: i64s(dilation),
        4: i8(known.EXPLICIT),
        6: i64s(pads),
        8: i64(group),
        11: i8(ACTIVATIONS[act]),
        12: i64s(output_pads),
    }

    def compute(x: Array, w: Array, b: Array | None = None) -> Array:
        parts = [
            known.conv2d_transpose(each_x, each_w, stride=stride, dilation=dilation, pads=pads, output_pads=output_pads)
            for each_x, each_w in zip(np.split(x, group, -1), np.split(w, group, 0), strict=True)
        ]
        return known.activation(np.concatenate(parts, -1) + (0 if b is None else b), act)

    inputs = [x, weight] if bias is None else [x, weight, bias]
    return model.add_node(36, inputs, attributes, compute=compute)[0]


def pool2d(
    model: ModelWriter,
    x: int,
    *,
    kind: str,
    kernel: Sequence[int] = (1, 1),
    stride: Sequence[int] = (1, 1),
    pads: Sequence[int] | None = None,
    mode: int = known.EXPLICIT,
    ceil: bool = False,
    whole: bool = False,
    act: str = "none",
    name: str = "",
) -> int:
    attributes = {1: i64s(stride), 3: i8(mode), 4: i8(ceil), 5: i32(1), 6: boolean(whole), 7: i8(ACTIVATIONS[act])}
    if not whole:
        attributes |= {0: i64s(kernel)}
        if pads is not None:
            attributes[2] = i64s(pads)
    return model.add_node(
        92 if kind == "max" else 17,
        [x],
        attributes,
        name=name,
        compute=lambda x: known.pool2d(
            x, kind=kind, kernel=kernel, stride=stride, pads=pads or (), mode=mode, ceil=ceil, whole=whole, act=act
        ),
    )[0]


def matmul(
    model: ModelWriter,
    a: int,
    b: int,
    bias: int | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    act: str = "none",
    name: str = "",
) -> int:
    def compute(a: Array, b: Array, bias: Array | float = 0.0) -> Array:
        left = np.swapaxes(double(a), -1, -2) if transpose_a else double(a)
        right = np.swapaxes(double(b), -1, -2) if transpose_b else double(b)
        return known.activation(left @ right + bias, act)

    return model.add_node(
        89,
        [a, b] if bias is None else [a, b, bias],
        {0: boolean(transpose_a), 1: boolean(transpose_b), 2: i8(ACTIVATIONS[act])},
        name=name,
        compute=compute,
    )[0]


def full_connection(
    model: ModelWriter, x: int, weight: int, bias: int | None = None, *, axis: int | None = None, act: str = "none"
) -> int:
    attributes = {0: boolean(bias is not None), 1: boolean(axis is not None), 3: i8(ACTIVATIONS[act])}
    if axis is not None:
        attributes[2] = i64(axis)

    def compute(x: Array, w: Array, b: Array | float = 0.0) -> Array:
        lead = x.shape[: axis or 1] if axis is not None else (x.size // w.shape[1],)
        return known.activation(double(x).reshape(*lead, w.shape[1]) @ double(w).T + b, act)

    return model.add_node(67, [x, weight] if bias is None else [x, weight, bias], attributes, compute=compute)[0]


def softmax(model: ModelWriter, x: int, axis: int = -1, *, name: str = "") -> int:
    return model.add_node(138, [x], {0: i64s([axis])}, name=name, compute=lambda x: known.softmax(x, axis))[0]


def log_softmax(model: ModelWriter, x: int, axis: int = -1) -> int:
    return model.add_node(189, [x], {0: i64(axis)}, compute=lambda x: np.log(known.softmax(x, axis)))[0]


def bias_add(model: ModelWriter, x: int, bias: int) -> int:
    return model.add_node(23, [x, bias], {0: i32(1)}, compute=lambda x, b: double(x) + b)[0]


def clip(model: ModelWriter, x: int, low: float, high: float) -> int:
    return model.add_node(30, [x], {0: f32(high), 1: f32(low)}, compute=lambda x: np.clip(double(x), low, high))[0]


def concat(model: ModelWriter, inputs: Sequence[int], axis: int) -> int:
    return model.add_node(31, inputs, {0: i64(axis)}, compute=lambda *parts: np.concatenate(parts, axis))[0]


def flatten(model: ModelWriter, x: int, axis: int = 1, *, name: str = "") -> int:
    return model.add_node(
        61,
        [x],
        {0: i64(axis)},
        name=name,
        compute=lambda x: x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1),
    )[0]


def reshape(model: ModelWriter, x: int, shape: Sequence[int]) -> int:
    def compute(x: Array, shape: Array) -> Array:
        sizes = [x.shape[axis] if size == 0 else int(size) for axis, size in enumerate(shape)]
        return x.reshape(sizes)

    return model.add_node(119, [x, model.add_constant(np.asarray(shape, np.int32))], {}, compute=compute)[0]


def transpose(model: ModelWriter, x: int, order: Sequence[int], *, name: str = "") -> int:
    return model.add_node(
        162,
        [x, model.add_constant(np.asarray(order, np.int32))],
        {},
        name=name,
        compute=lambda x, order: np.transpose(x, [int(axis) for axis in order]),
    )[0]


def pad(model: ModelWriter, x: int, widths: Sequence[Sequence[int]], *, value: float = 0.0) -> int:
    return model.add_node(
        107,
        [x, model.add_constant(np.asarray(widths, np.int32))],
        {0: i64_matrix(widths), 1: i8(0), 2: f32(value)},
        compute=lambda x, widths: np.pad(x, widths.tolist(), constant_values=value),
    )[0]


def reduce(
    model: ModelWriter,
    x: int,
    axes: Sequence[int],
    kind: str,
    *,
    keep: bool,
    to_end: bool = False,
    coefficient: float = 1.0,
) -> int:
    """With `to_end` all axes from the one given on are reduced and none kept; only then the coefficient counts."""
    rank = len(model.tensors[x].dims)
    reduced = list(range(axes[0], rank)) if to_end else axes
    return model.add_node(
        118,
        [x, model.add_constant(np.asarray(axes, np.int32))],
        {0: boolean(keep), 1: i8(known.REDUCE[kind]), 2: boolean(to_end), 3: f32(coefficient)},
        compute=lambda x, _: known.reduce(
            x, reduced, kind, keep=keep and not to_end, coefficient=coefficient if to_end else 1.0
        ),
    )[0]


def squeeze(model: ModelWriter, x: int, axes: Sequence[int]) -> int:
    return model.add_node(147, [x], {0: i64s(axes)}, compute=lambda x: np.squeeze(x, tuple(axes) or None))[0]


def unsqueeze(model: ModelWriter, x: int, axes: Sequence[int]) -> int:
    return model.add_node(165, [x], {0: i64s(axes)}, compute=lambda x: np.expand_dims(x, tuple(axes)))[0]


def scale(model: ModelWriter, x: int, factor: int, offset: int | None, axis: int, *, act: str = "none") -> int:
    def compute(x: Array, factor: Array, offset: Array | None = None) -> Array:
        start = axis % x.ndim
        shape = [1] * start + list(factor.shape) + [1] * (x.ndim - start - factor.ndim)
        result = double(x) * factor.reshape(shape)
        return known.activation(result if offset is None else result + offset.reshape(shape), act)

    inputs = [x, factor] if offset is None else [x, factor, offset]
    return model.add_node(127, inputs, {0: i64(axis), 1: i8(ACTIVATIONS[act])}, compute=compute)[0]


def batch_norm(model: ModelWriter, x: int, parts: Sequence[int], epsilon: float) -> int:
    """`parts` are scale, offset, mean and variance, one value a channel."""
    return model.add_node(
        68,
        [x, *parts],
        {0: f32(epsilon)},
        compute=lambda x, scale, offset, mean, variance: (
            (double(x) - mean) / np.sqrt(double(variance) + epsilon) * scale + offset
        ),
    )[0]


def layer_norm(model: ModelWriter, x: int, gamma: int, beta: int, axis: int, epsilon: float) -> int:
    def compute(x: Array, gamma: Array, beta: Array) -> Array:
        axes = tuple(range(axis % x.ndim, x.ndim))
        mean, variance = double(x).mean(axes, keepdims=True), double(x).var(axes, keepdims=True)
        return (double(x) - mean) / np.sqrt(variance + epsilon) * gamma + beta

    attributes = {0: i64(axis), 1: f32(epsilon), 2: boolean(True), 3: i64(axis)}
    return model.add_node(75, [x, gamma, beta], attributes, compute=compute)[0]


def prelu(model: ModelWriter, x: int, slope: int) -> int:
    return model.add_node(
        112, [x, slope], {0: boolean(False)}, compute=lambda x, slope: np.where(double(x) > 0, x, double(x) * slope)
    )[0]


def power(model: ModelWriter, x: int, exponent: int, *, factor: float = 1.0, shift: float = 0.0) -> int:
    return model.add_node(
        110,
        [x, exponent],
        {0: f32(factor), 1: f32(shift)},
        compute=lambda x, exponent: np.power(double(x) * factor + shift, exponent),
    )[0]


def gather(model: ModelWriter, x: int, indices: int, axis: int) -> int:
    return model.add_node(
        69,
        [x, indices, model.add_constant(np.asarray([axis], np.int32))],
        {},
        compute=lambda x, indices, _: np.take(x, indices, axis),
    )[0]


def cut(model: ModelWriter, x: int, begin: Sequence[int], size: Sequence[int]) -> int:
    """SliceFusion: `size` cells from `begin` on; -1 is all that is left."""
    constants = [model.add_constant(np.asarray(part, np.int32)) for part in (begin, size)]
    return model.add_node(
        135,
        [x, *constants],
        {0: i64s(range(len(begin)))},
        compute=lambda x, begin, size: x[
            tuple(slice(b, x.shape[i] if n == -1 else b + n) for i, (b, n) in enumerate(zip(begin, size, strict=True)))
        ],
    )[0]


def strided_slice(
    model: ModelWriter, x: int, begin: Sequence[int], end: Sequence[int], step: Sequence[int], *, shrink: int = 0
) -> int:
    constants = [model.add_constant(np.asarray(part, np.int32)) for part in (begin, end, step)]

    def compute(x: Array, *_: Array) -> Array:
        parts = [
            b if shrink >> axis & 1 else slice(b, e, s)
            for axis, (b, e, s) in enumerate(zip(begin, end, step, strict=True))
        ]
        return x[tuple(parts)]

    return model.add_node(151, [x, *constants], {4: i64(shrink)}, compute=compute)[0]


def split(model: ModelWriter, x: int, sizes: Sequence[int], axis: int) -> list[int]:
    return model.add_node(
        145,
        [x],
        {0: i64(len(sizes)), 1: i64s(sizes), 2: i64(axis)},
        output_count=len(sizes),
        compute=lambda x: np.split(x, np.cumsum(sizes[:-1]), axis),
    )


def doubled_shape(model: ModelWriter, x: int) -> int:
    """The shape of x as numbers of the graph, the first dimension twice: Shape, then a product with a constant."""
    rank = len(model.tensors[x].dims)
    factors = model.add_constant(np.asarray([2] + [1] * (rank - 1), np.int32))
    shape = shape_of(model, x)
    return model.add_node(
        BINARY["mul"], [shape, factors], {}, data_type=np.int32, compute=lambda shape, factors: shape * factors
    )[0]


def reshape_as(model: ModelWriter, x: int, shape: int) -> int:
    """Reshape to a shape that the graph itself works out."""
    return model.add_node(119, [x, shape], {}, compute=lambda x, shape: x.reshape([int(size) for size in shape]))[0]


def shape_of(model: ModelWriter, x: int) -> int:
    return model.add_node(130, [x], {}, data_type=np.int32, compute=lambda x: np.asarray(x.shape, np.int32))[0]


def cast(model: ModelWriter, x: int, data_type: type[np.generic], number: int) -> int:
    return model.add_node(
        28,
        [x, model.add_constant(np.asarray([number], np.int32))],
        {},
        data_type=data_type,
        compute=lambda x, _: x.astype(data_type),
    )[0]


def resize(model: ModelWriter, x: int, height: int, width: int, *, coordinates: str = "asymmetric") -> int:
    return model.add_node(
        120,
        [x],
        {0: i32(1), 1: i8(0), 2: i64(height), 3: i64(width), 5: i8(COORDINATES[coordinates])},
        compute=lambda x: known.resize_bilinear(x, height, width, coordinates),
    )[0]
