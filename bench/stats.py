"""What a series of samples says: functions of scipy and of Python, under the names of our rules."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

CONFIDENCE = 0.95
LEAST_FOR_INTERVAL = 6
"""Of fewer samples not even the smallest and the largest enclose the median with 95 % (1 - 2/2^n)."""
TREND_LEVEL = 0.01
LEAST_TREND = 0.05
"""A trend below 5 % from the first third to the last is none that matters."""
FAR = 3.5
"""Modified z-score from which a sample counts as an outlier (Iglewicz and Hoaglin, 1993)."""
LEAST_DISTANCE = 0.05
"""An outlier is also so far from the median, as a share of it: samples that hardly differ have none."""
RESAMPLES = 4999


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A series in a few numbers, all in `unit` but `n` and `cv`."""

    median: float
    low: float | None
    """With `high` the 95 % interval of the median, by order statistics; None for fewer than six samples."""
    high: float | None
    p5: float
    p95: float
    cv: float | None
    """Standard deviation as a share of the mean; None for one sample."""
    n: int
    unit: str

    @property
    def spread(self) -> float | None:
        """Half of the median's interval, as a share of the median."""
        return (self.high - self.low) / 2 / self.median if self.low is not None and self.high is not None else None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(samples: Sequence[float], unit: str) -> Summary:
    """Of one sample or more, all above 0."""
    low, high = median_interval(samples)
    several = len(samples) > 1
    twentieths = statistics.quantiles(samples, n=20, method="inclusive") if several else [samples[0]]
    return Summary(
        median=statistics.median(samples),
        low=low,
        high=high,
        p5=twentieths[0],
        p95=twentieths[-1],
        cv=statistics.stdev(samples) / statistics.mean(samples) if several else None,
        n=len(samples),
        unit=unit,
    )


def median_interval(samples: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """Two samples between which the median lies with 95 %, whatever the distribution; None for too few."""
    from scipy import stats

    if len(samples) < LEAST_FOR_INTERVAL:
        return None, None
    interval = stats.quantile_test(samples, p=0.5).confidence_interval(CONFIDENCE)
    low, high = float(interval.low), float(interval.high)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)


def find_trend(samples: Sequence[float]) -> float | None:
    """How much the last third differs from the first, as a share, when the order is no accident (Kendall's tau)."""
    from scipy import stats

    if len(samples) < LEAST_FOR_INTERVAL or len(set(samples)) == 1:
        return None
    third = len(samples) // 3
    change = statistics.median(samples[-third:]) / statistics.median(samples[:third]) - 1
    pvalue = float(stats.kendalltau(range(len(samples)), samples).pvalue)
    return change if pvalue < TREND_LEVEL and abs(change) >= LEAST_TREND else None


def find_outliers(samples: Sequence[float]) -> list[int]:
    """Places of the samples that lie apart from the others."""
    from scipy import stats

    if len(samples) < LEAST_FOR_INTERVAL:
        return []
    median = statistics.median(samples)
    scale = float(stats.median_abs_deviation(samples, scale="normal"))
    return [
        place
        for place, sample in enumerate(samples)
        if abs(sample - median) > max(FAR * scale, LEAST_DISTANCE * median)
    ]


def compare_medians(
    first: Sequence[float], second: Sequence[float], seed: int = 1
) -> tuple[float, float | None, float | None]:
    """How much the median of `second` differs from that of `first`, as a share, with its 95 % bootstrap interval.

    The bounds are None when one of the series is too short.
    """
    from scipy import stats

    def difference(one: Sequence[float], other: Sequence[float]) -> float:
        return statistics.median(other) / statistics.median(one) - 1

    seen = difference(first, second)
    if min(len(first), len(second)) < LEAST_FOR_INTERVAL:
        return seen, None, None
    found = stats.bootstrap(
        (first, second),
        difference,
        n_resamples=RESAMPLES,
        vectorized=False,
        confidence_level=CONFIDENCE,
        method="percentile",
        random_state=seed,
    ).confidence_interval
    return seen, float(found.low), float(found.high)
