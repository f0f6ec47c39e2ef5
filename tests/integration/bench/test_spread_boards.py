"""``eval.gsm8k`` on two emulated boards, each with an hdc server of its own, with a script in place of llama-server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
from deploy.emulator.board.boards import create_board, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.hdc.choose import choose_board
from deploy.launch import serve
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.asked_models import COUNT, write_questions
from tests.support.board_runs import running, use_boards
from tests.support.served import run_of_server, write_server

HALF = 5
"""Answers of the board that is killed."""


@pytest.fixture(autouse=True)
def two_boards(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_boards(home, tmp_path, monkeypatch)
    made = [create_board(f"emulated-lab-{name}", home=home, profile="dayu200") for name in "ab"]
    yield
    for board in made:
        stop_board(board)


def test_forty_questions_have_one_answer_each_although_one_board_is_killed_half_way(
    session: Session, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of_server(write_server(tmp_path))
    monkeypatch.setattr(serve, "ready_server", lambda session, board, options: run)
    monkeypatch.setattr(spreading, "PATIENCE", Patience(pause=0.0, times=2))
    take, taken = Course.take_new, Counter[str]()

    def take_and_kill(self: Course, line: dict[str, Any], verdicts: Any) -> None:
        take(self, line, verdicts)
        taken[line["board"]] += 1
        if line["board"] == "emulated-lab-a" and taken[line["board"]] == HALF:
            lost = create_board("emulated-lab-a", home=home)
            FaultFile(folder=lost.folder).set("offline")
            stop_board(lost)

    monkeypatch.setattr(Course, "take_new", take_and_kill)
    model = write_tiny_gguf(tmp_path / "tiny.gguf", chat_template="{{ messages }}")
    plan = EvalPlan(data=str(write_questions(tmp_path / "forty.jsonl")), max_tokens=2)
    outcome = evaluate(session, EvalRequest(model=str(model), boards=("lab-a", "lab-b"), plan=plan))
    answers = Counter(line["id"] for line in read_answers(outcome.record))
    assert (len(answers), set(answers.values())) == (COUNT, {1})
    content = read_eval(outcome.record)
    lost, other = content["parts"]
    assert (content["state"], lost["answers"], other["answers"]) == ("done", HALF, COUNT - HALF)
    assert lost["failures"] >= 1 and (other["failures"], other["given_up"]) == (0, None)
    assert lost["kind"] == other["kind"] and lost["kind"]["profile"] == "dayu200"
    assert running(choose_board(session, "lab-b"), "llama-server") == []
