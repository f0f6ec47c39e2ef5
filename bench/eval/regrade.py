"""``eval.regrade``: judges the answers of a record again, by the rules of this version, without asking anybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.eval.answers import grade_line
from bench.eval.grading import GRADER, Verdict
from bench.eval.items import Item
from bench.eval.progress import Progress
from bench.eval.record import ANSWERS, WHOLE, EvalRecord, read_answers, read_eval
from bench.eval.request import EvalOutcome, plan_of
from bench.eval.results import count_results
from core.deadline import Deadline
from core.dry import Would
from core.errors import UsageError
from core.files import atomic_file
from core.locks import hold
from core.record_folder import SUMS, now, write_sums
from core.session import Session

JUDGED_BY = ("strict", "lenient", "extracted", "status", "rule")
"""What makes a verdict another one."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A verdict that is another one now."""

    id: str
    limit: int
    """Tokens that the answer was allowed."""
    budget: str
    """``whole``, or the tokens after which it was cut here."""
    was: dict[str, Any] | None
    """None: there was no verdict."""
    now: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "limit": self.limit, "budget": self.budget, "was": self.was, "now": self.now}


@dataclass(frozen=True, kw_only=True)
class Regraded:
    """A record whose answers were judged again."""

    outcome: EvalOutcome
    grader_was: int
    answers: int
    changes: tuple[Change, ...]

    def as_json(self) -> dict[str, Any]:
        grader = {"was": self.grader_was, "is": GRADER}
        changes = [change.as_json() for change in self.changes]
        return {**self.outcome.as_json(), "answers": self.answers, "grader": grader, "changed": changes}


@dataclass(frozen=True, kw_only=True)
class _Judged:
    line: dict[str, Any]
    verdicts: dict[str, Verdict]

    def changes(self) -> Iterator[Change]:
        for budget, verdict in self.verdicts.items():
            was, is_now = self.line["verdicts"].get(budget), verdict.as_json()
            if was is None or any(was.get(name) != is_now[name] for name in JUDGED_BY):
                yield Change(id=self.line["id"], limit=self.line["limit"], budget=budget, was=was, now=is_now)


def regrade(session: Session, folder: Path) -> Regraded:
    """Writes the answers with their new verdicts, then the results, then the hashes; each file as a whole.

    Raises UsageError for a record without answers, InvalidData for one that cannot be read, and Busy while an evaluation
    writes into it.
    """
    waiting = Deadline.after(session.settings.timeouts.lock, f"the evaluation that writes into {folder}")
    with hold(folder / ".lock", waiting, session.console.info):
        content = read_eval(folder)
        progress = _progress_of(content, folder)
        changes: list[Change] = []
        count = 0
        with atomic_file(folder / ANSWERS) as file:
            for judged in _judge(folder):
                count += 1
                changes += judged.changes()
                progress.take(judged.line, judged.verdicts)
                verdicts = {name: verdict.as_json() for name, verdict in judged.verdicts.items()}
                line = json.dumps({**judged.line, "verdicts": verdicts}, ensure_ascii=False)
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        note = f"Judged again at {now()}: by rules {GRADER}, before by {content['grader']}; other verdicts: {len(changes)}."
        is_sealed = (folder / SUMS).is_file()
        EvalRecord(
            folder,
            {
                **content,
                "grader": GRADER,
                "results": count_results(progress, progress.complete_items()),
                "notes": [*content["notes"], note],
            },
        )
        if is_sealed:
            write_sums(folder)
    return Regraded(
        outcome=EvalOutcome(record=folder, content=read_eval(folder)),
        grader_was=content["grader"],
        answers=count,
        changes=tuple(changes),
    )


def would_regrade(folder: Path) -> list[Would]:
    """What `regrade` would do."""
    content = read_eval(folder)
    _progress_of(content, folder)
    judged = list(_judge(folder))
    changes = sum(len(list(entry.changes())) for entry in judged)
    why = f"rules {content['grader']} before, {GRADER} now; other verdicts: {changes}"
    return [Would(action="judge", what=f"{len(judged)} answers", where=str(folder), why=why)]


def _judge(folder: Path) -> Iterator[_Judged]:
    for line in read_answers(folder):
        budgets = [int(name) for name in line["verdicts"] if name != WHOLE]
        yield _Judged(line=line, verdicts=grade_line(line, budgets))


def _progress_of(content: dict[str, Any], folder: Path) -> Progress:
    """The items of a record, without their answers."""
    found = {
        line["id"]: Item(id=line["id"], question=line["question"], gold=line["gold"]) for line in read_answers(folder)
    }
    if not found:
        raise UsageError(f"{folder} has no answers to judge.", remedy="Go on with it: `ohforge eval.gsm8k --resume`.")
    items = [found.get(id, Item(id=id, question="", gold="")) for id in content["data"]["ids"]]
    return Progress(plan_of(content), items)
