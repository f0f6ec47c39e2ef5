"""How a program ends on a board, and what is read from what it prints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from core.deadline import Deadline
from core.errors import (
    ProgramCrashed,
    ProgramFailed,
    RunError,
)
from core.session import Session
from deploy.agent.agent import AgentHandle
from deploy.run.engines import AgentEngine
from deploy.run.execute import execute
from deploy.run.record import signal_name
from tests.support.agent_frames import conversation
from tests.support.board_runs import read_record
from tests.support.local_board import LocalBoard
from tests.support.run_requests import SPEC, folders_left

# how a program ends --------------------------------------------------------------------------------


def test_a_run_leaves_a_record_and_nothing_on_the_board_but_the_store(
    session: Session, board: LocalBoard, request_for: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    outcome = execute(session, board, request_for("printf 'a\\nb'", arguments=("x y",), environment={"A": "it's"}))
    assert (outcome.exit_code, outcome.output) == (0, b"a\nb")
    record = read_record(outcome)
    assert (record["state"], record["result"]["exit_code"], record["result"]["attempts"]) == ("done", 0, 1)
    assert record["command"]["words"] == ["./program", "x y"]
    assert record["command"]["environment"] == {"A": "it's"}
    assert record["board"]["facts"]["machine"] == os.uname().machine
    assert record["transfer"]["files_sent"] == 1
    assert record["times"]["started"] <= record["times"]["ended"]
    assert (outcome.record / "output.log").read_bytes() == b"a\nb"
    assert b"a\nb" in capfdbinary.readouterr().out
    assert folders_left(board) == []


def test_arguments_and_environment_arrive_as_they_are(session: Session, board: LocalBoard, request_for: Any) -> None:
    words = ("", "a b", "it's", '"', "$HOME", "*", "`id`", "\\", "模", "-n")
    request = request_for('printf "<%s>" "$@" "$A"', arguments=words, environment={"A": "1\n'2'"})
    assert execute(session, board, request).output.decode() == "".join(f"<{word}>" for word in (*words, "1\n'2'"))


def test_a_warm_run_takes_two_commands_on_the_board(session: Session, board: LocalBoard, request_for: Any) -> None:
    execute(session, board, request_for("true"))
    board.calls.clear()
    assert read_record(execute(session, board, request_for("true")))["transfer"]["bytes_sent"] == 0
    assert board.calls == ["shell", "shell"]


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("exit 125", 125), ("kill -SEGV $$", 139)])
def test_the_status_of_a_users_program_is_handed_on(
    session: Session, board: LocalBoard, request_for: Any, script: str, status: int
) -> None:
    outcome = execute(session, board, request_for(script, pass_status=True))
    assert outcome.exit_code == status
    assert read_record(outcome)["state"] == "failed"


def test_a_models_program_that_fails_is_an_error_with_its_last_words(
    session: Session, board: LocalBoard, request_for: Any
) -> None:
    with pytest.raises(ProgramFailed, match=r"status 3\.\ncannot load") as caught:
        execute(session, board, request_for("echo cannot load; exit 3"))
    record = read_record(caught.value)
    assert (record["state"], record["result"]["exit_code"]) == ("failed", 3)
    assert record["error"]["code"] == "OHF7202"


def test_a_status_that_is_known_is_told_in_a_sentence_with_a_remedy(
    session: Session, board: LocalBoard, request_for: Any
) -> None:
    with pytest.raises(ProgramFailed, match="status 127: The program, its loader or one of its libraries") as caught:
        execute(session, board, request_for("exit 127"))
    assert "Compare what it needs with what the board has" in caught.value.remedy
    handed_on = execute(session, board, request_for("kill -KILL $$", pass_status=True)).as_json()
    assert "most often because memory ran out" in handed_on["explanation"]["sentence"]
    assert execute(session, board, request_for("exit 3", pass_status=True)).as_json()["explanation"] is None
    assert execute(session, board, request_for("true")).as_json()["explanation"] is None


def test_a_models_program_that_crashes_is_an_error_with_the_signals_name(
    session: Session, board: LocalBoard, request_for: Any
) -> None:
    with pytest.raises(ProgramCrashed, match=r"SIGILL \(status 132\)") as caught:
        execute(session, board, request_for("kill -ILL $$"))
    assert read_record(caught.value)["result"]["signal"] == "SIGILL"
    assert "generic" in caught.value.remedy


@pytest.mark.parametrize(
    ("status", "name"), [(139, "SIGSEGV"), (132, "SIGILL"), (137, "SIGKILL"), (3, ""), (128, ""), (255, "")]
)
def test_signals_are_named(status: int, name: str) -> None:
    assert signal_name(status) == name


class OnlyRuns(AgentEngine):
    """An agent that is not asked for hashes."""

    agent = ""


def test_a_signal_that_has_no_name_is_told_by_its_number(
    session: Session, board: LocalBoard, request_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, answer = board.folder / "agent", board.folder / "answer"
    answer.write_bytes(b"".join(conversation(code=0, signal=40)))
    agent.write_text(f"#!/bin/sh\ncat '{answer}'\n")
    agent.chmod(0o755)
    engine = OnlyRuns(handle=AgentHandle(path=str(agent), arch="arm64", engine="plain"), reason="it is the test's")
    monkeypatch.setattr("deploy.run.execute.choose_engine", lambda *_: engine)
    with pytest.raises(ProgramCrashed, match=r"ended by signal 40 \(status 168\)"):
        execute(session, board, request_for("true"))


# what a program prints -----------------------------------------------------------------------------


def test_numbers_and_facts_are_read_from_the_output(session: Session, board: LocalBoard, request_for: Any) -> None:
    script = "echo cpu: NEON; echo speed = nan; echo speed = 2.5; echo the end"
    outcome = execute(session, board, request_for(script, spec=SPEC))
    assert outcome.metrics == {"speed": {"value": 2.5, "unit": "tokens/s"}}
    assert read_record(outcome)["facts"] == {"cpu": "NEON"}


def test_output_that_is_cut_short_is_run_again_once(
    session: Session, board: LocalBoard, request_for: Any, tmp_path: Path
) -> None:
    script = f"echo speed = 1; [ -e {tmp_path}/again ] && echo the end; : >{tmp_path}/again"
    outcome = execute(session, board, request_for(script, spec=SPEC))
    record = read_record(outcome)
    assert (outcome.complete, record["result"]["attempts"]) == (True, 2)
    assert (outcome.record / "output-1.log").read_bytes() == b"speed = 1\n"
    assert (outcome.record / "output.log").read_bytes() == b"speed = 1\nthe end\n"


def test_output_that_is_cut_short_twice_is_no_success(session: Session, board: LocalBoard, request_for: Any) -> None:
    with pytest.raises(RunError, match="twice") as caught:
        execute(session, board, request_for("echo speed = 1", spec=SPEC))
    record = read_record(caught.value)
    assert (record["state"], record["result"]["complete"], record["result"]["missing"]) == (
        "failed",
        False,
        ["^the end$"],
    )


def test_a_program_that_failed_is_not_run_again(session: Session, board: LocalBoard, request_for: Any) -> None:
    with pytest.raises(ProgramFailed) as caught:
        execute(session, board, request_for("exit 1", spec=SPEC))
    assert read_record(caught.value)["result"]["attempts"] == 1


# how long it may take -----------------------------------------------------------------------------


def test_a_deadline_is_for_the_program_alone(session: Session, board: LocalBoard, request_for: Any) -> None:
    seen: list[Deadline] = []
    real = board.shell

    def shell(script: str, *, deadline: Deadline, **kw: Any) -> Any:
        seen.append(deadline)
        return real(script, deadline=deadline, **kw)

    board.shell = shell  # type: ignore[method-assign]
    execute(session, board, request_for("true", timeout=77.0))
    assert seen[-1].seconds == 77.0
    assert "demo on board local-board" in seen[-1].waits_for
