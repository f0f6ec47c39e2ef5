"""Every operator of the reference runtime against NumPy in double precision, on random shapes and numbers."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from native.formats.ms_operators import known_operators
from tests.shared.ms_models import mobilenet_v2, seeded_image
from tests.shared.ms_numpy import Array
from tests.shared.reference_runtime import RUNTIME, ReferenceModel, load_library
from tests.support.ms_cases import CASES

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def runtime(shared_cache: Path) -> ctypes.CDLL:
    return load_library(shared_cache)


def assert_close(got: Array, expected: Array) -> None:
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("number", sorted(CASES), ids=lambda number: known_operators()[number].name)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
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
