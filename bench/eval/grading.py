"""Judges answers: strict and lenient side by side, with the rule that decided, and what is no answer counted apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from bench.eval.extract import BOX, LAST_NUMBER, Extraction, extract
from bench.eval.number import plain_text, read_number

GRADER = 1
"""Version of the rules, which goes into records: answers judged by other ones are not compared."""
RIGHT, WRONG, NO_ANSWER, TRUNCATED, EMPTY = "right", "wrong", "no answer", "truncated", "empty"
STATUSES = (RIGHT, WRONG, NO_ANSWER, TRUNCATED, EMPTY)
"""How an answer ended: by the lenient rules, or why there is none."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is thought of one answer."""

    strict: bool
    """Right by a box, a ``####`` line or a marked answer."""
    lenient: bool
    """Right by these, or by the last number of a text that was not cut and has no box."""
    extracted: str | None
    """The number that was taken, such as ``18`` or ``1/2``."""
    status: str
    """One of `STATUSES`; ``truncated`` and ``empty`` are reasons for no answer."""
    rule: str | None
    """Which rule decided; None: none found anything."""
    truncated: bool
    """Whether the text was cut, answered or not."""
    boxes: int
    first_box: str | None
    """What the first box says; the last one is `extracted`."""
    first_box_right: bool
    last_box_right: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def grade(text: str, gold: Fraction, truncated: bool | None = None) -> Verdict:
    """Judges a text. `truncated`: whether a limit cut it; None, not known: then it was, when it ends in an open box."""
    found = extract(text, truncated)
    cut = found.open_box if truncated is None else truncated
    right = found.value == gold
    return Verdict(
        strict=right and found.rule != LAST_NUMBER,
        lenient=right,
        extracted=_shown(found.value),
        status=_status(text, found, right, cut),
        rule=found.rule,
        truncated=cut,
        boxes=found.boxes,
        first_box=_shown(found.first_box),
        first_box_right=found.first_box == gold,
        last_box_right=right and found.rule == BOX,
    )


def read_gold(gold: object) -> Fraction | None:
    """The right answer as data sets write it: a number, its text, or GSM8K's text that ends in ``#### 18``."""
    if isinstance(gold, str):
        return read_number(plain_text(gold).rpartition("####")[2])
    if isinstance(gold, int | float) and not isinstance(gold, bool):
        return Fraction(str(gold)) if abs(gold) < float("inf") else None
    return None


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Verdicts, counted."""

    n: int
    strict: int
    lenient: int
    statuses: dict[str, int]
    rules: dict[str, int]
    """How often each rule decided; ``none``: nothing was found."""
    truncated: int
    """Texts that were cut, answered or not."""
    no_strict_answer: int
    boxed: int
    """Texts with a complete box."""
    first_box: int
    last_box: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def tally(verdicts: Iterable[Verdict]) -> Tally:
    """Counts verdicts, as they come."""
    counts: Counter[str] = Counter()
    statuses: Counter[str] = Counter(dict.fromkeys(STATUSES, 0))
    rules: Counter[str] = Counter()
    for verdict in verdicts:
        statuses[verdict.status] += 1
        rules[verdict.rule or "none"] += 1
        counts.update(
            n=1,
            strict=verdict.strict,
            lenient=verdict.lenient,
            truncated=verdict.truncated,
            no_strict_answer=verdict.extracted is None or verdict.rule == LAST_NUMBER,
            boxed=verdict.boxes > 0,
            first_box=verdict.first_box_right,
            last_box=verdict.last_box_right,
        )
    names = ("n", "strict", "lenient", "truncated", "no_strict_answer", "boxed", "first_box", "last_box")
    return Tally(statuses=dict(statuses), rules=dict(rules), **{name: int(counts[name]) for name in names})


def _status(text: str, found: Extraction, right: bool, cut: bool) -> str:
    if right:
        return RIGHT
    if found.value is not None:
        return WRONG
    if cut:
        return TRUNCATED
    return NO_ANSWER if text.strip() else EMPTY


def _shown(value: Fraction | None) -> str | None:
    return None if value is None else str(value)
