"""Every operator of the reference runtime against NumPy in double precision, on random shapes and numbers."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from native.formats.ms import read_ms
from native.formats.ms_operators import known_operators
from tests.shared import ms_ops as ops
from tests.shared.ms_models import mobilenet_v2, seeded_image
from tests.shared.ms_numpy import Array
from tests.shared.ms_writer import ModelWriter, i8, i64, quantised
from tests.shared.reference_runtime import RUNTIME, BuildRefused, ReferenceModel, load_library
from tests.support.ms_cases import CASES

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def runtime(shared_cache: Path) -> ctypes.CDLL:
    return load_library(shared_cache)


def assert_close(got: Array, expected: Array) -> None:
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("number", sorted(CASES), ids=lambda number: known_operators()[number].name)
@settings(max_examples=40, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_an_operator_gives_what_numpy_gives(runtime: ctypes.CDLL, number: int, data: st.DataObject) -> None:
    model, values = CASES[number](data.draw)
    assert number in {node.operator for node in model.nodes}
    with ReferenceModel(runtime, model.to_bytes(), threads=data.draw(st.integers(1, 3))) as loaded:
        results = loaded.predict(*values)
    for got, expected in zip(results, model.evaluate(*values), strict=True):
        assert_close(got, expected)


def test_a_whole_mobilenet_gives_what_numpy_gives(runtime: ctypes.CDLL) -> None:
    model, image = mobilenet_v2(size=96), seeded_image(96)
    with ReferenceModel(runtime, model.to_bytes(), threads=2) as loaded:
        first, second = loaded.predict(image), loaded.predict(image)
    [expected] = model.evaluate(image)
    assert expected.shape == (1, 1001)
    assert_close(first[0], expected)
    np.testing.assert_array_equal(first[0], second[0])


def test_half_precision_weights_are_widened(runtime: ctypes.CDLL) -> None:
    model, image = mobilenet_v2(size=32, half=True), seeded_image(32)
    with ReferenceModel(runtime, model.to_bytes()) as loaded:
        [result] = loaded.predict(image)
    assert_close(result, model.evaluate(image)[0])


def test_split_takes_its_sizes_from_a_second_input(runtime: ctypes.CDLL) -> None:
    """As in models that were converted from ONNX 13 on."""
    model = ModelWriter()
    x = model.add_input("x", (2, 6, 3))
    sizes = model.add_constant(np.asarray([1, 3, 2], np.int32))
    model.mark_output(
        *model.add_node(
            145,
            [x, sizes],
            {0: i64(3), 2: i64(1)},
            output_count=3,
            compute=lambda x, _: np.split(x, [1, 4], 1),
        )
    )
    values = np.arange(36, dtype=np.float32).reshape(2, 6, 3)
    with ReferenceModel(runtime, model.to_bytes()) as loaded:
        for got, expected in zip(loaded.predict(values), model.evaluate(values), strict=True):
            np.testing.assert_array_equal(got, expected)


INTEGER_WEIGHTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, Callable[[ModelWriter, int, int], int]]] = {
    # shapes of input and weights, the dimension that has a scale for each cell, the operator
    "Conv2DFusion": ((1, 5, 5, 3), (4, 3, 3, 3), 0, lambda model, x, w: ops.conv2d(model, x, w)),
    "Conv2dTransposeFusion": ((1, 4, 4, 3), (3, 2, 2, 5), 3, lambda model, x, w: ops.conv2d_transpose(model, x, w)),
    "FullConnection": ((2, 6), (4, 6), 0, lambda model, x, w: ops.full_connection(model, x, w, axis=1)),
    "MatMulFusion": ((2, 6), (6, 4), 1, lambda model, x, w: ops.matmul(model, x, w)),
    "MatMulFusion, second factor turned": (
        (2, 6),
        (4, 6),
        0,
        lambda model, x, w: ops.matmul(model, x, w, transpose_b=True),
    ),
}


@pytest.mark.parametrize("data_type", [np.int8, np.int16])
@pytest.mark.parametrize("channels", [False, True], ids=["one scale", "a scale for each channel"])
@pytest.mark.parametrize("name", INTEGER_WEIGHTS)
def test_weights_in_integers_are_widened(runtime: ctypes.CDLL, name: str, channels: bool, data_type: type) -> None:
    """Published models of the converter 2.2 have their scales in int8 without the mark that they are made."""
    inputs, shape, axis, add = INTEGER_WEIGHTS[name]
    random = np.random.default_rng(3)
    whole: Array = random.integers(-100, 100, shape).astype(data_type)
    count = shape[axis] if channels else 1
    scales, zeros = random.uniform(0.001, 0.02, count), random.integers(-5, 5, count)
    spread = [-1 if dimension == axis else 1 for dimension in range(len(shape))]
    model = ModelWriter()
    x, w = model.add_input("x", inputs), model.add_constant(whole)
    model.tensors[w].extra = quantised(scales.tolist(), zeros.tolist(), made=data_type is np.int16)
    model.mark_output(add(model, x, w))
    model.constants[w] = (whole - zeros.reshape(spread)) * scales.reshape(spread)
    values = random.uniform(-1, 1, inputs).astype(np.float32)
    with ReferenceModel(runtime, model.to_bytes()) as loaded:
        assert_close(loaded.predict(values)[0], model.evaluate(values)[0])


def loads(runtime: ctypes.CDLL, content: bytes) -> bool:
    try:
        with ReferenceModel(runtime, content):
            return True
    except BuildRefused:
        return False


@pytest.mark.parametrize("number", sorted(CASES), ids=lambda number: known_operators()[number].name)
@settings(max_examples=10, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_the_inspector_says_what_the_runtime_refuses(
    runtime: ctypes.CDLL, tmp_path: Path, number: int, data: st.DataObject
) -> None:
    """The same model with its inputs and constants in their own types, and with its inputs in others."""
    model, _ = CASES[number](data.draw)
    path = tmp_path / "model.ms"
    own = [model.tensors[index].data_type for index in model.inputs]
    for kinds in (own, *([kind] * len(own) for kind in (42, 32, 34))):  # half, int8 and int32
        for index, kind in zip(model.inputs, kinds, strict=True):
            model.tensors[index].data_type = kind
        path.write_bytes(model.to_bytes())
        assert (read_ms(path).reference_lacks == ()) == loads(runtime, model.to_bytes())


WITH_KINDS = sorted(number for number, each in known_operators().items() if each.reference and each.reference.values)


@pytest.mark.parametrize("number", WITH_KINDS, ids=lambda number: known_operators()[number].name)
@settings(max_examples=2, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_the_inspector_knows_which_kinds_of_an_operator_the_runtime_has(
    runtime: ctypes.CDLL, tmp_path: Path, number: int, data: st.DataObject
) -> None:
    signature = known_operators()[number].reference
    assert signature is not None
    model, _ = CASES[number](data.draw)
    [node] = [node for node in model.nodes if node.operator == number]
    path, own = tmp_path / "model.ms", dict(node.attributes)
    for slot in signature.values:
        for value in range(-1, 24):
            node.attributes = {**own, slot: i8(value)}
            path.write_bytes(model.to_bytes())
            assert (read_ms(path).reference_lacks == ()) == loads(runtime, model.to_bytes()), (slot, value)


def test_the_number_of_threads_does_not_change_a_bit(runtime: ctypes.CDLL) -> None:
    model, image = mobilenet_v2(size=64), seeded_image(64)
    results = []
    for threads in (1, 2, 3):
        with ReferenceModel(runtime, model.to_bytes(), threads=threads) as loaded:
            results.append(loaded.predict(image)[0])
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def test_the_table_of_operators_says_what_the_runtime_computes() -> None:
    marked = {number: operator.name for number, operator in known_operators().items() if operator.reference}
    entries = [re.findall(r'^    \{(\d+), "(\w+)"', path.read_text(), re.M) for path in RUNTIME.glob("mslite/ops_*.c")]
    assert {int(number): name for table in entries for number, name in table} == marked
    assert set(CASES) == set(marked)
