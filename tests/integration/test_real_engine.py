"""The reference runtime against the real MindSpore Lite, from its wheel for Linux; opt-in, for it is 170 MB.

Fetch it once, unpack it, and say where it is:

    pip download --no-deps --only-binary=:all: --python-version 3.7 --implementation cp --abi cp37m \\
        --platform manylinux1_x86_64 mindspore-lite==2.0.0
    python -m zipfile -e mindspore_lite-2.0.0-*.whl FOLDER
    OHFORGE_MINDSPORE_LITE=FOLDER pytest tests/integration/test_real_engine.py
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from native.formats.ms_operators import known_operators
from tests.support.ms_cases import CASES
from tests.support.ms_models import mobilenet_v2, seeded_image
from tests.support.ms_numpy import Array
from tests.support.ms_writer import Items, ModelWriter, NodeSpec
from tests.support.reference_runtime import ReferenceModel, load_library

# Read here because every test hides the user's own variables.
FOLDER = os.environ.get("OHFORGE_MINDSPORE_LITE", "")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="OHFORGE_MINDSPORE_LITE names no unpacked wheel (see the module's text)"
)
TOLERANCE = 1e-4
CONV2D = 35
APPROXIMATED = {37: 2e-3, 126: 5e-4}
"""Cos and Rsqrt, for which the engine has quick formulas on x86_64."""
FORGETS_ACTIVATION = {47, 152}
"""Div and Sub: a fused relu has no effect in version 2.0.0."""
Engine = Callable[[ModelWriter, Sequence[Array]], list[Array]]


@pytest.fixture(scope="module")
def runtime(shared_cache: Path) -> ctypes.CDLL:
    return load_library(shared_cache)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Runs a model in a process of its own; the wheel's library has the old ABI of libstdc++."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++: zig's libc++ does not fit the engine's library")
    folder, wheel = tmp_path_factory.mktemp("engine"), Path(FOLDER) / "mindspore_lite"
    libraries = wheel / "lib"
    program = folder / "engine"
    source = Path(__file__).parents[1] / "support" / "real_engine.cpp"
    flags = ["-std=c++17", "-O1", "-w", "-D_GLIBCXX_USE_CXX11_ABI=0", f"-I{wheel}", str(source), f"-L{libraries}"]
    flags += ["-l:libmindspore-extendrt_python.so", "-Wl,--allow-shlib-undefined", "-o", str(program)]
    subprocess.run([compiler, *flags], check=True, timeout=300)

    def run(model: ModelWriter, values: Sequence[Array]) -> list[Array]:
        (folder / "model.ms").write_bytes(model.to_bytes())
        files = [folder / f"in{number}.raw" for number in range(len(values))]
        for file, value in zip(files, values, strict=True):
            file.write_bytes(np.ascontiguousarray(value).tobytes())
        done = subprocess.run(
            [program, folder / "model.ms", folder, *files],
            env={"LD_LIBRARY_PATH": str(libraries)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        results = []
        for line in done.stdout.splitlines():
            number, _, _, *shape = line.split()
            sizes = [int(size) for size in shape[0].split(",") if size] if shape else []
            results.append(np.frombuffer((folder / f"{number}.raw").read_bytes(), np.float32).reshape(sizes))
        return results

    return run


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
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
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
