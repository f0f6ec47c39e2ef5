"""Intervals and tests, against published figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bench.eval.intervals import mcnemar, percentile_interval, resampled_means, wilson


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [
        # Newcombe, Two-sided confidence intervals for the single proportion (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_intervals_of_shares_are_those_that_were_published(right: int, n: int, low: float, high: float) -> None:
    share = wilson(right, n)
    assert (round(share.low, 4), round(share.high, 4), share.value) == (low, high, right / n)


@pytest.mark.parametrize(
    ("first", "second", "exact", "mid_p"),
    [
        # Fagerland, Lydersen, Laake, The McNemar test for binary matched-pairs data (2013): airways before and after.
        (1, 7, 0.0703, 0.0391),
        # By hand: 2 * (1 + 11 + 55) / 2^11, and half of the last term's double less.
        (2, 9, 134 / 2048, (134 - 55) / 2048),
        (3, 3, 1.0, 1.0),
        (0, 0, 1.0, 1.0),
    ],
)
def test_a_comparison_of_pairs_has_the_published_p_values(first: int, second: int, exact: float, mid_p: float) -> None:
    for found in (mcnemar(first, second), mcnemar(second, first)):
        assert (found.exact, found.mid_p) == (pytest.approx(exact, abs=5e-5), pytest.approx(mid_p, abs=5e-5))


def test_resampled_means_have_the_spread_that_theory_says_and_columns_stay_paired() -> None:
    values = np.zeros((400, 3))
    values[:100, 0] = 1
    values[:, 1] = 1 - values[:, 0]
    means = resampled_means(values, seed=7, resamples=4000)
    assert means.shape == (4000, 3)
    assert np.allclose(means[:, 0] + means[:, 1], 1)
    assert not means[:, 2].any()
    # The binomial distribution's own quantiles, of 400 draws with a chance of a quarter.
    low, high = percentile_interval(means[:, 0])
    assert (low, high) == pytest.approx([stats.binom.ppf(q, 400, 0.25) / 400 for q in (0.025, 0.975)], abs=0.005)


def test_the_same_seed_gives_the_same_resamples() -> None:
    values = np.arange(50.0).reshape(50, 1)
    first, again, other = (resampled_means(values, seed=seed, resamples=700) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_an_interval_may_reach_to_infinity() -> None:
    samples = np.array([-np.inf] * 10 + [1.0] * 90)
    assert percentile_interval(samples) == (-np.inf, 1.0)
