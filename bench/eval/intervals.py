"""Intervals and tests for shares of right answers: scipy's, under the names of our rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share with its 95 % interval."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high}


def wilson(right: int, n: int) -> Share:
    """The share `right` of `n`, 1 or more, with Wilson's interval."""
    from scipy import stats

    interval = stats.binomtest(right, n).proportion_ci(CONFIDENCE, method="wilson")
    return Share(value=right / n, low=float(interval.low), high=float(interval.high))
