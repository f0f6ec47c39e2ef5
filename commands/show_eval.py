"""How verdicts look to people, and to scripts as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bench.eval.grade_file import with_second_opinion
from bench.eval.grading import GRADER
from bench.eval.record import WHOLE

if TYPE_CHECKING:
    from bench.eval.grade_file import GradedLine
    from bench.eval.grading import Tally, Verdict
    from bench.eval.regrade import Regraded
    from bench.eval.request import EvalOutcome
    from bench.eval.second_opinion import MathVerify
    from core.console import Console

DISPUTED = "of another opinion"


class LineTeller:
    """Prints graded lines as JSON where that is asked for, and warns of those that are broken."""

    def __init__(self, console: Console, second: MathVerify | None = None) -> None:
        self._console = console
        self._second = second
        self._opinions: Counter[str] = Counter()
        self.broken = 0

    def tell(self, lines: Iterable[GradedLine]) -> Iterator[Verdict]:
        """Hands on the verdicts, as they come."""
        for line in lines:
            graded = with_second_opinion(line, self._second) if self._second is not None else line
            self._console.result_line(graded.as_json())
            if graded.verdict is None:
                self.broken += 1
                self._console.warn(f"line {graded.line} is not graded: {graded.fault}.")
                continue
            if graded.second_opinion is not None:
                self._opinions[graded.second_opinion] += 1
            if graded.is_disputed:
                self._opinions[DISPUTED] += 1
                self._console.info(
                    f"line {graded.line}: math-verify says {graded.second_opinion}, these rules say "
                    f"{graded.verdict.status} ({graded.verdict.extracted or 'no number'})"
                )
            yield graded.verdict

    def sum_up(self) -> None:
        if self._second is not None:
            self._console.info(f"math-verify: {_listed(self._opinions) or 'nothing to judge'}")


def show_tally(console: Console, counts: Tally) -> None:
    """Shares of right answers with their intervals, and what became of the others."""
    from bench.eval.intervals import wilson

    if not counts.n:
        return
    rows = []
    for name, right in (
        ("strict", counts.strict),
        ("lenient", counts.lenient),
        ("first box", counts.first_box),
        ("last box", counts.last_box),
    ):
        share = wilson(right, counts.n)
        rows.append([name, f"{right} of {counts.n}", f"{share.value:.1%}", f"{share.low:.1%} to {share.high:.1%}"])
    console.table(["RIGHT BY", "ITEMS", "SHARE", "95 % INTERVAL"], rows)
    console.info(f"by the lenient rules: {_listed(counts.statuses)}")
    console.info(f"decided by: {_listed(counts.rules)}")
    console.info(f"cut: {counts.truncated}; without a box: {counts.n - counts.boxed}")


def show_evaluation(console: Console, outcome: EvalOutcome) -> None:
    """Accuracies by budget, whether they are valid, and where answers and times come from."""
    content = outcome.content
    rows = []
    for row in content["results"]:
        told = f" (told {row['told']})" if row["told"] is not None else ""
        strict, lenient = row["accuracy"]["strict"], row["accuracy"]["lenient"]
        shares = [f"{share['value']:.1%} ({share['low']:.1%} to {share['high']:.1%})" for share in (strict, lenient)]
        rows.append(
            [
                f"{row['budget']}{told}",
                *shares,
                str(row["n"]),
                str(row["truncated"]),
                str(row["no_answer"]),
                row["source"],
            ]
        )
    console.table(["TOKENS", "STRICT (95 %)", "LENIENT (95 %)", "ITEMS", "CUT", "NO ANSWER", "ANSWERS"], rows)
    for note in content["notes"]:
        console.warn(note)
    for part in content.get("parts", ()):
        lost = f"; given up: {part['given_up']['message']}" if part["given_up"] else ""
        console.info(f"board {part['board']}: {part['answers']} answers, {part['failures']} failures{lost}")
    prefix = content["prefix"]
    console.info(f"answers under budgets: {prefix['why']} ({prefix['verified']} compared and alike)")
    if content["valid"]:
        console.info(f"valid; {content['server']['label']}")
    else:
        for flag in content["flags"]:
            console.warn(f"not valid: {flag['sentence']}")
    console.info(f"record: {outcome.record}")


def show_regraded(console: Console, regraded: Regraded) -> None:
    """The verdicts that are others now, and the accuracies."""
    for change in regraded.changes:
        where = "" if change.budget == WHOLE else f" after {change.budget} tokens"
        console.info(f"  {change.id}{where}: {_verdict(change.was)} before, {_verdict(change.now)} now")
    show_evaluation(console, regraded.outcome)
    console.info(
        f"rules {regraded.grader_was} before, {GRADER} now: {len(regraded.changes)} other verdicts on {regraded.answers} answers"
    )


def _verdict(verdict: Mapping[str, Any] | None) -> str:
    if verdict is None:
        return "none"
    return f"{verdict['status']} ({verdict['extracted'] or 'nothing'}{' by ' + verdict['rule'] if verdict['rule'] else ''})"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
