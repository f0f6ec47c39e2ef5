"""``eval.gsm8k`` on two emulated boards with a script in place of llama-server: each with an hdc server of its own, or behind a host."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.eval.course import Course
from bench.eval.evaluate import evaluate
from bench.eval.record import read_answers, read_eval
from bench.eval.request import EvalPlan, EvalRequest
from bench.spread import spread as spreading
from core.patience import Patience
from core.session import Session
from core.settings import BoardEntry
from deploy.emulator.board.boards import create_board, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.hdc.choose import choose_board
from deploy.launch import serve
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.asked_models import COUNT, write_questions
from tests.support.board_runs import SERIAL, running, use_boards
from tests.support.lab_host import know_host, lab_host
from tests.support.served import run_of_server, write_server
from tests.support.sshd import SSHD

HALF = 5
"""Answers of the board that is lost."""
BOARDS = ("lab-a", "lab-b")


@pytest.fixture
def two_boards(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_boards(home, tmp_path, monkeypatch)
    made = [create_board(f"emulated-{name}", home=home, profile="dayu200") for name in BOARDS]
    yield
    for board in made:
        stop_board(board)


def ask_forty(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch, serial: str, lose: Callable[[], None]
) -> dict[str, Any]:
    """The record of an evaluation on both boards, of which the one of that serial is lost after `HALF` answers."""
    run = run_of_server(write_server(folder))
    monkeypatch.setattr(serve, "ready_server", lambda session, board, options: run)
    monkeypatch.setattr(spreading, "PATIENCE", Patience(pause=0.0, times=2))
    take, taken = Course.take_new, Counter[str]()

    def take_and_lose(self: Course, line: dict[str, Any], verdicts: Any) -> None:
        take(self, line, verdicts)
        taken[line["board"]] += 1
        if line["board"] == serial and taken[serial] == HALF:
            lose()

    monkeypatch.setattr(Course, "take_new", take_and_lose)
    model = write_tiny_gguf(folder / "tiny.gguf", chat_template="{{ messages }}")
    plan = EvalPlan(data=str(write_questions(folder / "forty.jsonl")), max_tokens=2)
    outcome = evaluate(session, EvalRequest(model=str(model), boards=BOARDS, plan=plan))
    answers = Counter(line["id"] for line in read_answers(outcome.record))
    assert (len(answers), set(answers.values())) == (COUNT, {1})
    return read_eval(outcome.record)


@pytest.mark.usefixtures("two_boards")
def test_forty_questions_have_one_answer_each_although_one_board_is_killed_half_way(
    session: Session, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose() -> None:
        lost = create_board("emulated-lab-a", home=home)
        FaultFile(folder=lost.folder).set("offline")
        stop_board(lost)

    content = ask_forty(session, tmp_path, monkeypatch, "emulated-lab-a", lose)
    lost, other = content["parts"]
    assert (content["state"], lost["answers"], other["answers"]) == ("done", HALF, COUNT - HALF)
    assert lost["failures"] >= 1 and (other["failures"], other["given_up"]) == (0, None)
    assert lost["kind"] == other["kind"] and lost["kind"]["profile"] == "dayu200"
    assert running(choose_board(session, "lab-b"), "llama-server") == []


@pytest.mark.skipif(SSHD is None, reason="no sshd is installed (Debian package openssh-server)")
def test_forty_questions_have_one_answer_each_although_one_of_two_hosts_goes_half_way(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as hosts:
        entries = {}
        for board, name in zip(BOARDS, ("lab1", "lab2"), strict=True):
            (tmp_path / name).mkdir()
            host = hosts.enter_context(lab_host(tmp_path / name))
            know_host(tmp_path / "laptop", host.sshd, name)
            entries[board] = (host, BoardEntry(via=f"ssh://{name}", key=SERIAL, profile="dayu200"))
        monkeypatch.setenv("HOME", str(tmp_path / "laptop"))
        monkeypatch.setenv("OHFORGE_HDC", "/nowhere/hdc")
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        session = session.with_settings(boards={board: entry for board, (_, entry) in entries.items()})
        going, _ = entries["lab-a"]

        def lose() -> None:
            going.sshd.refuses = True
            going.sshd.cut()

        content = ask_forty(session, tmp_path, monkeypatch, f"ssh://lab1/{SERIAL}", lose)
        lost, other = content["parts"]
        assert (content["state"], lost["answers"], other["answers"]) == ("done", HALF, COUNT - HALF)
        assert lost["failures"] >= 1 and (other["failures"], other["given_up"]) == (0, None)
        assert content["server"]["emulated"] is True
        assert [part["server"]["link"]["via"] for part in content["parts"]] == ["ssh://lab1", "ssh://lab2"]
