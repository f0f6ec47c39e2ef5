"""mslite and nnrt on the emulated board, 64 and 32 bits: built, sent, run, their outputs fetched, all with zig.

The C library and libc++ for ARM are compiled once; OHFORGE_TEST_CACHE keeps them between runs of the tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands.show import show_outcome
from core.errors import ModelError, ProgramFailed, UsageError
from core.session import Session
from deploy.emulator.board.boards import list_emulated, stop_board
from deploy.launch.launch import run_model, run_program
from deploy.launch.request import LaunchRequest
from deploy.run.options import RunOptions
from deploy.run.record import validate_record
from native.programs import PROGRAMS
from tests.shared.ms_models import mobilenet_v2, seeded_image
from toolchains.host_toolchain import ToolchainChoice

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
    return LaunchRequest(board="dayu200", **fields, choice=ToolchainChoice(arch=arch, toolchain="zig"))  # type: ignore[arg-type]


def record_of(folder: Path) -> dict[str, Any]:
    content = json.loads((folder / "record.json").read_text())
    validate_record(content)
    return dict(content)


def test_a_mobilenet_gives_numpys_numbers_on_both_arches(
    boards: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, image = mobilenet_v2(size=64), seeded_image(64)
    path, labels = tmp_path / "mobilenetv2.ms", tmp_path / "labels.txt"
    path.write_bytes(model.to_bytes())
    labels.write_text("".join(f"thing {number}\n" for number in range(1001)))
    np.save(tmp_path / "in.npy", image)
    [expected] = model.evaluate(image)
    for arch in ARCHES:
        outcome = run_model(
            boards,
            request(
                arch,
                model=str(path),
                given={"input": [str(tmp_path / "in.npy")], "labels": str(labels), "loops": 2, "top": 1},
            ),
        )
        assert (outcome.exit_code, outcome.complete, outcome.emulated) == (0, True, True)
        record = record_of(outcome.record)
        assert {path.name for path in outcome.outputs} == {"0-Softmax-65.npy", "outputs.json"}
        written = np.load(outcome.record / "outputs" / "0-Softmax-65.npy")
        np.testing.assert_allclose(written, expected, rtol=1e-5, atol=1e-5)
        assert outcome.metrics["loops"]["value"] == 2
        assert outcome.metrics["predict_median_ms"]["value"] > 0
        assert outcome.facts["engine"].startswith("ohforge reference runtime")
        assert (record["device"]["asked"], record["device"]["used"]) == ("cpu", "cpu")
        assert record["log"] is None  # Nothing went wrong, and the CPU needs no proof.
        assert outcome.facts["last_output"] == "Softmax-65"
        best = int(expected.argmax())
        assert re.match(rf"class {best}, [\d.]+, thing {best}$", outcome.facts["top_1"])
        capsys.readouterr()
        show_outcome(boards.console, outcome)
        shown = capsys.readouterr().out
        assert "REFERENCE RUNTIME, not MindSpore Lite" in shown
        assert "EMULATED" in shown
        assert "outputs/0-Softmax-65.npy  f4 1x1001" in shown


def test_an_input_that_does_not_fit_is_refused_before_anything_is_built_or_sent(
    boards: Session, tmp_path: Path
) -> None:
    path = tmp_path / "mobilenetv2.ms"
    path.write_bytes(mobilenet_v2(size=32, width=0.25, classes=3).to_bytes())
    np.save(tmp_path / "turned.npy", np.moveaxis(seeded_image(32), -1, 1))
    for inputs, sentence in (("turned.npy", "has shape 1x3x32x32"), ("nowhere.npy", "There is no input file")):
        with pytest.raises(UsageError, match=sentence):
            run_model(boards, request("arm64", model=str(path), given={"input": [str(tmp_path / inputs)]}))
    assert not boards.settings.builds.exists()
    assert not boards.settings.runs.exists()


def test_a_silent_fallback_to_the_cpu_is_found_and_said_loudly(
    boards: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.ms"
    path.write_bytes(mobilenet_v2(size=32, width=0.25, classes=3).to_bytes())

    def run(**variables: str) -> dict[str, Any]:
        environment = {"OHFORGE_NNRT_DEVICES": "1", **variables}
        options = RunOptions(environment=environment)
        asked = request("arm64", model=str(path), parameters={"device": "nnrt"}, options=options)
        outcome = run_model(boards, asked)
        show_outcome(boards.console, outcome)
        return record_of(outcome.record)

    device = run()["device"]
    assert (device["asked"], device["used"], device["listed"]) == ("nnrt", "nnrt", ["reference-cpu_ohforge_v2_0"])
    assert "THE CPU COMPUTED" not in capsys.readouterr().err
    fallen = run(OHFORGE_NNRT_FALLBACK="1")
    assert (fallen["state"], fallen["device"]["used"]) == ("done", "cpu")
    # The board's log says so too, as that of a board with MindSpore Lite does.
    assert any(" W C02102/MS_LITE: " in line and "fallback to CPU" in line for line in fallen["device"]["how"])
    assert fallen["log"]["lines"] == 1
    assert "NNRt was asked for, but THE CPU COMPUTED the model" in capsys.readouterr().err
    with pytest.raises(ProgramFailed, match=r"status 69: The NNRt device that was asked for does not exist") as caught:
        run(OHFORGE_NNRT_DEVICES="0")
    assert "--device cpu" in caught.value.remedy


def test_a_model_that_the_runtime_lacks_is_refused_before_anything_is_built(boards: Session, tmp_path: Path) -> None:
    model = mobilenet_v2(size=32, width=0.25, classes=3)
    model.nodes[-1].operator = 1 + model.nodes[-1].operator
    path = tmp_path / "unknown.ms"
    path.write_bytes(model.to_bytes())
    with pytest.raises(ModelError, match="It lacks: SoftmaxCrossEntropyWithLogits"):
        run_model(boards, request("arm64", model=str(path)))


@pytest.mark.parametrize("arch", ARCHES)
def test_nnrt_runs_with_one_device_and_says_when_there_is_none(boards: Session, arch: str) -> None:
    none = run_program(boards, request(arch, program="nnrt"))
    assert (none.exit_code, "No available device." in none.output.decode()) == (69, True)
    net = PROGRAMS / "nnrt" / "examples" / "conv_relu_softmax.yaml"
    device = {"OHFORGE_NNRT_DEVICES": "1"}
    one = run_program(
        boards,
        request(
            arch,
            program="nnrt",
            given={"net": str(net)},
            arguments=("--values", "3"),
            options=RunOptions(environment=device),
        ),
    )
    assert one.exit_code == 0
    assert record_of(one.record)["command"]["words"] == ["./nnrt", "--net", "conv_relu_softmax.json", "--values", "3"]
    assert "output 0: probabilities 1x3x3x4" in one.output.decode()
    assert "limit 1e-05: good" in one.output.decode()
