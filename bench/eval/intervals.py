"""Intervals and tests for shares of right answers: functions of scipy and numpy, under the names of our rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 10_000
AT_ONCE = 500
"""Resamples that are in memory at a time: as many integers for each item."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share, or a difference of two, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low

    def as_json(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True)
class McNemar:
    """Whether two models differ on the same items, told by the items that only one of them has right."""

    first_only: int
    second_only: int
    exact: float
    """Two-sided p-value by the binomial distribution."""
    mid_p: float
    """The same with half of the probability of what was seen: less cautious, and still near the level."""

    def as_json(self) -> dict[str, Any]:
        return {
            "first_only": self.first_only,
            "second_only": self.second_only,
            "exact": self.exact,
            "mid_p": self.mid_p,
        }


def wilson(right: int, n: int) -> Share:
    """The share `right` of `n`, 1 or more, with Wilson's interval."""
    from scipy import stats

    interval = stats.binomtest(right, n).proportion_ci(CONFIDENCE, method="wilson")
    return Share(value=right / n, low=float(interval.low), high=float(interval.high))


def mcnemar(first_only: int, second_only: int) -> McNemar:
    """For the one comparison that was planned before: of many that are looked at, some are always significant."""
    from scipy import stats

    n = first_only + second_only
    if not n:
        return McNemar(first_only=0, second_only=0, exact=1.0, mid_p=1.0)
    fewer = min(first_only, second_only)
    tail = float(stats.binom.cdf(fewer, n, 0.5))
    mid = 2 * tail - float(stats.binom.pmf(fewer, n, 0.5))
    return McNemar(first_only=first_only, second_only=second_only, exact=min(1.0, 2 * tail), mid_p=min(1.0, mid))


def resampled_means(values: NDArray[Any], seed: int, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """Means over the items of many resamples of them: of `values` (items by columns), an array (resamples by columns).

    Every column sees the same items in a resample, so that differences between columns are paired.
    """
    import numpy as np

    return np.concatenate(list(_means(values, seed, resamples)))


def _means(values: NDArray[Any], seed: int, resamples: int) -> Iterator[NDArray[np.float64]]:
    import numpy as np

    items = len(values)
    random = np.random.default_rng(seed)
    for begin in range(0, resamples, AT_ONCE):
        count = min(AT_ONCE, resamples - begin)
        drawn = random.integers(items, size=(count, items)) + items * np.arange(count)[:, None]
        # How often each item is drawn says the same as which items are, and makes the means one product.
        times = np.bincount(drawn.ravel(), minlength=count * items).reshape(count, items)
        yield times @ values.astype(float) / items


def percentile_interval(samples: NDArray[np.float64]) -> tuple[float, float]:
    """What lies between the lowest and the highest 2.5 %; samples may be infinite."""
    import numpy as np

    beyond = (1 - CONFIDENCE) / 2
    low = np.quantile(samples, beyond, method="lower")
    return float(low), float(np.quantile(samples, 1 - beyond, method="higher"))
