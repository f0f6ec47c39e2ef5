"""The reference runtime against the real MindSpore Lite, from its wheels for Linux; opt-in, for they are 220 MB.

python scripts/fetch_real_engine.py FOLDER
OHFORGE_MINDSPORE_LITE=FOLDER pytest tests/integration/native/programs/test_real_engine.py
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.session import PROJECT
from native.formats.ms import read_ms
from native.formats.ms_operators import known_operators
from tests.shared.ms_models import mobilenet_v2, seeded_image
from tests.shared.ms_numpy import Array
from tests.shared.ms_writer import Items, ModelWriter, NodeSpec
from tests.shared.real_engine import VARIABLE, RealEngine, arm64_engine, converter_python, native_engine
from tests.shared.reference_runtime import ReferenceModel, load_library
from tests.support.ms_cases import CASES

# Read here because every test hides the user's own variables.
FOLDER = os.environ.get(VARIABLE, "")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason=f"{VARIABLE} names no folder with the real engine (see the module's text)"
)
TOLERANCE = 1e-4
CONV2D = 35
APPROXIMATED = {37: 2e-3, 126: 5e-4}
"""Cos and Rsqrt, for which the engine has quick formulas on x86_64."""
FORGETS_ACTIVATION = {47, 152}
"""Div and Sub: a fused relu has no effect in version 2.0.0."""
MOBILENET_OPERATORS = {
    "Conv2DFusion": 52,
    "AddFusion": 10,
    "AvgPoolFusion": 1,
    "Transpose": 1,
    "Flatten": 1,
    "MatMulFusion": 1,
    "Softmax": 1,
}
Engine = Callable[[ModelWriter, Sequence[Array]], list[Array]]


@pytest.fixture(scope="module")
def runtime(shared_cache: Path) -> ctypes.CDLL:
    return load_library(shared_cache)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> RealEngine:
    engine = native_engine(Path(FOLDER), tmp_path_factory.mktemp("native"))
    if engine is None:
        pytest.skip(f"no g++, or no x86_64 wheel in {FOLDER}")
    return engine


@pytest.fixture(scope="module")
def engine(native: RealEngine, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Runs a model in a process of its own."""
    folder = tmp_path_factory.mktemp("engine")

    def run(model: ModelWriter, values: Sequence[Array]) -> list[Array]:
        (folder / "model.ms").write_bytes(model.to_bytes())
        return native.run(folder / "model.ms", values, folder)[0]

    return run


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes MobileNetV2 by the real converter, from ONNX."""
    python = converter_python(Path(FOLDER))
    if python is None:
        pytest.skip(f"no Python 3.7 with the converter in {FOLDER}")
    folder = tmp_path_factory.mktemp("converted")
    script = PROJECT / "tests" / "support" / "convert_mobilenet.py"

    def convert(*flags: str) -> Path:
        path = folder / f"mobilenetv2{''.join(flags)}.ms"
        done = subprocess.run([python, script, path, *flags], capture_output=True, text=True, timeout=300)
        assert "CONVERT RESULT SUCCESS:0" in done.stdout, done.stdout + done.stderr
        return path

    return convert


def left_to_itself(model: ModelWriter, operator: int) -> bool:
    """True for what version 2.0.0 of the engine is known to compute wrongly."""
    node = next(node for node in model.nodes if node.operator == operator)
    if operator in FORGETS_ACTIVATION:
        return bool(getattr(node.attributes[0], "value", 0))
    return operator == CONV2D and _depthwise_with_empty_windows(model, node)


def _depthwise_with_empty_windows(model: ModelWriter, node: NodeSpec) -> bool:
    """A window that sees nothing but padding gives whatever lay in memory."""
    _, height, width, per_group = model.constants[node.inputs[1]].shape
    pads = node.attributes.get(5)
    if per_group != 1 or not isinstance(pads, Items):
        return False
    dilation = np.frombuffer(node.attributes[3].raw, "<i8")  # type: ignore[union-attr]
    top, bottom, left, right = np.frombuffer(pads.raw, "<i8")
    tall, wide = (height - 1) * dilation[0] + 1, (width - 1) * dilation[1] + 1
    return bool(max(top, bottom) >= tall or max(left, right) >= wide)


@pytest.mark.parametrize("number", sorted(CASES), ids=lambda number: known_operators()[number].name)
@settings(max_examples=6, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
def test_the_engine_takes_every_operator_and_gives_the_same(
    engine: Engine, runtime: ctypes.CDLL, number: int, data: st.DataObject
) -> None:
    model, values = CASES[number](data.draw)
    if left_to_itself(model, number):
        return
    with ReferenceModel(runtime, model.to_bytes()) as loaded:
        ours = loaded.predict(*values)
    for mine, real in zip(ours, engine(model, values), strict=True):
        assert mine.shape == real.shape
        tolerance = APPROXIMATED.get(number, TOLERANCE)
        np.testing.assert_allclose(mine, real, rtol=tolerance, atol=tolerance)


def test_a_whole_mobilenet_gives_the_same(engine: Engine, runtime: ctypes.CDLL) -> None:
    model, image = mobilenet_v2(), seeded_image(224)
    with ReferenceModel(runtime, model.to_bytes()) as loaded:
        [mine] = loaded.predict(image)
    [real] = engine(model, [image])
    assert real.shape == (1, 1001)
    np.testing.assert_allclose(mine, real, rtol=TOLERANCE, atol=1e-6)


def test_half_precision_weights_give_the_same(engine: Engine, runtime: ctypes.CDLL) -> None:
    model, image = mobilenet_v2(size=64, half=True), seeded_image(64)
    with ReferenceModel(runtime, model.to_bytes()) as loaded:
        [mine] = loaded.predict(image)
    np.testing.assert_allclose(mine, engine(model, [image])[0], rtol=1e-3, atol=1e-6)


def test_a_mobilenet_of_the_real_converter_gives_the_same_everywhere(
    converted: Callable[..., Path], native: RealEngine, runtime: ctypes.CDLL, tmp_path: Path
) -> None:
    """Four ways: the engine here and for arm64, the reference runtime, and NumPy over the same network by our writer."""
    path, image = converted(), seeded_image(224)
    info = read_ms(path)
    assert {operator.name: count for operator, count in info.operators} == MOBILENET_OPERATORS
    assert not info.problems
    [real] = native.run(path, [image], tmp_path)[0]
    with ReferenceModel(runtime, path.read_bytes()) as loaded:
        [mine] = loaded.predict(image)
    [numpy] = mobilenet_v2().evaluate(image)
    for other in (mine, numpy.astype(np.float32)):
        np.testing.assert_allclose(other, real, rtol=TOLERANCE, atol=1e-6)
    arm64 = arm64_engine(Path(FOLDER), tmp_path)
    if arm64 is None:
        pytest.skip(f"the rest agreed; no arm64 wheel, cross compiler or qemu in {FOLDER}")
    np.testing.assert_allclose(arm64.run(path, [image], tmp_path)[0][0], real, rtol=TOLERANCE, atol=1e-6)


def test_half_precision_weights_of_the_real_converter_give_the_same(
    converted: Callable[..., Path], native: RealEngine, runtime: ctypes.CDLL, tmp_path: Path
) -> None:
    path, image = converted("--half"), seeded_image(224)
    with ReferenceModel(runtime, path.read_bytes()) as loaded:
        [mine] = loaded.predict(image)
    np.testing.assert_allclose(mine, native.run(path, [image], tmp_path)[0][0], rtol=1e-3, atol=1e-6)
