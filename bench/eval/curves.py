"""Accuracy against tokens and against seconds, and how the curves of two models lie to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bench.eval.budgets import SECONDS, TOKENS, TimedAnswer
from bench.eval.grading import Tally, Verdict, tally
from bench.eval.intervals import (
    RESAMPLES,
    McNemar,
    Share,
    mcnemar,
    percentile_interval,
    resampled_means,
    wilson,
)
from core.errors import UnlikeRecords

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HOST_ANSWERS = "answers from host, times from board"
"""Label of times that were not measured with the answers."""
NOBODY = "neither"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Verdicts on the same items under each of several budgets."""

    name: str
    """Of the model, the quantisation, the prompt: what tells it from other curves."""
    unit: str
    """Of the budgets: `TOKENS` or `SECONDS`."""
    source: str
    """Where answers and times come from, in words that go below every figure."""
    items: tuple[str, ...]
    budgets: tuple[float, ...]
    verdicts: tuple[tuple[Verdict, ...], ...]
    """For each budget one for each item."""

    def right(self, *, strict: bool = False) -> NDArray[np.bool_]:
        """Items by budgets."""
        import numpy as np

        return np.array([[v.strict if strict else v.lenient for v in column] for column in self.verdicts]).T

    def points(self) -> list[Point]:
        """What stands in a table or a figure, a row for each budget."""
        return [Point.of(budget, column) for budget, column in zip(self.budgets, self.verdicts, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One budget of a curve, with Wilson's intervals."""

    budget: float
    strict: Share
    lenient: Share
    counts: Tally

    @classmethod
    def of(cls, budget: float, verdicts: Sequence[Verdict]) -> Point:
        counts = tally(verdicts)
        strict, lenient = wilson(counts.strict, counts.n), wilson(counts.lenient, counts.n)
        return cls(budget=budget, strict=strict, lenient=lenient, counts=counts)

    def as_json(self) -> dict[str, Any]:
        accuracy = {"strict": self.strict.as_json(), "lenient": self.lenient.as_json()}
        return {"budget": self.budget, "accuracy": accuracy, **self.counts.as_json()}


def token_curve(name: str, answers: Sequence[TimedAnswer], budgets: Sequence[int], source: str) -> Curve:
    """Accuracy under limits in tokens, out of whole answers."""
    verdicts = tuple(tuple(answer.within_tokens(budget) for answer in answers) for budget in budgets)
    return _curve(name, TOKENS, source, answers, budgets, verdicts)


def time_curve(name: str, answers: Sequence[TimedAnswer], budgets: Sequence[float], source: str) -> Curve:
    """Accuracy under limits in seconds from the request, out of whole answers whose times are known."""
    verdicts = tuple(
        tuple(answer.within_tokens(answer.tokens_within(seconds)) for answer in answers) for seconds in budgets
    )
    return _curve(name, SECONDS, source, answers, budgets, verdicts)


def one_ratio_curve(
    name: str, answers: Sequence[TimedAnswer], budgets: Sequence[int], ratio: float, source: str
) -> Curve:
    """As the study had it: where the other model gets N tokens, this one, `ratio` times slower, gets N / `ratio`.

    The budgets stay those of the other model, so that both curves can be compared. Prefill has no part in it.
    """
    verdicts = tuple(tuple(answer.within_tokens(round(budget / ratio)) for answer in answers) for budget in budgets)
    return _curve(name, TOKENS, f"{source}; one ratio of {ratio:g}", answers, budgets, verdicts)


def _curve(
    name: str,
    unit: str,
    source: str,
    answers: Sequence[TimedAnswer],
    budgets: Sequence[float],
    verdicts: tuple[tuple[Verdict, ...], ...],
) -> Curve:
    return Curve(
        name=name,
        unit=unit,
        source=source,
        items=tuple(answer.id for answer in answers),
        budgets=tuple(budgets),
        verdicts=verdicts,
    )


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """Where the lead passes from one model to the other."""

    at: float | None
    """In the unit of the budgets, by interpolation; None: there is no crossing in range."""
    low: float | None
    """With `high` its 95 % interval; None: the interval reaches out of the range of the budgets on that side."""
    high: float | None
    before: str
    """Who leads at smaller budgets; without a crossing, at all."""
    after: str
    in_range: float
    """In what share of the resamples the lead passes within the range."""

    def sentence(self, unit: str) -> str:
        if self.at is None:
            return (
                f"no crossing in range: {self.before} is ahead, with a crossing in {self.in_range:.1%} of the resamples"
            )
        low, high = (("out of range" if bound is None else f"{bound:.4g}") for bound in (self.low, self.high))
        return f"{self.before} is ahead up to {self.at:.4g} {unit} ({low} to {high}), {self.after} from there on"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two curves of the same items and budgets, compared item by item; all out of one set of resamples."""

    first: Curve
    second: Curve
    strict: bool = False
    seed: int = 1
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        for what in ("unit", "items", "budgets"):
            if getattr(self.first, what) != getattr(self.second, what):
                raise UnlikeRecords(
                    f"{self.first.name} and {self.second.name} have not the same {what}.",
                    remedy="Ask both models the same items, by the same seed, and compare them under the same budgets.",
                )

    @cached_property
    def _gains(self) -> NDArray[np.int8]:
        """1 where only the second is right, -1 where only the first is: items by budgets."""
        first, second = self.first.right(strict=self.strict), self.second.right(strict=self.strict)
        gains: NDArray[np.int8] = second.astype("int8") - first.astype("int8")
        return gains

    @cached_property
    def _resampled(self) -> NDArray[np.float64]:
        return resampled_means(self._gains, self.seed, self.resamples)

    def differences(self) -> list[Share]:
        """How much more the second has right under each budget, with percentile intervals over the items."""
        bounds = [percentile_interval(column) for column in self._resampled.T]
        means = self._gains.mean(axis=0)
        return [Share(value=float(mean), low=low, high=high) for mean, (low, high) in zip(means, bounds, strict=True)]

    def planned(self, budget: float) -> McNemar:
        """The test of one comparison that was planned before: that under one of the budgets."""
        column = self._gains[:, self.first.budgets.index(budget)]
        return mcnemar(int((column < 0).sum()), int((column > 0).sum()))

    def crossing(self) -> Crossing:
        """Where the lead passes, as the split of the budgets that leaves the least of each lead on the wrong side."""
        import numpy as np

        budgets = np.array(self.first.budgets)
        means = self._gains.mean(axis=0)
        if not means.any():
            return Crossing(at=None, low=None, high=None, before=NOBODY, after=NOBODY, in_range=0.0)
        rising = _scores(means[None]).max() >= _scores(-means[None]).max()
        sign = 1 if rising else -1
        (at,) = find_crossings(budgets, sign * means[None])
        found = find_crossings(budgets, sign * self._resampled)
        low, high = percentile_interval(found)
        names = (self.first.name, self.second.name) if rising else (self.second.name, self.first.name)
        ahead = names if np.isfinite(at) or at > 0 else names[::-1]
        return Crossing(
            at=float(at) if np.isfinite(at) else None,
            low=low if np.isfinite(low) else None,
            high=high if np.isfinite(high) else None,
            before=ahead[0],
            after=ahead[1] if np.isfinite(at) else ahead[0],
            in_range=float(np.isfinite(found).mean()),
        )


def find_crossings(budgets: NDArray[np.float64], differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where each row of differences goes from below to above 0: minus infinity when it is above all along, infinity when
    below.

    Where it does so several times, the split counts that leaves the least on the wrong side. Between the two budgets
    beside it the line is straight.
    """
    import numpy as np

    scores = _scores(differences)
    is_best = scores >= scores.max(axis=1, keepdims=True) - 1e-12
    count = differences.shape[1]
    first, last = is_best.argmax(axis=1), count - is_best[:, ::-1].argmax(axis=1)
    rows = np.flatnonzero((first > 0) & (last < count))
    below, above = first[rows] - 1, last[rows]
    low, high = differences[rows, below], differences[rows, above]
    found = np.where(first == 0, -np.inf, np.inf)
    found[rows] = budgets[below] + low / (low - high) * (budgets[above] - budgets[below])
    return found


def _scores(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each row and place of a split, how much lies below 0 before it and above 0 behind it."""
    import numpy as np

    start = np.zeros((len(differences), 1))
    before = np.concatenate([start, np.cumsum(-differences, axis=1)], axis=1)
    behind = np.concatenate([np.cumsum(differences[:, ::-1], axis=1)[:, ::-1], start], axis=1)
    scores: NDArray[np.float64] = before + behind
    return scores
