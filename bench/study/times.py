"""How long the tokens of answers took: the first one, every further one, and by where in an answer it stands."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.eval.budgets import TimedAnswer
from bench.stats import Summary, summarise
from bench.study.evidence import Answered

GROUPS = 16
"""Of positions in an answer, each with a median of its own."""
LEAST_OF_A_GROUP = 5


@dataclass(frozen=True, kw_only=True)
class Position:
    """Tokens that stand at about the same place in their answers, in seconds."""

    at: float
    median: float
    p5: float
    p95: float


@dataclass(frozen=True, kw_only=True)
class TokenTimes:
    """Of all answers of a model at a place. Intervals are over answers: tokens of one answer depend on each other."""

    first: Summary
    """From a question until its first token."""
    token: Summary
    """The mean of an answer's further tokens, a sample for each answer."""
    single: Summary
    """Of each further token; its interval tells nothing."""
    positions: Sequence[Position]


def token_times(each: Answered) -> TokenTimes | None:
    """As they came with the answers; None where no answer has times of at least two tokens."""
    timed = [answer for answer in each.timed if len(answer.seconds) > 1]
    further = [step for answer in timed for step in _steps(answer) if step > 0]
    if not further:
        return None
    means = [(answer.seconds[-1] - answer.seconds[0]) / (len(answer.seconds) - 1) for answer in timed]
    return TokenTimes(
        first=summarise([answer.seconds[0] for answer in timed], "s"),
        token=summarise([mean for mean in means if mean > 0], "s"),
        single=summarise(further, "s"),
        positions=_positions(timed),
    )


def _steps(answer: TimedAnswer) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(answer.seconds)]


def _positions(timed: Sequence[TimedAnswer]) -> list[Position]:
    width = max(1, -(-max(len(answer.seconds) for answer in timed) // GROUPS))
    groups: dict[int, list[float]] = {}
    for answer in timed:
        for place, step in enumerate(_steps(answer)):
            groups.setdefault(place // width, []).append(step)
    found = []
    for group, steps in sorted(groups.items()):
        if len(steps) >= LEAST_OF_A_GROUP:
            twentieths = statistics.quantiles(steps, n=20, method="inclusive")
            at = group * width + (width + 3) / 2
            found.append(Position(at=at, median=statistics.median(steps), p5=twentieths[0], p95=twentieths[-1]))
    return found
