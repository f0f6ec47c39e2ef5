"""eval.regrade: verdicts by the rules of today on the answers of yesterday."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.eval.grading import GRADER
from bench.eval.record import read_answers, read_eval
from bench.eval.regrade import regrade
from bench.eval.request import EvalOutcome
from core.errors import UsageError
from core.record_folder import FILE, check_record, write_sums
from core.session import Session
from tests.support.command_line import said_by


def change_lines(outcome: EvalOutcome, change: Callable[[dict[str, Any]], None]) -> None:
    """As if other rules had judged the record."""
    lines = list(read_answers(outcome.record))
    for line in lines:
        change(line)
    (outcome.record / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    content = {**read_eval(outcome.record), "grader": 0, "results": []}
    (outcome.record / FILE).write_text(json.dumps(content))
    write_sums(outcome.record)


def shares(content: Any) -> list[float]:
    return [row["accuracy"]["strict"]["value"] for row in content["results"]]


def test_verdicts_of_other_rules_become_those_of_these_and_nothing_else_changes(
    session: Session, outcome: EvalOutcome
) -> None:
    before = list(read_answers(outcome.record))

    def worsen(line: dict[str, Any]) -> None:
        for verdict in line["verdicts"].values():
            verdict.update(strict=False, lenient=False, extracted=None, status="no answer", rule=None)

    change_lines(outcome, worsen)
    found = regrade(session, outcome.record)
    content = read_eval(outcome.record)
    assert list(read_answers(outcome.record)) == before
    assert shares(content) == [8 / 40, 18 / 40, 29 / 40]
    assert (content["grader"], found.grader_was, found.answers) == (GRADER, 0, len(before))
    # Every whole box, right or wrong, had been left unread: 40 of whole answers, 18 and 8 of cut ones, and 2 checks.
    whole = [change for change in found.changes if change.budget == "whole" and change.limit == 1024]
    assert len(whole) == 40
    assert all(change.was is not None and change.was["status"] == "no answer" for change in found.changes)
    assert content["notes"][-1].startswith("Judged again at ")
    assert (content["times"], content["state"]) == (outcome.content["times"], "done")
    assert check_record(outcome.record).is_unchanged


def test_a_record_by_the_same_rules_has_no_changes(session: Session, outcome: EvalOutcome) -> None:
    found = regrade(session, outcome.record)
    assert found.changes == ()
    assert shares(found.outcome.content) == shares(outcome.content)


def test_a_record_without_answers_is_refused(session: Session, outcome: EvalOutcome) -> None:
    (outcome.record / "answers.jsonl").write_text("")
    with pytest.raises(UsageError, match="no answers to judge"):
        regrade(session, outcome.record)


def test_the_command_says_what_it_would_change_and_then_what_it_changed(outcome: EvalOutcome) -> None:
    def worsen(line: dict[str, Any]) -> None:
        if line["limit"] == 1024:
            line["verdicts"]["whole"]["status"] = "wrong"

    change_lines(outcome, worsen)
    sealed = (outcome.record / "SHA256SUMS").read_bytes()
    words = ["eval.regrade", str(outcome.record), "--json"]
    status, out, _ = said_by(["--dry", *words])
    assert (status, json.loads(out)["would"][0]["why"]) == (0, f"rules 0 before, {GRADER} now; other verdicts: 29")
    assert (outcome.record / "SHA256SUMS").read_bytes() == sealed
    status, out, text = said_by(words)
    answer = json.loads(out)
    assert (status, len(answer["changed"]), answer["grader"]) == (0, 29, {"was": 0, "is": GRADER})
    assert answer["accuracy"]["strict"]["value"] == 29 / 40
    assert "wrong (" in text
