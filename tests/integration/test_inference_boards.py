"""mslite and nnrt on the emulated board, 64 and 32 bits: built, sent, run, their outputs fetched, all with zig.

The C library and libc++ for ARM are compiled once; OHFORGE_TEST_CACHE keeps them between runs of the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from core.errors import ProgramFailed
from core.session import PROJECT, Session
from deploy.emulator.disk import list_emulated, stop_board
from deploy.launch import LaunchRequest, run_model, run_program
from native.exit_status import explain_exit
from native.recipe import RECIPES
from tests.support.ms_models import mobilenet_v2, seeded_image

ARCHES = ("arm64", "arm32")
pytestmark = pytest.mark.timeout(2700)


@pytest.fixture(autouse=True)
def lasting_caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))


@pytest.fixture
def boards(session: Session) -> Iterator[Session]:
    """A session whose emulated boards are stopped afterwards."""
    yield session
    for emulated in list_emulated(session.settings.data / "boards"):
        stop_board(emulated)


def request(arch: str, **fields: object) -> LaunchRequest:
    return LaunchRequest(board="dayu200", arch=arch, cpu="generic", toolchain="zig", **fields)  # type: ignore[arg-type]


def test_a_mobilenet_gives_numpys_numbers_on_both_arches(boards: Session, tmp_path: Path) -> None:
    model, image = mobilenet_v2(size=64), seeded_image(64)
    path = tmp_path / "mobilenetv2.ms"
    path.write_bytes(model.to_bytes())
    np.save(tmp_path / "in.npy", image)
    [expected] = model.evaluate(image)
    schema = json.loads((PROJECT / "docs" / "record.schema.json").read_text())
    for arch in ARCHES:
        parameters: dict[str, str | int | float] = {"input": "in.npy", "loops": 2, "top": 1}
        outcome = run_model(
            boards, request(arch, model=str(path), files=(str(tmp_path / "in.npy"),), parameters=parameters)
        )
        assert (outcome.exit_code, outcome.complete, outcome.emulated) == (0, True, True)
        jsonschema.validate(json.loads((outcome.record / "record.json").read_text()), schema)
        assert {path.name for path in outcome.outputs} >= {"0-Softmax-65.npy", "outputs.json"}
        written = np.load(outcome.record / "outputs" / "0-Softmax-65.npy")
        np.testing.assert_allclose(written, expected, rtol=1e-5, atol=1e-5)
        assert outcome.metrics["loops"]["value"] == 2
        assert outcome.metrics["predict_median_ms"]["value"] > 0
        assert outcome.facts["engine"].startswith("ohforge reference runtime")
        assert (outcome.facts["device_asked"], outcome.facts["device_used"]) == ("cpu", "cpu")
        assert outcome.facts["last_output"] == "Softmax-65"
        assert outcome.facts["top_1"].startswith(f"class {int(expected.argmax())},")


def test_a_model_that_the_runtime_lacks_ends_with_a_status_that_has_a_sentence(boards: Session, tmp_path: Path) -> None:
    model = mobilenet_v2(size=32, width=0.25, classes=3)
    model.nodes[-1].operator = 1 + model.nodes[-1].operator
    path = tmp_path / "unknown.ms"
    path.write_bytes(model.to_bytes())
    with pytest.raises(ProgramFailed) as caught:
        run_model(boards, request("arm64", model=str(path)))
    assert "lacks operator 139" in caught.value.message
    assert explain_exit("mslite", 255, caught.value.message).name == "LITE_ERROR"


@pytest.mark.parametrize("arch", ARCHES)
def test_nnrt_runs_with_one_device_and_says_when_there_is_none(boards: Session, arch: str) -> None:
    none = run_program(boards, request(arch, program="nnrt"))
    assert (none.exit_code, "No available device." in none.output.decode()) == (69, True)
    net = RECIPES / "nnrt" / "examples" / "conv_relu_softmax.json"
    one = run_program(
        boards,
        request(
            arch,
            program="nnrt",
            arguments=("--net", net.name),
            files=(str(net),),
            environment={"OHFORGE_NNRT_DEVICES": "1"},
        ),
    )
    assert one.exit_code == 0
    assert "output 0: probabilities 1x3x3x4" in one.output.decode()
    assert "limit 1e-05: good" in one.output.decode()
