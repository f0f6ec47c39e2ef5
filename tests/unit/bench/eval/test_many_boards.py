"""bench.eval.many_boards: forty questions spread over boards that die, differ, and are killed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.eval.evaluate import evaluate, would_evaluate
from bench.eval.record import find_eval, read_answers, read_eval
from bench.eval.request import EvalOutcome, EvalPlan, EvalRequest
from bench.report.build import ReportRequest, make_report
from bench.spread import spread
from core.errors import AllBoardsLost, AnswerCut, Interrupted, UnlikeBoards, UsageError
from core.patience import Patience
from core.record_folder import check_record
from core.session import Session
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.asked_models import COUNT, known_answer, write_questions
from tests.support.pages import read_page, rows_of
from tests.support.spread_boards import SpreadBoards, spread_boards

ACCURACY = {10: 8 / 40, 20: 18 / 40, 1024: 29 / 40}
"""By hand, as in test_evaluate.py."""


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "PATIENCE", Patience(pause=0.0, times=2))


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpreadBoards]:
    with spread_boards(monkeypatch, "a", "b") as boards:
        yield boards


@pytest.fixture
def ask(session: Session, boards: SpreadBoards, tmp_path: Path) -> Callable[..., EvalOutcome]:
    model = write_tiny_gguf(tmp_path / "tiny.gguf", chat_template="{{ messages }}")
    questions = write_questions(tmp_path / "forty.jsonl")

    def run(resume: bool = False, names: tuple[str, ...] = ("a", "b"), **plan: Any) -> EvalOutcome:
        request = EvalRequest(
            model="" if resume else str(model),
            boards=names,
            plan=EvalPlan(data=str(questions), budgets=(10, 20), **plan),
            resume=find_eval(session, "latest") if resume else None,
        )
        return evaluate(session, request)

    return run


def check_forty(outcome: EvalOutcome) -> None:
    """Every question has one whole answer, the right one, and the accuracies are those of one server."""
    lines = list(read_answers(outcome.record))
    whole = Counter(line["id"] for line in lines if line["limit"] == 1024)
    assert (len(whole), set(whole.values())) == (COUNT, {1})
    assert len({(line["id"], line["limit"]) for line in lines}) == len(lines)
    assert all(line["text"] == "".join(known_answer(line["prompt"])[: line["limit"]]) for line in lines)
    content = read_eval(outcome.record)
    assert {row["budget"]: row["accuracy"]["strict"]["value"] for row in content["results"]} == ACCURACY
    assert (content["state"], content["valid"], content["answers"]["count"]) == ("done", True, len(lines))
    assert check_record(outcome.record).is_unchanged
    by_board = Counter(line["board"] for line in lines)
    assert {part["serial"]: part["answers"] for part in content["parts"] if part["answers"]} == by_board


def test_two_boards_share_the_questions_and_each_starts_its_server_once(
    boards: SpreadBoards, ask: Callable[..., EvalOutcome]
) -> None:
    outcome = ask()
    check_forty(outcome)
    assert [(board.starts, board.up) for board in boards.values()] == [(1, 0), (1, 0)]
    assert all(len(board.server.asked()) > 5 and board.server.most_at_once == 1 for board in boards.values())
    assert "2 of one kind (emulated" in outcome.content["server"]["label"]
    assert outcome.as_json()["parts"][1]["board"] == "b"


def test_the_questions_of_a_board_that_is_lost_are_given_to_the_other(
    boards: SpreadBoards,
    ask: Callable[..., EvalOutcome],
    session: Session,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    boards["a"].dies_after(10)
    outcome = ask()
    check_forty(outcome)
    lost, other = outcome.content["parts"]
    by_board = {
        name: {line["id"] for line in read_answers(outcome.record) if line["board"] == f"emulated-{name}"}
        for name in "ab"
    }
    (left,) = lost["left"]
    assert (other["left"], lost["taken_over"], other["taken_over"]) == ([], [], [left])
    assert left in by_board["b"]
    made = make_report(session, ReportRequest(records=(outcome.record,), output=str(tmp_path / "report.html")))
    page = read_page(made.path.read_text(encoding="utf-8"))
    headings, *rows = rows_of(page, "What each board has answered")
    shown = [dict(zip(headings, row, strict=True)) for row in rows]
    assert [(row["Answers"], row["Failures"]) for row in shown] == [("10", "3"), (str(other["answers"]), "0")]
    assert [int(row["Questions"]) for row in shown] == [len(by_board["a"]), len(by_board["b"])]
    assert [(row["Left"], row["Taken over"]) for row in shown] == [("1", "0"), ("0", "1")]
    assert f"a, left to others: {left}" in page.text and f"b, taken over: {left}" in page.text
    assert all(row["Median"].endswith("EMULATED") for row in shown)
    assert made.boards[outcome.record.name][1]["taken_over"] == [left]
    assert (lost["answers"], lost["failures"], lost["given_up"]["code"]) == (10, 3, "OHF7006")
    assert (other["answers"], other["given_up"]) == (len(list(read_answers(outcome.record))) - 10, None)
    assert boards["b"].starts == 1
    assert "It is given up" in capsys.readouterr().err


def test_when_all_boards_are_lost_the_answers_are_kept_and_gone_on_with_on_other_boards(
    boards: SpreadBoards, ask: Callable[..., EvalOutcome], session: Session
) -> None:
    for board in boards.values():
        board.dies_after(8)
    with pytest.raises(AllBoardsLost, match=r"Board a has gone.*Board b has gone") as lost:
        ask()
    assert lost.value.exit_status == 80
    half = read_eval(find_eval(session, "latest"))
    assert (half["state"], half["answers"]["count"]) == ("lost", 16)
    assert all(board.up == 0 for board in boards.values())
    before = {name: len(board.server.asked()) for name, board in boards.items()}
    boards["b"].revive()
    outcome = ask(resume=True, names=("b",))
    check_forty(outcome)
    assert len(boards["a"].server.asked()) == before["a"]
    assert sum(part["answers"] for part in outcome.content["parts"]) == outcome.content["answers"]["count"]


def test_boards_of_unlike_kind_are_refused_before_anything_is_served(
    boards: SpreadBoards, ask: Callable[..., EvalOutcome]
) -> None:
    boards["b"].kind |= {"emulated": False, "chip": "RK3588"}
    with pytest.raises(UnlikeBoards, match="emulated: False against True; chip: RK3588 against RK3568") as refused:
        ask()
    assert refused.value.details["differs"] == ["emulated", "chip"]
    assert [board.starts for board in boards.values()] == [0, 0]


def test_a_board_that_serves_with_another_template_is_refused(
    boards: SpreadBoards, ask: Callable[..., EvalOutcome]
) -> None:
    boards["b"].server.template += "\n"
    with pytest.raises(UnlikeBoards, match="template: "):
        ask()
    assert all(board.up == 0 for board in boards.values())


def test_a_board_of_another_kind_does_not_go_on_with_what_others_have_begun(
    boards: SpreadBoards, ask: Callable[..., EvalOutcome]
) -> None:
    boards["a"].dies_after(3)
    with pytest.raises(AllBoardsLost):
        ask(names=("a",))
    boards["b"].kind["chip"] = "RK3588"
    with pytest.raises(UnlikeBoards, match="chip: RK3588 against RK3568"):
        ask(resume=True, names=("b",))


def test_one_board_with_two_names_is_named(boards: SpreadBoards, ask: Callable[..., EvalOutcome]) -> None:
    boards["c"] = boards["a"]
    with pytest.raises(UsageError, match="are one board, emulated-a"):
        ask(names=("a", "c"))


def test_a_question_that_no_board_can_answer_ends_it_and_not_the_boards(
    boards: SpreadBoards, ask: Callable[..., EvalOutcome], session: Session
) -> None:
    for board in boards.values():
        board.server.fault("cut", after=0, skip=5, times=-1)
    with pytest.raises(AnswerCut):
        ask()
    content = read_eval(find_eval(session, "latest"))
    assert (content["state"], content["answers"]["count"]) == ("failed", 10)


def test_ctrl_c_ends_the_servers_of_all_boards_and_keeps_what_came(
    boards: SpreadBoards, ask: Callable[..., EvalOutcome], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.eval.course import Course

    for board in boards.values():
        board.server.fault("mute", after=1, skip=3, times=-1)  # It is in the middle of an answer that takes for ever.
    take = Course.take_new
    taken = []

    def interrupted(self: Course, *line: Any) -> None:
        take(self, *line)
        taken.append(line)
        if len(taken) == 6:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Course, "take_new", interrupted)
        with pytest.raises(Interrupted, match="6 answers are kept"):
            ask()
    assert all(board.up == 0 for board in boards.values())
    for board in boards.values():
        board.revive()
    check_forty(ask(resume=True))


def test_dry_says_among_which_boards_the_questions_would_be_spread(
    boards: SpreadBoards, session: Session, tmp_path: Path
) -> None:
    model = write_tiny_gguf(tmp_path / "tiny.gguf", chat_template="{{ messages }}")
    plan = EvalPlan(data=str(write_questions(tmp_path / "forty.jsonl")), limit=3)
    request = EvalRequest(model=str(model), boards=("a", "b"), scheduler="tcp://lab:8786", plan=plan)
    would = would_evaluate(dataclasses.replace(session, dry=True), request)
    assert [entry.where for entry in would if entry.action == "serve"] == ["boards a, b of tcp://lab:8786"]
    assert [board.starts for board in boards.values()] == [0, 0]
