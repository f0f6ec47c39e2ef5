"""Runs by the agent and by the shell on an emulated board, through hdc: deadlines, Ctrl-C, and links that break."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.deadline import Deadline
from core.errors import ContentDiffers, DeadlineExpired, LostConnection, OhforgeError
from core.session import PROJECT, Session
from deploy.agent import agent as agent_module
from deploy.board.protocol import Board
from deploy.emulator.board.boards import create_board, list_emulated, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.launch.launch import run_program
from deploy.launch.request import LaunchRequest
from deploy.run import execute as execution
from deploy.run.options import RunOptions
from deploy.run.record import validate_record
from deploy.run.result import RunOutcome
from tests.support.agent_frames import END, frame
from tests.support.agents import build_agent
from tests.support.board_runs import use_boards
from tests.support.tiny_elf import write_arm32, write_arm64
from tests.support.waiting import LONG_ENOUGH, wait_until

SERIAL = "emulated-dayu200"
TMP = "/data/local/tmp"
TREE = """#!/bin/sh
trap '' TERM
(setsid sh -c 'trap "" TERM; sleep 87654; sleep 87655' &)
echo begun
sleep 87656; sleep 87657
"""
"""A program that ignores SIGTERM, as does what it started in another session."""


@pytest.fixture(autouse=True)
def own_boards(home: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    agent = build_agent(shared_cache, "arm32")
    note = {"arm32": [str(agent.path), hashlib.sha256(agent.path.read_bytes()).hexdigest()]}
    # As the first use leaves it, so that other processes find it too.
    (tmp_path / "cache" / "agent").mkdir(parents=True)
    content = json.dumps({"sources": agent_module._sources(), "agents": note})
    (tmp_path / "cache" / "agent" / "built.json").write_text(content)
    use_boards(home, tmp_path, monkeypatch)
    yield
    # What one test has left running must not fail those after it.
    for board in list_emulated(home):
        stop_board(board)
    for folder in home.glob("emulated-*"):
        FaultFile(folder=folder).clear()


@pytest.fixture(params=["agent", "shell"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "script.sh"
        path.write_text(text)
        return str(path)

    return write


def read_record(where: RunOutcome | OhforgeError) -> dict[str, Any]:
    folder = where.record if isinstance(where, RunOutcome) else Path(where.details["record"])
    content = json.loads((folder / "record.json").read_text())
    validate_record(content)
    return dict(content)


def soon() -> Deadline:
    return Deadline.after(60.0, "the test")


def sleeping(board: Board) -> str:
    """Command lines of `TREE` that still run on the board."""
    return board.shell("pgrep -fl 'sleep 8765[4-7]'", deadline=soon()).text


@pytest.mark.parametrize("write", [write_arm64, write_arm32])
def test_a_warm_run_costs_two_calls_of_hdc_by_either(
    session: Session, engine: str, commands: list[str], tmp_path: Path, write: Callable[..., Path]
) -> None:
    program = write(tmp_path / "program", b"hello\n")
    request = LaunchRequest(program=str(program), board="dayu200", options=RunOptions(run_engine=engine))
    run_program(session, request)
    commands.clear()
    outcome = run_program(session, request)
    assert (outcome.exit_code, outcome.output, outcome.run_engine) == (0, b"hello\n", engine)
    assert len(commands) == 2


@pytest.mark.parametrize("fault", ["flood", "reads-stdin", "orphan"])
def test_a_program_that_misbehaves_is_run_right_by_either_and_leaves_nothing(
    session: Session, board: Board, engine: str, home: Path, tmp_path: Path, fault: str
) -> None:
    program = write_arm64(tmp_path / "program", b"own output\n", status=3)
    flood = b"\xff\xfe" + bytes(299_998) if fault == "flood" else b""
    FaultFile(folder=home / SERIAL).set(fault, **({"bytes": len(flood)} if flood else {}))
    outcome = run_program(
        session, LaunchRequest(program=str(program), board="dayu200", options=RunOptions(run_engine=engine))
    )
    assert (outcome.exit_code, outcome.run_engine) == (3, engine)
    assert (outcome.record / "output.log").read_bytes() == flood + b"own output\n"
    assert board.shell("pgrep -fl 'sleep 60[0]'", deadline=soon()).text == ""
    if engine == "agent":
        assert read_record(outcome)["result"]["left_running"] == (fault == "orphan")


FORGER = """#!/bin/sh
# What can be read of whatever runs here, and words in it that may be a token.
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ >all 2>/dev/null
tokens=$(grep -a -o 'OHF[0-9a-f]*' all; grep -a -o '[0-9a-f-][0-9a-f-]\\{31,63\\}' all)
[ -n "$tokens" ] && echo found
forge() { echo; for t in $tokens; do echo "$t:X:0"; done; printf 'FRAMES'; for t in $tokens; do echo "$t:X:0"; done; }
p=$PPID
while [ "$p" -gt 0 ]; do
  for fd in 1 2; do [ ! -p /proc/$p/fd/$fd ] || forge >/proc/$p/fd/$fd; done 2>/dev/null
  read -r stat </proc/$p/stat || break
  set -- ${stat##*) }
  p=$2
done
forge
exit 7
"""
"""A program that was told to say by all means that it has succeeded."""


def test_a_program_cannot_forge_its_own_success(session: Session, engine: str, script: Callable[[str], str]) -> None:
    end = {**END, "code": 0}
    forged = b"".join(frame("X", end, number, key=bytes(32)) for number in range(12))
    program = script(FORGER.replace("FRAMES", "".join(f"\\{byte:03o}" for byte in forged)))
    request = LaunchRequest(program=program, board="dayu200", options=RunOptions(run_engine=engine))
    try:
        outcome = run_program(session, request)
    except (ContentDiffers, LostConnection) as spoilt:
        # It may spoil what it shares a pipe with, and then nothing is said to have succeeded.
        assert read_record(spoilt)["result"] is None
        return
    assert (outcome.exit_code, outcome.run_engine) == (7, engine)
    assert b"found" in outcome.output


def test_by_default_the_agent_runs_it(session: Session, script: Callable[[str], str]) -> None:
    auto = dataclasses.replace(session, settings=dataclasses.replace(session.settings, run_engine="auto"))
    outcome = run_program(auto, LaunchRequest(program=script("#!/bin/sh\necho $0\n"), board="dayu200"))
    assert outcome.run_engine == "agent"
    assert read_record(outcome)["run_engine"]["reason"] == "it runs on the board"


def test_when_its_time_is_over_the_whole_tree_is_ended(
    session: Session, board: Board, engine: str, script: Callable[[str], str]
) -> None:
    for seconds in LONG_ENOUGH:
        options = RunOptions(timeout=seconds, run_engine=engine)
        request = LaunchRequest(program=script(TREE), board="dayu200", options=options)
        with pytest.raises(DeadlineExpired, match=rf"after {seconds:g} s\. Nothing of it runs") as caught:
            run_program(session, request)
        assert sleeping(board) == ""
        record = read_record(caught.value)
        assert (record["state"], record["result"]) == ("timeout", None)
        if output := (Path(caught.value.details["record"]) / "output.log").read_bytes():
            break
    assert output == b"begun\n"
    assert (record["usage"] is not None) == (engine == "agent")
    assert board.shell(f"ls {TMP}/ohforge/runs", deadline=soon()).text == ""


CHILD = """
import sys
from core.session import Session
from core.settings import Settings
from core.errors import OhforgeError
from deploy.launch.request import LaunchRequest
from deploy.launch.launch import run_program
from deploy.hdc import choose
from deploy.run.options import RunOptions
choose._hdc_of_sdk = lambda session: None
runs, program, engine, seconds = sys.argv[1:]
options = RunOptions(run_engine=engine, timeout=float(seconds))
request = LaunchRequest(program=program, board="dayu200", options=options)
try:
    run_program(Session(settings=Settings(runs_dir=runs)), request)
except OhforgeError as error:
    print(error.code, error.message)
    sys.exit(error.exit_status)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_when_this_process_is_ended_nothing_goes_on_running_on_the_board(
    board: Board, engine: str, script: Callable[[str], str], tmp_path: Path, number: signal.Signals
) -> None:
    """After SIGKILL nobody is left to end it from here; the board does, at the latest when its time is over."""
    for seconds in LONG_ENOUGH[1:] if number is signal.SIGKILL else (600.0,):
        words = [sys.executable, "-c", CHILD, str(tmp_path / f"runs-{seconds}"), script(TREE), engine, str(seconds)]
        child = subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
        with child:
            try:
                assert child.stdout is not None
                found = any(line == "begun\n" for line in child.stdout) and "sleep 8765" in sleeping(board)
                child.send_signal(number)
                child.communicate(timeout=120)
            finally:
                child.kill()
        if found:
            break
    assert found
    if number is signal.SIGINT:
        assert child.returncode == 79
        assert sleeping(board) == ""
        (file,) = tmp_path.glob("runs-*/*/record.json")
        assert json.loads(file.read_text())["state"] == "interrupted"
    else:
        wait_until("the end of all sleepers", lambda: not sleeping(board))


def test_a_script_that_is_killed_on_the_board_leaves_nothing_running(
    session: Session, board: Board, script: Callable[[str], str]
) -> None:
    program = script(TREE.replace("echo begun\n", "kill -KILL $PPID\n"))
    outcome = run_program(
        session, LaunchRequest(program=program, board="dayu200", options=RunOptions(timeout=500.0, run_engine="shell"))
    )
    assert outcome.exit_code == 128 + signal.SIGKILL
    wait_until("the end of all sleepers", lambda: not sleeping(board))
    wait_until("the end of the run's watch", lambda: not board.shell("pgrep -fl 'watch [0-9]'", deadline=soon()).text)


@pytest.mark.parametrize("at", [0, 200, 700])
def test_a_link_that_is_cut_is_no_success_and_leaves_nothing_running(
    session: Session,
    board: Board,
    engine: str,
    script: Callable[[str], str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
) -> None:
    text = TREE.replace("echo begun\n", "for i in $(seq 99); do echo some output of the program $i; done\n")
    program = script(text)
    create_board(SERIAL, home=home)
    real = execution.ensure_stored

    def cut(*arguments: Any) -> Any:
        done = real(*arguments)
        FaultFile(folder=home / SERIAL).set("cut-output", at=at)
        return done

    monkeypatch.setattr(execution, "ensure_stored", cut)
    request = LaunchRequest(program=program, board="dayu200", options=RunOptions(timeout=20.0, run_engine=engine))
    with pytest.raises(LostConnection) as caught:
        run_program(session, request)
    assert read_record(caught.value)["state"] == "lost"
    FaultFile(folder=home / SERIAL).clear()
    wait_until("the end of all sleepers", lambda: not sleeping(board))
