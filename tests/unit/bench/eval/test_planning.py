"""What an evaluation takes, what fewer items cost, and what to drop."""

from __future__ import annotations

import dataclasses

import pytest

from bench.eval.budgets import LatencyModel, model_of_speeds
from bench.eval.planning import (
    Cell,
    interval_width,
    items_for_difference,
    items_for_width,
    need_of,
    what_to_drop,
)

DAY = 86_400.0
Q2, Q8 = (
    LatencyModel(prefill=0, prefill_per_token=0, decode=d, decode_per_position=0, source="s") for d in (18.18, 49.73)
)
"""Seconds for each token of the two files on the study's board, which left the prefill out."""


def cell(name: str = "q2", latency: LatencyModel = Q2, **changes: object) -> Cell:
    plain = Cell(
        name=name,
        items=1319,
        prompt_tokens=120,
        answer_tokens=151,
        max_tokens=1024,
        latency=latency,
        checked_share=0.0,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("latency", "days"), [(Q2, 41.6), (Q8, 113.9)])
def test_the_whole_test_set_would_have_taken_the_studys_board_weeks(latency: LatencyModel, days: float) -> None:
    # 1319 items of 150 tokens behind the first, at the measured seconds for each.
    assert need_of(cell(latency=latency)).seconds / DAY == pytest.approx(days, abs=0.05)


def test_the_seconds_of_a_plan_are_the_sum_of_the_models_steps() -> None:
    latency = LatencyModel(prefill=2.0, prefill_per_token=0.1, decode=1.0, decode_per_position=0.01, source="s")
    need = need_of(cell(latency=latency, items=7, prompt_tokens=30, answer_tokens=9, load_seconds=5.0))
    assert need.seconds == pytest.approx(5.0 + 7 * latency.seconds(30, 9)[-1])
    assert need.most_seconds == pytest.approx(5.0 + 7 * latency.seconds(30, 1024)[-1])
    assert (need.tokens, need.answers, need.prompt_tokens) == (63, 7, 210)


def test_limits_that_a_prompt_names_are_runs_of_their_own_and_one_run_gives_all_others() -> None:
    one = need_of(cell(items=100, checked_share=0.05))
    told = need_of(cell(items=100, told=(64, 128, 256)))
    assert (one.answers, told.answers) == (105, 300)
    assert told.tokens == 100 * (64 + 128 + 151)


@pytest.mark.parametrize(("items", "half"), [(50, 0.131), (100, 0.094), (200, 0.067), (500, 0.043), (1319, 0.026)])
def test_a_subset_costs_so_much_in_width_and_a_width_so_many_items(items: int, half: float) -> None:
    # Half widths at 60 %, of Wilson's formula.
    assert interval_width(items) / 2 == pytest.approx(half, abs=0.0006)
    assert items_for_width(interval_width(items)) == pytest.approx(items, abs=2)


def test_no_width_is_too_wide_or_too_narrow_to_be_answered() -> None:
    assert items_for_width(1.0) == 1
    # By the normal approximation, (2 * 1.96 / 0.001)^2 * 0.6 * 0.4.
    assert items_for_width(0.001) == pytest.approx(3_687_900, rel=1e-3)


@pytest.mark.parametrize(
    ("difference", "discordant", "items"),
    [(0.05, 0.2, 626), (0.05, 0.3, 940), (0.05, 0.4, 1253), (0.10, 0.2, 155), (0.10, 0.3, 233), (0.15, 0.4, 137)],
)
def test_a_difference_between_two_models_wants_so_many_items(difference: float, discordant: float, items: int) -> None:
    # Connor's formula by another program, which rounds to the nearest number; ours must be enough.
    assert 0 <= items_for_difference(difference, discordant) - items <= 1


def test_a_difference_that_cannot_be_is_refused() -> None:
    for difference, discordant in ((0.0, 0.2), (0.3, 0.2), (0.1, 1.5)):
        with pytest.raises(ValueError, match="cannot be"):
            items_for_difference(difference, discordant)


def test_a_plan_that_is_too_long_comes_with_ways_to_shorten_it_and_what_they_cost() -> None:
    cells = [cell(items=200), cell("q8", Q8, items=200), cell("q2 told", items=200, told=(64, 128))]
    hours = sum(need_of(one).hours for one in cells) / 2
    ways = what_to_drop(cells, hours)
    fewer = next(way for way in ways if way.what.startswith("ask 99 of 200") or way.what.startswith("ask 100 of 200"))
    assert fewer.fits
    assert fewer.cost == "intervals 18.9% wide instead of 13.5%"
    assert {way.what for way in ways if way is not fewer} == {
        "leave out the told limit of 128 tokens",
        "name one limit only, the largest",
        "ask q8 on a host, and measure 16 tokens on its board",
    }
    assert [way.fits for way in ways] == sorted([way.fits for way in ways], reverse=True)
    assert all(way.seconds <= hours * 3600 for way in ways if way.fits)
    assert what_to_drop(cells, 1e6) == []


def test_no_subset_is_proposed_that_tells_nothing() -> None:
    ways = what_to_drop([cell(items=200)], hours=0.1)
    assert not any(way.fits for way in ways if way.what.startswith("ask 20 of 200"))
    assert what_to_drop([cell(items=10, latency=model_of_speeds(10, 10, "s"))], hours=0.01)[0].what.startswith("ask q2")
