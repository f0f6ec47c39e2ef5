"""What every operator should give, in NumPy and double precision: the independent source of known answers.

Layouts are those of the ``.ms`` format: NHWC activations, weights ``[out, height, width, in / group]``,
paddings ``(top, bottom, left, right)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ACTIVATIONS = {
    "none": 0,
    "relu": 1,
    "sigmoid": 2,
    "relu6": 3,
    "elu": 4,
    "leaky": 5,
    "tanh": 10,
    "hswish": 12,
    "hsigmoid": 13,
    "swish": 18,
    "gelu": 19,
}
EXPLICIT, SAME, VALID = 0, 1, 2


def activation(x: Array, kind: str, alpha: float = 0.0, *, approximate: bool = False) -> Array:
    """The activation functions, each by its usual formula."""
    x = np.asarray(x, np.float64)
    match kind:
        case "none":
            return x
        case "relu":
            return np.maximum(x, 0)
        case "relu6":
            return np.clip(x, 0, 6)
        case "sigmoid":
            return 1 / (1 + np.exp(-x))
        case "tanh":
            return np.tanh(x)
        case "elu":
            return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))
        case "leaky":
            return np.where(x > 0, x, alpha * x)
        case "hswish":
            return x * np.clip(x + 3, 0, 6) / 6
        case "hsigmoid":
            return np.clip(x + 3, 0, 6) / 6
        case "swish":
            return x / (1 + np.exp(-x))
        case "gelu":
            return _gelu(x, approximate)
    raise ValueError(kind)


def _gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    import math

    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / np.sqrt(2)))


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and after so that the result has ``ceil(size / stride)`` cells; the odd cell goes after."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def padding_of(
    mode: int, pads: Sequence[int], size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Any
) -> tuple[int, int, int, int]:
    if mode == SAME:
        return (
            *same_padding(size[0], kernel[0], stride[0], dilation[0]),
            *same_padding(size[1], kernel[1], stride[1], dilation[1]),
        )
    top, bottom, left, right = pads or (0, 0, 0, 0)
    return top, bottom, left, right


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    mode: int = EXPLICIT,
    group: int = 1,
    act: str = "none",
) -> Array:
    """Convolution as the sum over kernel taps of shifted inputs times weights."""
    x, weight = np.asarray(x, np.float64), np.asarray(weight, np.float64)
    out_channels, kernel_h, kernel_w, _ = weight.shape
    top, bottom, left, right = padding_of(mode, pads, x.shape[1:3], (kernel_h, kernel_w), stride, dilation)
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    height = (x.shape[1] - (kernel_h - 1) * dilation[0] - 1) // stride[0] + 1
    width = (x.shape[2] - (kernel_w - 1) * dilation[1] - 1) // stride[1] + 1
    result = np.zeros((x.shape[0], height, width, out_channels))
    per_in, per_out = x.shape[3] // group, out_channels // group
    for row in range(kernel_h):
        for column in range(kernel_w):
            y0, x0 = row * dilation[0], column * dilation[1]
            seen = x[:, y0 : y0 + height * stride[0] : stride[0], x0 : x0 + width * stride[1] : stride[1]]
            seen = seen[:, :height, :width]
            for part in range(group):
                ins, outs = slice(part * per_in, (part + 1) * per_in), slice(part * per_out, (part + 1) * per_out)
                result[..., outs] += seen[..., ins] @ weight[outs, row, column].T
    if bias is not None:
        result += bias
    return activation(result, act)


def conv2d_transpose(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    output_pads: Sequence[int] = (0, 0),
    act: str = "none",
) -> Array:
    """Transposed convolution: every input cell adds its weighted kernel to the result; weight is [in, h, w, out]."""
    x, weight = np.asarray(x, np.float64), np.asarray(weight, np.float64)
    batch, height, width, _ = x.shape
    _, kernel_h, kernel_w, out_channels = weight.shape
    full_h = (height - 1) * stride[0] + (kernel_h - 1) * dilation[0] + 1 + output_pads[0]
    full_w = (width - 1) * stride[1] + (kernel_w - 1) * dilation[1] + 1 + output_pads[1]
    result = np.zeros((batch, full_h, full_w, out_channels))
    for row in range(kernel_h):
        for column in range(kernel_w):
            rows = slice(row * dilation[0], row * dilation[0] + (height - 1) * stride[0] + 1, stride[0])
            columns = slice(column * dilation[1], column * dilation[1] + (width - 1) * stride[1] + 1, stride[1])
            result[:, rows, columns] += x @ weight[:, row, column]
    top, bottom, left, right = pads
    result = result[:, top : full_h - bottom, left : full_w - right]
    return activation(result if bias is None else result + bias, act)


def pool2d(
    x: Array,
    *,
    kind: str,
    kernel: Sequence[int] = (1, 1),
    stride: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    mode: int = EXPLICIT,
    ceil: bool = False,
    whole: bool = False,
    act: str = "none",
) -> Array:
    """Largest or mean value of each window; cells of the padding are not counted."""
    x = np.asarray(x, np.float64)
    pick = np.nanmax if kind == "max" else np.nanmean
    if whole:
        return activation(pick(x, axis=(1, 2), keepdims=True), act)
    top, bottom, left, right = padding_of(mode, pads, x.shape[1:3], kernel, stride, (1, 1))
    sizes = []
    for size, window, step in (
        (x.shape[1] + top + bottom, kernel[0], stride[0]),
        (x.shape[2] + left + right, kernel[1], stride[1]),
    ):
        sizes.append((-(-(size - window) // step) if ceil else (size - window) // step) + 1)
    far = [(size - 1) * step + window for size, step, window in zip(sizes, stride, kernel, strict=True)]
    bottom, right = max(bottom, far[0] - x.shape[1] - top), max(right, far[1] - x.shape[2] - left)
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=np.nan)
    result = np.zeros((x.shape[0], *sizes, x.shape[3]))
    for row in range(sizes[0]):
        for column in range(sizes[1]):
            y0, x0 = row * stride[0], column * stride[1]
            result[:, row, column] = pick(x[:, y0 : y0 + kernel[0], x0 : x0 + kernel[1]], axis=(1, 2))
    return activation(result, act)


def softmax(x: Array, axis: int) -> Array:
    x = np.asarray(x, np.float64)
    power = np.exp(x - x.max(axis=axis, keepdims=True))
    return power / power.sum(axis=axis, keepdims=True)


REDUCE = {"mean": 0, "max": 1, "min": 2, "prod": 3, "sum": 4, "sum_square": 5, "abs_sum": 6, "all": 7, "l2": 8}


def reduce(x: Array, axes: Sequence[int], kind: str, *, keep: bool, coefficient: float = 1.0) -> Array:
    if kind == "all":
        return np.all(x, axis=tuple(axes), keepdims=keep)
    x = np.asarray(x, np.float64)
    where: dict[str, Any] = {"axis": tuple(axes), "keepdims": keep}
    match kind:
        case "mean":
            result = x.mean(**where)
        case "max":
            result = x.max(**where)
        case "min":
            result = x.min(**where)
        case "prod":
            result = x.prod(**where)
        case "sum":
            result = x.sum(**where)
        case "sum_square":
            result = (x * x).sum(**where)
        case "abs_sum":
            result = np.abs(x).sum(**where)
        case "l2":
            result = np.sqrt((x * x).sum(**where))
        case _:
            raise ValueError(kind)
    return result * coefficient


def resize_bilinear(x: Array, height: int, width: int, coordinates: str) -> Array:
    """Bilinear resize; `coordinates` is ``asymmetric``, ``align_corners`` or ``half_pixel``."""
    x = np.asarray(x, np.float64)

    def places(old: int, new: int) -> Array:
        at = np.arange(new, dtype=np.float64)
        if coordinates == "align_corners":
            return at * (old - 1) / (new - 1) if new > 1 else at * 0
        if coordinates == "half_pixel":
            return (at + 0.5) * old / new - 0.5
        return at * old / new

    def spread(value: Array, axis: int, new: int) -> Array:
        old = value.shape[axis]
        at = np.clip(places(old, new), 0, old - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, old - 1)
        shape = [1] * value.ndim
        shape[axis] = new
        share = (at - low).reshape(shape)
        return np.take(value, low, axis) * (1 - share) + np.take(value, high, axis) * share

    return spread(spread(x, 1, height), 2, width)
