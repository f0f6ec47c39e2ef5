"""The main job: llama.cpp built for ARM, pushed with a model to the emulated DAYU200, run, recorded.

The first build takes minutes; OHFORGE_TEST_CACHE keeps the compiler cache between runs of the tests.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from core.session import PROJECT, Session
from core.testing import RecordingRunner
from deploy.emulator.board.boards import list_emulated, stop_board
from deploy.launch.launch import run_model
from deploy.launch.request import LaunchRequest
from deploy.run.result import RunOutcome
from tests.shared.tiny_gguf import write_tiny_gguf
from toolchains.host_toolchain import ToolchainChoice

PROMPT = "the cat"
TOKENS = 16


@pytest.fixture(autouse=True)
def lasting_caches(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))


@pytest.fixture
def counting(session: Session) -> Iterator[Session]:
    """A session whose runner remembers its calls; the emulated boards are stopped afterwards."""
    by_agent = dataclasses.replace(session.settings, run_engine="agent")
    yield dataclasses.replace(session, runner=RecordingRunner(), settings=by_agent)
    for emulated in list_emulated(session.settings.data / "boards"):
        stop_board(emulated)


def run(session: Session, model: Path, board: str, arch: str) -> RunOutcome:
    request = LaunchRequest(
        model=str(model),
        board=board,
        choice=ToolchainChoice(arch=arch, toolchain="zig"),
        given={"prompt": PROMPT, "tokens": TOKENS},
    )
    return run_model(session, request)


def record_of(outcome: RunOutcome) -> dict[str, object]:
    content: dict[str, object] = json.loads((outcome.record / "record.json").read_text())
    return content


@pytest.mark.timeout(2700)
def test_a_model_runs_on_both_arches_with_the_same_text_and_a_valid_record(counting: Session, tmp_path: Path) -> None:
    """An F32 model is computed in single precision everywhere, so greedy text does not depend on the arch.

    Both images of the DAYU200 take the CPU tuning of its SoC, which is what a user gets who names none.
    """
    model = write_tiny_gguf(tmp_path / "tiny.gguf", "F32")
    schema = json.loads((PROJECT / "docs" / "record.schema.json").read_text())
    places = [(board, arch) for board in ("dayu200", "dayu200-arm64") for arch in ("arm64", "arm32")]
    outcomes = {place: run(counting, model, *place) for place in places}
    [text] = {outcome.facts["text"].strip() for outcome in outcomes.values()}
    assert text.startswith(PROMPT)
    assert len(text) > len(PROMPT) + TOKENS // 2
    for (_, arch), outcome in outcomes.items():
        record = record_of(outcome)
        jsonschema.validate(record, schema)
        assert record["state"] == "done"
        assert outcome.emulated
        assert outcome.metrics["generation_runs"]["value"] == TOKENS - 1
        assert outcome.metrics["generation_tokens_per_second"]["value"] > 0
        artifact = record["program"]["artifact"]  # type: ignore[index]
        assert artifact["arch"] == arch
        # The SoC has Cortex-A55, and that has dot products.
        assert "DOTPROD = 1" in outcome.facts["cpu_features"]

    # Everything is on the board and built: what is left is one call to look and one to run.
    runner = counting.runner
    assert isinstance(runner, RecordingRunner)
    runner.calls.clear()
    again = run(counting, model, *places[0])
    assert record_of(again)["transfer"]["bytes_sent"] == 0  # type: ignore[index]
    assert again.facts["text"] == outcomes[places[0]].facts["text"]
    assert runner.count("deploy.emulator.stand_in.cli") == 2
