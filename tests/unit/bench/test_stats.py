"""Medians, their intervals, trends and outliers, against published tables, numpy and hand calculation."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bench.stats import compare_medians, find_outliers, find_trend, median_interval, summarise


@pytest.mark.parametrize(("n", "rank"), [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10)])
def test_the_interval_of_a_median_has_the_ranks_of_the_published_table(n: int, rank: int) -> None:
    # Conover, Practical Nonparametric Statistics: 95 % limits of a median are the samples of rank r and n + 1 - r.
    samples = list(map(float, range(1, n + 1)))
    random.Random(1).shuffle(samples)
    assert median_interval(samples) == (rank, n + 1 - rank)


def test_five_samples_have_no_95_percent_interval_of_their_median() -> None:
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0]) == (None, None)  # 1 - 2/2**5 = 93.75 %
    assert summarise([1.0, 2.0, 3.0, 4.0, 5.0], "s").spread is None


def test_a_summary_agrees_with_numpy() -> None:
    samples = [float(value) for value in np.random.default_rng(1).normal(10, 1, 17)]
    summary = summarise(samples, "tokens/s")
    assert (summary.median, summary.n, summary.unit) == (pytest.approx(np.median(samples)), 17, "tokens/s")
    assert (summary.p5, summary.p95) == pytest.approx(tuple(np.percentile(samples, [5, 95])))
    assert summary.cv == pytest.approx(np.std(samples, ddof=1) / np.mean(samples))


def test_one_sample_is_its_own_median_and_has_no_spread() -> None:
    summary = summarise([3.5], "tokens/s")
    assert (summary.median, summary.p5, summary.p95, summary.cv, summary.low) == (3.5, 3.5, 3.5, None, None)


def test_throttling_is_found_as_a_trend_and_noise_is_not() -> None:
    # The study in the facts saw 204.8 go to 137.9 from one trial to the next; here evenly over nine.
    falling = [204.8 - 8.36 * step for step in range(9)]
    assert find_trend(falling) == pytest.approx(falling[7] / falling[1] - 1)
    assert find_trend([10.0, 10.2, 9.9, 10.1, 10.0, 9.8, 10.2, 10.1, 9.9]) is None
    assert find_trend([10.0] * 9) is None
    assert find_trend([10.0 + 0.001 * step for step in range(9)]) is None, "a trend of less than 5 % does not matter"


def test_an_outlier_is_far_from_samples_that_agree() -> None:
    assert find_outliers([10.0, 10.1, 9.9, 10.0, 10.2, 14.0, 9.8]) == [5]
    assert find_outliers([10.0, 10.0, 10.0, 10.0, 10.0, 10.01]) == []
    assert find_outliers([8.0, 9.0, 10.0, 11.0, 12.0, 10.5]) == []


def test_the_interval_of_a_change_holds_the_true_one_and_not_0() -> None:
    chance = np.random.default_rng(2)
    slow, fast = ([float(value) for value in chance.normal(mean, 0.2, 20)] for mean in (10.0, 11.0))
    change, low, high = compare_medians(slow, fast)
    assert change == pytest.approx(np.median(fast) / np.median(slow) - 1)
    assert low is not None and high is not None
    assert 0 < low < 0.1 < high < 0.2
    assert compare_medians(slow, fast) == (change, low, high), "the same seed gives the same interval"
    assert compare_medians([10.0] * 5, fast)[1:] == (None, None)
