"""Every operation of the reference runtime of NNRt against NumPy in double precision, on random shapes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.shared import ms_numpy as known
from tests.shared.ms_numpy import EXPLICIT, SAME, VALID, Array
from tests.support.nnrt_runtime import SUCCESS, Graph, Nnrt, run_graph

ADD, AVG_POOL, BATCH_NORM, BIAS_ADD, CONCAT, CONV2D, DEPTHWISE, DIV = 1, 2, 3, 5, 7, 8, 10, 11
FULL_CONNECTION, MATMUL, MAXIMUM, MAX_POOL, MUL, PAD, SCALE, SIGMOID = 15, 19, 20, 21, 22, 24, 26, 28
SOFTMAX, SUB, TANH, TRANSPOSE, REDUCE_MEAN, RESHAPE, RELU, RELU6 = 30, 38, 39, 41, 42, 45, 47, 48
ACTIVATIONS = ["none", "relu", "relu6"]
Draw = Callable[[Any], Any]


@pytest.fixture(scope="module")
def nnrt(shared_cache: Path) -> Nnrt:
    return Nnrt(shared_cache, 12)


@dataclass
class Case:
    """One operation: inputs that are fed, inputs that are constants behind them, parameters, and what must come out."""

    fed: list[Array]
    expected: Array
    constants: list[Array] = field(default_factory=list)
    parameters: list[tuple[int, Any, str]] = field(default_factory=list)
    """Role, value, data type."""


def numbers(draw: Draw, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> Array:
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1))).uniform(low, high, shape).astype(np.float32)


def shape(draw: Draw, least: int = 1) -> list[int]:
    return list(draw(st.lists(st.integers(1, 5), min_size=least, max_size=4)))


def size(draw: Draw, most: int, least: int = 1) -> int:
    return int(draw(st.integers(least, most)))


def act(draw: Draw, role: int) -> tuple[str, tuple[int, Any, str]]:
    name = draw(st.sampled_from(ACTIVATIONS))
    return name, (role, ACTIVATIONS.index(name), "int8")


def binary(role: int, formula: Callable[[Array, Array], Array]) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        dims = shape(draw)
        a, b = numbers(draw, dims), numbers(draw, [draw(st.sampled_from([1, side])) for side in dims], 0.5)
        name, parameter = act(draw, role)
        result = formula(a.astype(np.float64), b.astype(np.float64))
        return Case([a, b], known.activation(result, name if role else "none"), [], [parameter] if role else [])

    return case


def unary(name: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        x = numbers(draw, shape(draw), -8, 8)
        return Case([x], known.activation(x, name))

    return case


def window_parameters(draw: Draw, mode_role: int, pad_role: int) -> tuple[int, tuple[int, ...], tuple[int, Any, str]]:
    """A padding as the NumPy formulas take it, and as a parameter: pad mode 0 is SAME here, 1 is VALID."""
    mode = draw(st.sampled_from([EXPLICIT, SAME, VALID]))
    if mode == EXPLICIT:
        pads = tuple(size(draw, 1, 0) for _ in range(4))
        return mode, pads, (pad_role, pads, "int64")
    return mode, (), (mode_role, 0 if mode == SAME else 1, "int8")


def conv2d(draw: Draw) -> Case:
    group, per_in, per_out = size(draw, 2), size(draw, 3), size(draw, 5)
    kernel, stride, dilation = [(size(draw, top), size(draw, top)) for top in (3, 2, 2)]
    x = numbers(draw, (size(draw, 2), size(draw, 9, 5), size(draw, 9, 5), per_in * group))
    weight, bias = numbers(draw, (per_out * group, *kernel, per_in), -0.5, 0.5), numbers(draw, (per_out * group,))
    mode, pads, padding = window_parameters(draw, 14, 12)
    name, activation = act(draw, 15)
    expected = known.conv2d(
        x, weight, bias, stride=stride, dilation=dilation, pads=pads, mode=mode, group=group, act=name
    )
    parameters = [(11, stride, "int64"), (13, dilation, "int64"), padding, (16, group, "int64"), activation]
    return Case([x], expected, [weight, bias], parameters)


def depthwise(draw: Draw) -> Case:
    channels = size(draw, 9, 2)
    kernel, stride, dilation = [(size(draw, top), size(draw, top)) for top in (3, 2, 2)]
    x = numbers(draw, (size(draw, 2), size(draw, 9, 5), size(draw, 9, 5), channels))
    weight, bias = numbers(draw, (channels, *kernel, 1), -0.5, 0.5), numbers(draw, (channels,))
    mode, pads, padding = window_parameters(draw, 27, 25)
    name, activation = act(draw, 28)
    expected = known.conv2d(
        x, weight, bias, stride=stride, dilation=dilation, pads=pads, mode=mode, group=channels, act=name
    )
    return Case([x], expected, [weight, bias], [(24, stride, "int64"), (26, dilation, "int64"), padding, activation])


def pool(kind: str) -> Callable[[Draw], Case]:
    roles = (36, 37, 38, 39, 40, 115) if kind == "max" else (2, 3, 4, 5, 6, 110)

    def case(draw: Draw) -> Case:
        kernel, stride = [(size(draw, 3, 2), size(draw, 3, 2)) for _ in range(2)]
        x = numbers(draw, (size(draw, 2), size(draw, 9, 3), size(draw, 9, 3), size(draw, 4)))
        name, activation = act(draw, roles[4])
        if draw(st.integers(0, 3)) == 0:
            whole = known.pool2d(x, kind=kind, whole=True, act=name)
            return Case([x], whole, [], [(roles[5], True, "bool"), activation])
        mode, pads, padding = window_parameters(draw, roles[2], roles[3])
        expected = known.pool2d(x, kind=kind, kernel=kernel, stride=stride, pads=pads, mode=mode, act=name)
        return Case([x], expected, [], [(roles[0], kernel, "int64"), (roles[1], stride, "int64"), padding, activation])

    return case


def matmul(draw: Draw) -> Case:
    lead = shape(draw)[: size(draw, 2, 0)]
    rows, depth, columns = size(draw, 7), size(draw, 20), size(draw, 12)
    turn_a, turn_b = draw(st.booleans()), draw(st.booleans())
    a, b = numbers(draw, [*lead, rows, depth], -1, 1), numbers(draw, [*lead, depth, columns], -1, 1)
    name, activation = act(draw, 35)
    expected = known.activation(a.astype(np.float64) @ b.astype(np.float64), name)
    fed = [np.swapaxes(a, -1, -2) if turn_a else a, np.swapaxes(b, -1, -2) if turn_b else b]
    return Case(fed, expected, [], [(33, turn_a, "bool"), (34, turn_b, "bool"), activation])


def full_connection(draw: Draw) -> Case:
    rows, depth, outs = size(draw, 4), size(draw, 12), size(draw, 12)
    x, weight, bias = numbers(draw, (rows, depth)), numbers(draw, (outs, depth), -0.5, 0.5), numbers(draw, (outs,))
    name, activation = act(draw, 32)
    expected = known.activation(x.astype(np.float64) @ weight.T.astype(np.float64) + bias, name)
    return Case([x], expected, [weight, bias], [activation, (111, True, "bool")])


def axis_of(draw: Draw, dims: Sequence[int]) -> int:
    return int(draw(st.integers(-len(dims), len(dims) - 1)))


def softmax(draw: Draw) -> Case:
    x = numbers(draw, shape(draw))
    axis = axis_of(draw, x.shape)
    return Case([x], known.softmax(x, axis), [], [(46, axis, "int64")])


def concat(draw: Draw) -> Case:
    first = numbers(draw, shape(draw))
    axis = axis_of(draw, first.shape)
    other = list(first.shape)
    other[axis] = size(draw, 3)
    parts = [first, numbers(draw, other), first * 2]
    return Case(parts, np.concatenate(parts, axis), [], [(10, axis, "int64")])


def scale(draw: Draw) -> Case:
    x = numbers(draw, shape(draw))
    axis = axis_of(draw, x.shape)
    factor, offset = numbers(draw, (x.shape[axis],)), numbers(draw, (x.shape[axis],))
    spread = [1] * x.ndim
    spread[axis] = -1
    name, activation = act(draw, 44)
    result = x.astype(np.float64) * factor.reshape(spread) + offset.reshape(spread)
    return Case([x], known.activation(result, name), [factor, offset], [(45, axis, "int64"), activation])


def batch_norm(draw: Draw) -> Case:
    x = numbers(draw, shape(draw))
    gamma, beta, mean = (numbers(draw, x.shape[-1:]) for _ in range(3))
    variance = numbers(draw, x.shape[-1:], 0.1)
    expected = (x.astype(np.float64) - mean) / np.sqrt(variance.astype(np.float64) + 1e-3) * gamma + beta
    return Case([x], expected, [gamma, beta, mean, variance], [(7, 1e-3, "float32")])


def bias_add(draw: Draw) -> Case:
    x = numbers(draw, shape(draw))
    bias = numbers(draw, x.shape[-1:])
    return Case([x], x.astype(np.float64) + bias, [bias])


def pad(draw: Draw) -> Case:
    x = numbers(draw, shape(draw))
    widths = np.asarray([(size(draw, 2, 0), size(draw, 2, 0)) for _ in x.shape], np.int32)
    expected = np.pad(x.astype(np.float64), widths.tolist(), constant_values=-1.5)
    return Case([x], expected, [widths], [(43, -1.5, "float32")])


def reduce_mean(draw: Draw) -> Case:
    x = numbers(draw, shape(draw))
    axes = sorted(draw(st.sets(st.integers(0, x.ndim - 1), min_size=1)))
    keep = draw(st.booleans())
    expected = known.reduce(x, axes, "mean", keep=keep)
    return Case([x], expected, [np.asarray(axes, np.int32)], [(60, keep, "bool")])


def reshape(draw: Draw) -> Case:
    x = numbers(draw, shape(draw, 2))
    new = draw(st.sampled_from([[0, -1], [-1], list(x.shape[::-1])]))
    whole = [x.shape[0], -1] if new == [0, -1] else new
    return Case([x], x.astype(np.float64).reshape(whole), [np.asarray(new, np.int32)])


def transpose(draw: Draw) -> Case:
    x = numbers(draw, shape(draw))
    order = draw(st.permutations(range(x.ndim)))
    return Case([x], np.transpose(x.astype(np.float64), order), [np.asarray(order, np.int32)])


CASES: dict[int, Callable[[Draw], Case]] = {
    ADD: binary(1, np.add),
    SUB: binary(59, np.subtract),
    MUL: binary(41, np.multiply),
    DIV: binary(29, np.divide),
    MAXIMUM: binary(0, np.maximum),
    CONV2D: conv2d,
    DEPTHWISE: depthwise,
    AVG_POOL: pool("mean"),
    MAX_POOL: pool("max"),
    MATMUL: matmul,
    FULL_CONNECTION: full_connection,
    RELU: unary("relu"),
    RELU6: unary("relu6"),
    SIGMOID: unary("sigmoid"),
    TANH: unary("tanh"),
    SOFTMAX: softmax,
    CONCAT: concat,
    SCALE: scale,
    BATCH_NORM: batch_norm,
    BIAS_ADD: bias_add,
    PAD: pad,
    REDUCE_MEAN: reduce_mean,
    RESHAPE: reshape,
    TRANSPOSE: transpose,
}


def compute(nnrt: Nnrt, kind: int, case: Case) -> Array:
    graph = Graph(nnrt)
    fed = [graph.add(value.shape) for value in case.fed]
    constants = [graph.add(value.shape, value) for value in case.constants]
    parameters = [graph.parameter(*parameter) for parameter in case.parameters]
    result = graph.add(case.expected.shape)
    assert graph.operation(kind, parameters, [*fed, *constants], [result]) == SUCCESS
    assert graph.specify(fed, [result]) == SUCCESS
    assert graph.finish() == SUCCESS
    values = run_graph(nnrt, graph, case.fed, case.expected.shape)
    graph.close()
    return values


@pytest.mark.parametrize("kind", sorted(CASES))
@settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_an_operation_gives_what_numpy_gives(nnrt: Nnrt, kind: int, data: st.DataObject) -> None:
    case = CASES[kind](data.draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OHFORGE_NNRT_DEVICES", "1")
        result = compute(nnrt, kind, case)
    np.testing.assert_allclose(result, case.expected, rtol=1e-5, atol=1e-5)
