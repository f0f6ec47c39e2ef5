"""mslite and nnrt for x86_64, built by their recipes with zig and run on this machine: no board, no qemu."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from core.session import Session
from native.build.ensure import BuildRequest, ensure_built
from native.formats.ms import read_ms
from native.models.inputs import prepare_inputs
from native.models.networks import prepare_network
from native.programs import PROGRAMS
from tests.shared.ms_models import mobilenet_v2
from toolchains.host_toolchain import ToolchainChoice

SIDE, SHRUNK = 64, 73
"""The model's input; what a picture is shrunk to before its middle is cut out: 64 * 256 / 224."""
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="runs programs for x86_64 without an emulator"),
]


@pytest.fixture(autouse=True)
def lasting_caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))


def build(session: Session, target: str) -> Path:
    artifact = ensure_built(
        session, BuildRequest(target=target, choice=ToolchainChoice(arch="x86_64", toolchain="zig"))
    ).artifact
    assert artifact.arch == "x86_64"
    [product] = artifact.products
    return artifact.path_of(product)


def run(program: Path, folder: Path, *words: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run([program, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_picture_goes_in_and_the_classes_come_out_with_their_labels(session: Session, tmp_path: Path) -> None:
    model = mobilenet_v2(size=SIDE, width=0.5, classes=11)
    (tmp_path / "model.ms").write_bytes(model.to_bytes())
    (tmp_path / "labels.txt").write_text("".join(f"thing {number}\n" for number in range(11)))
    levels = np.random.default_rng(3).integers(0, 256, (SHRUNK, SHRUNK, 3), dtype=np.uint8)
    Image.fromarray(levels).save(tmp_path / "picture.png")
    prepared = prepare_inputs(read_ms(tmp_path / "model.ms"), [str(tmp_path / "picture.png")], tmp_path)
    words = (*prepared.arguments, "--output", ".", "--top", "3", "--labels", "labels.txt", "model.ms")
    output = run(build(session, "mslite"), tmp_path, *words)
    # A picture of that size is only cut and normalised, which is worked out here once more.
    edge = (SHRUNK - SIDE) // 2
    middle = levels[edge : edge + SIDE, edge : edge + SIDE]
    [expected] = model.evaluate(((middle / 255 - MEAN) / DEVIATION)[np.newaxis].astype(np.float32))
    np.testing.assert_allclose(np.load(tmp_path / "0-Softmax-65.npy"), expected, rtol=1e-5, atol=1e-5)
    best = np.argsort(expected[0])[::-1][:3]
    assert re.findall(r"^top \d: class (\d+), [\d.]+, (.+)$", output, re.MULTILINE) == [
        (str(number), f"thing {number}") for number in best
    ]
    assert "REFERENCE RUNTIME" in output


@pytest.mark.exhaustive
def test_a_network_in_yaml_is_computed(session: Session, tmp_path: Path) -> None:
    net = prepare_network(PROGRAMS / "nnrt" / "examples" / "conv_relu_softmax.yaml", tmp_path)
    output = run(build(session, "nnrt"), tmp_path, "--net", str(net), OHFORGE_NNRT_DEVICES="1")
    assert "check: 36 values" in output
    assert output.endswith("result: complete\n")
