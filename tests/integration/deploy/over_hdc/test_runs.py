"""Programs and models run on the emulated board, and the records they leave."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    DeadlineExpired,
    LostConnection,
    MissingLibrary,
    OhforgeError,
)
from core.session import PROJECT, Session
from core.settings import BoardEntry
from deploy.board import survey as inspect
from deploy.board.protocol import Board
from deploy.board.survey import survey_board
from deploy.emulator.board.boards import create_board, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.hdc.choose import choose_board
from deploy.hdc.fit import describe_board
from deploy.launch.launch import run_model, run_program
from deploy.launch.request import LaunchRequest
from deploy.run.options import RunOptions
from deploy.run.record import validate_record
from tests.support.board_runs import TMP, read_record, running, soon
from tests.support.tiny_elf import write_arm32, write_arm64, write_dynamic
from tests.support.waiting import LONG_ENOUGH, wait_until

# runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_arm64, write_arm32])
def test_a_program_of_either_arch_hands_its_status_on(
    session: Session, tmp_path: Path, write: Callable[..., Path], commands: list[str]
) -> None:
    program = write(tmp_path / "program", b"hello\n", status=3)
    outcome = run_program(session, LaunchRequest(program=str(program), board="dayu200"))
    assert (outcome.exit_code, outcome.output, outcome.emulated) == (3, b"hello\n", True)
    record = read_record(outcome)
    assert record["board"]["facts"]["parameters"]["const.product.model"] == "DAYU200"
    commands.clear()
    assert run_program(session, LaunchRequest(program=str(program), board="dayu200")).exit_code == 3
    assert len(commands) == 3  # asked, run, and the log read because of the status


@pytest.mark.parametrize("write", [write_arm64, write_arm32])
def test_a_program_that_crashes_ends_with_its_signal(
    session: Session, tmp_path: Path, write: Callable[..., Path]
) -> None:
    program = write(tmp_path / "program", b"before\n", crash=True)
    outcome = run_program(session, LaunchRequest(program=str(program), board="dayu200"))
    assert outcome.exit_code == 128 + signal.SIGSEGV
    assert read_record(outcome)["result"]["signal"] == "SIGSEGV"


def test_a_program_that_needs_a_loader_is_refused_before_it_is_sent(
    session: Session, tmp_path: Path, commands: list[str]
) -> None:
    program = write_dynamic(tmp_path / "program", "/lib/ld-musl-aarch64.so.1")
    with pytest.raises(MissingLibrary, match="ld-musl-aarch64"):
        run_program(session, LaunchRequest(program=str(program), board="dayu200"))
    assert len(commands) == 1


def test_a_program_that_never_ends_is_ended(session: Session, board: Board, tmp_path: Path) -> None:
    program = write_arm64(tmp_path / "spinner", b"spinning\n", spin=True)
    for seconds in LONG_ENOUGH:
        options = RunOptions(timeout=seconds)
        with pytest.raises(DeadlineExpired, match="Nothing of it runs") as caught:
            run_program(session, LaunchRequest(program=str(program), board="dayu200", options=options))
        assert read_record(caught.value)["state"] == "timeout"
        if output := (Path(caught.value.details["record"]) / "output.log").read_bytes():
            break
    assert output == b"spinning\n"
    assert running(board, "spinner") == []
    assert board.shell(f"ls {TMP}/ohforge/runs", deadline=soon()).text == ""


CHILD = """
import sys
from core.session import Session
from core.settings import Settings
from core.errors import OhforgeError
from deploy.launch.request import LaunchRequest
from deploy.launch.launch import run_program
from deploy.hdc import choose
choose._hdc_of_sdk = lambda session: None
try:
    settings = Settings(runs_dir=sys.argv[1], run_engine="shell")
    run_program(Session(settings=settings), LaunchRequest(program=sys.argv[2], board="dayu200"))
except OhforgeError as error:
    print(error.code, error.message)
    sys.exit(error.exit_status)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_nothing_running_and_a_record_that_says_so(
    session: Session, board: Board, tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "sleeper.sh"
    script.write_text("#!/bin/sh\necho begun\nsleep 654 & sleep 655; echo on\n")
    runs = tmp_path / "runs"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(runs), str(script)], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )
    with child:
        try:
            assert child.stdout is not None
            assert any(line == "begun\n" for line in child.stdout)
            wait_until("both sleeps", lambda: len(running(board, "sleep 65")) == 2)
            child.send_signal(number)
            rest, _ = child.communicate(timeout=120)
        finally:
            child.kill()
    assert child.returncode == 79
    assert "OHF7901 Interrupted. Nothing of it runs" in rest
    assert running(board, "sleep 65") == []
    (file,) = runs.glob("*/record.json")
    record = json.loads(file.read_text())
    validate_record(record)
    assert record["state"] == "interrupted"
    assert (file.parent / "output.log").read_text() == "begun\n"
    assert board.shell(f"ls {TMP}/ohforge/runs", deadline=soon()).text == ""


def test_a_board_that_dies_in_the_middle_of_a_run_is_lost(session: Session, home: Path, tmp_path: Path) -> None:
    program = write_arm64(tmp_path / "spinner", b"spinning\n", spin=True)
    mortal = create_board("emulated-generic", home=home)

    def end_board() -> None:
        logs = session.settings.runs
        wait_until("the output", lambda: [log.read_bytes() for log in logs.glob("*/output.log")] == [b"spinning\n"])
        stop_board(mortal)

    killer = threading.Thread(target=end_board)
    killer.start()
    with pytest.raises(LostConnection, match="how it ended is not known") as caught:
        run_program(session, LaunchRequest(program=str(program), board="generic", options=RunOptions(timeout=60)))
    killer.join()
    record = read_record(caught.value)
    assert (record["state"], record["result"]) == ("lost", None)


def test_a_board_that_goes_away_in_a_run_is_restarted_when_it_is_back(
    session: Session, home: Path, tmp_path: Path, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "sleeper.sh"
    script.write_text("#!/bin/sh\necho begun\nexec sleep 600\n")
    session = session.with_settings(boards={"mortal": BoardEntry(profile="dayu200", recover="reboot")})
    mortal = create_board("emulated-mortal", home=home, profile="dayu200")
    faults = FaultFile(folder=mortal.folder)

    def pull_the_cable() -> None:
        logs = session.settings.runs
        wait_until("the output", lambda: [log.read_bytes() for log in logs.glob("*/output.log")] == [b"begun\n"])
        faults.set("offline")
        stop_board(mortal)
        wait_until("the second look", lambda: sum("boot_id" in line for line in commands) == 2)
        faults.clear()

    someone = threading.Thread(target=pull_the_cable)
    someone.start()
    with pytest.raises(LostConnection) as caught:
        run_program(session, LaunchRequest(program=str(script), board="mortal", options=RunOptions(timeout=60)))
    someone.join()
    restarted = f"After that board {mortal.key} was restarted, so nothing of the run goes on there."
    assert caught.value.message.endswith(restarted)
    record = read_record(caught.value)
    assert (record["state"], record["error"]["message"]) == ("lost", caught.value.message)
    stages = re.findall(r"mortal: (\w+) after", capsys.readouterr().out)
    assert stages[-4:] == ["gone", "back", "authorised", "ready"]
    back = choose_board(session, "mortal")
    assert running(back, "sleep 600") == []
    assert back.shell(f"ls {TMP}/ohforge/runs", deadline=soon()).text == ""


@pytest.mark.parametrize(
    ("name", "parameters", "state", "error"),
    [
        ("cut-output", {"at": 100}, "lost", LostConnection),
        ("no-marker", {}, "lost", LostConnection),
        ("freeze-output", {"at": 100}, "timeout", DeadlineExpired),
    ],
)
def test_a_link_that_fails_in_a_run_is_recorded_as_that(
    session: Session,
    board: Board,
    fault: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    parameters: dict[str, float],
    state: str,
    error: type[OhforgeError],
) -> None:
    monkeypatch.setattr(inspect, "ATTEMPTS", 1)
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9; do echo some output; done; sleep 1; exit 0\n")
    request = LaunchRequest(program=str(script), board="dayu200", options=RunOptions(timeout=60.0))
    assert run_program(session, request).exit_code == 0
    if error is DeadlineExpired:
        request = dataclasses.replace(request, options=RunOptions(timeout=4.0))
    survey = survey_board(session, board)
    monkeypatch.setattr(
        "deploy.run.execute.survey_board",
        lambda *_: survey_with(survey, session, board, script, fault, name, parameters),
    )
    with pytest.raises(error) as caught:
        run_program(session, request)
    assert read_record(caught.value)["state"] == state


def survey_with(
    survey: Any, session: Session, board: Board, script: Path, fault: Any, name: str, parameters: Any
) -> Any:
    """The survey of before, as if it were made now, and the fault begins after it."""
    from core.files import sha256_file

    known = sha256_file(script)
    fault(name, **parameters)
    return dataclasses.replace(survey, stored={known: script.stat().st_size}, proven=frozenset({known}))


# models --------------------------------------------------------------------------------------------

PRINTED = b"""Once upon a time there was a small board
0.00.100.000 I system_info: n_threads = 2 | CPU : NEON = 1 | ARM_FMA = 1 |
0.21.129.918 I common_perf_print:        load time =    1400.12 ms
0.21.129.918 I common_perf_print: prompt eval time =    1724.21 ms /     8 tokens (  215.53 ms per token,     4.64 tokens per second)
0.21.130.037 I common_perf_print:        eval time =   15079.74 ms /    31 runs   (  486.44 ms per token,     2.06 tokens per second)
0.21.130.037 I common_perf_print:       total time =   16910.00 ms /    39 tokens
0.21.130.037 I common_perf_print:    graphs reused =         30
"""


def test_a_model_is_run_by_the_program_of_its_kind(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from native.artifact.artifact import Artifact, Product
    from native.build.ensure import BuildLook, BuildOutcome
    from native.recipe.recipe import load_recipe
    from tests.shared.tiny_gguf import write_tiny_gguf

    model = write_tiny_gguf(tmp_path / "tiny model.gguf")
    asked: list[BuildLook] = []

    def build(session: Session, look: BuildLook) -> BuildOutcome:
        from core.files import sha256_file

        asked.append(look)
        program = write_arm64(tmp_path / "llama-completion", PRINTED)
        product = Product(
            name="llama-completion",
            path="llama-completion",
            sha256=sha256_file(program),
            size=program.stat().st_size,
            kind="program",
            machine="EM_AARCH64",
            interpreter="",
        )
        artifact = Artifact(
            program="llama",
            version=load_recipe("llama").version,
            arch="arm64",
            key="k",
            toolchain="zig",
            toolchain_id="t",
            cpu=look.plan.toolchain.cpu,
            inputs={},
            products=(product,),
            folder=tmp_path,
        )
        return BuildOutcome(artifact=artifact, rebuilt=False, reason="test", seconds=0.0)

    monkeypatch.setattr("native.build.ensure.build_what_lacks", build)
    outcome = run_model(session, LaunchRequest(model=str(model), given={"prompt": "It's", "tokens": 5}))
    (look,) = asked
    toolchain = look.plan.toolchain
    assert (look.plan.recipe.name, toolchain.arch.name, toolchain.cpu) == ("llama", "arm64", "cortex-a55")
    assert [product.name for product in look.wanted] == ["llama-completion"]
    assert outcome.metrics["generation_tokens_per_second"] == {"value": 2.06, "unit": "tokens/s"}
    record = read_record(outcome)
    words = record["command"]["words"]
    assert words[:3] == ["./llama-completion", "-m", "tiny model.gguf"]
    assert (words[words.index("-p") + 1], words[words.index("-n") + 1]) == ("It's", "5")
    assert record["model"]["kind"] == "gguf"
    assert record["program"]["artifact"]["cpu"] == "cortex-a55"
    assert (record["result"]["complete"], record["board"]["emulated"]) == (True, True)


def test_a_board_is_described(session: Session, board: Board) -> None:
    facts = describe_board(session, board)
    assert facts["emulated"] is True
    assert sorted(facts["arches"]) == ["arm32", "arm64"]
    assert facts["cores"] == 4
    assert facts["hash_tool"] == "sha256sum"
