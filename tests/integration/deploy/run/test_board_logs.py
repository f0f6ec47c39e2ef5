"""The emulated board's log and crash logs: of a run in its record, and on request."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import DeadlineExpired
from core.session import PROJECT, Session
from core.testing import RecordingRunner
from deploy.emulator.board.faults import FaultFile
from deploy.hdc.choose import choose_board
from deploy.launch.launch import run_program
from deploy.launch.request import LaunchRequest
from deploy.launch.shell import run_shell
from deploy.run import faultlog
from deploy.run.hilog import LogFilter, last_run, read_filter, show_log
from deploy.run.options import RunOptions
from deploy.run.record import validate_record
from deploy.run.result import RunOutcome
from tests.support.tiny_elf import write_arm32, write_arm64
from tests.support.waiting import LONG_ENOUGH

SERIAL = "emulated-dayu200"
LOG = "/data/log/hilog/hilog.log"
LINE = "$(date '+%m-%d %H:%M:%S.%N') $$ $$ {level} C02102/{tag}: {text}"


@pytest.fixture(autouse=True)
def own_boards(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(faultlog, "TRIES", 2)


@pytest.fixture
def counting(session: Session) -> Session:
    return dataclasses.replace(session, runner=RecordingRunner())


@pytest.fixture
def logging_program(tmp_path: Path) -> Path:
    """A script for the board that adds two lines to its log, and ends as its argument says."""
    path = tmp_path / "logs.sh"
    lines = [LINE.format(level="I", tag="One", text="hello"), LINE.format(level="W", tag="Two", text="careful")]
    path.write_text("#!/bin/sh\n" + "".join(f'echo "{line}" >>{LOG}\n' for line in lines) + "exit ${1:-0}\n")
    return path


def run(session: Session, path: Path, *arguments: str, log: LogFilter | None = None) -> RunOutcome:
    return run_program(
        session, LaunchRequest(program=str(path), arguments=arguments, board=SERIAL, options=RunOptions(log=log))
    )


def record_of(outcome: RunOutcome) -> dict[str, object]:
    content = json.loads((outcome.record / "record.json").read_text())
    validate_record(content)
    return dict(content)


def calls(session: Session) -> int:
    runner = session.runner
    assert isinstance(runner, RecordingRunner)
    return runner.count("deploy.emulator.stand_in.cli")


def test_the_log_of_a_run_is_read_when_it_is_asked_for_or_the_run_fails(
    counting: Session, logging_program: Path
) -> None:
    silent = run(counting, logging_program)
    assert (record_of(silent)["log"], (silent.record / "hilog.log").exists()) == (None, False)
    asked = run(counting, logging_program, log=read_filter("W", ["Two"]))
    [line] = (asked.record / "hilog.log").read_text().splitlines()
    assert re.search(r" W C02102/Two: careful$", line)
    log = record_of(asked)["log"]
    assert isinstance(log, dict)
    assert (log["lines"], log["levels"], log["tags"], log["whole"]) == (1, "WEF", ["Two"], True)
    failed = run(counting, logging_program, "3")
    # Only the lines of this run, not those of the two before.
    assert len((failed.record / "hilog.log").read_text().splitlines()) == 2
    runner = counting.runner
    assert isinstance(runner, RecordingRunner)
    runner.calls.clear()
    run(counting, logging_program)
    assert calls(counting) == 2


def test_the_log_is_shown_filtered_since_the_last_run_and_followed(session: Session, logging_program: Path) -> None:
    board = choose_board(session, SERIAL)
    run(session, logging_program)
    time.sleep(0.5)  # More than the board takes to tell the time.
    run(session, logging_program)
    shown: list[str] = []
    show_log(session, board, read_filter("I", ["One"]), shown.append)
    assert len(shown) >= 2 and all("/One: hello" in line for line in shown)
    shown.clear()
    show_log(session, board, LogFilter(), shown.append, lines=1)
    assert [line.rpartition(": ")[2] for line in shown] == ["careful"]
    shown.clear()
    since = last_run(session.settings.runs, SERIAL)
    assert show_log(session, board, LogFilter(), shown.append, since=since) == 2
    shown.clear()
    over = threading.Event()
    line = LINE.format(level="E", tag="Late", text="after")

    def write_until_shown() -> None:  # Nothing tells when the log begins to be followed.
        while not over.wait(0.5) and not shown:
            run_shell(session, board, f'echo "{line}" >>{LOG}')

    writing = threading.Thread(target=write_until_shown)
    writing.start()
    try:
        for seconds in LONG_ENOUGH:
            show_log(session, board, read_filter("E"), shown.append, follow=True, timeout=seconds)
            if shown:
                break
    finally:
        over.set()
        writing.join()
    assert {line.rpartition(": ")[2] for line in shown} == {"after"}


@pytest.mark.parametrize("write", [write_arm64, write_arm32])
def test_a_program_that_crashes_leaves_its_crash_log_in_the_record(
    session: Session, home: Path, tmp_path: Path, write: Callable[..., Path]
) -> None:
    program = write(tmp_path / "broken", b"before\n", crash=True)
    choose_board(session, SERIAL)
    faults = FaultFile(folder=home / SERIAL)
    faults.set("crash-log")
    outcome = run(session, program)
    faults.clear()
    assert outcome.exit_code == 139
    [log] = outcome.diagnosis.crash_logs
    assert (log.process, log.reason) == ("broken", "Signal:SIGSEGV")
    assert log.path.is_relative_to(outcome.record / "faultlogs" / "temp")
    assert record_of(outcome)["crash_logs"]
    without = run(session, program)
    assert (without.exit_code, without.diagnosis.crash_logs) == (139, ())


def test_the_log_of_a_program_that_was_ended_at_its_deadline_is_kept(session: Session, logging_program: Path) -> None:
    text = logging_program.read_text().replace("exit ${1:-0}", "sleep 60")
    logging_program.write_text(text)
    for seconds in LONG_ENOUGH:
        request = LaunchRequest(program=str(logging_program), board=SERIAL, options=RunOptions(timeout=seconds))
        with pytest.raises(DeadlineExpired) as caught:
            run_program(session, request)
        folder = Path(caught.value.details["record"])
        record = json.loads((folder / "record.json").read_text())
        validate_record(record)
        assert record["state"] == "timeout"
        if record["log"]["lines"] == 2:
            break
    assert record["log"]["lines"] == 2
    assert len((folder / "hilog.log").read_text().splitlines()) == 2


def test_scripts_get_the_log_as_objects(session: Session, logging_program: Path) -> None:
    run(session, logging_program)
    words = ["board.logs", "--board", "dayu200", "--level", "W", "--tag", "Two", "--lines", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "invoke", *words], cwd=PROJECT, capture_output=True, text=True, timeout=60, check=True
    )
    answer = json.loads(done.stdout)
    [line] = answer["lines"]
    assert (answer["ok"], answer["board"]) == (True, SERIAL)
    assert (line["level"], line["domain"], line["tag"], line["text"]) == ("W", "C02102", "Two", "careful")
