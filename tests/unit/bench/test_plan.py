"""What is asked for, in which order it is measured, and how long it will take."""

from __future__ import annotations

import itertools

import pytest

from bench.plan import (
    Configuration,
    Plan,
    check_tokens,
    forecast_run,
    order_rounds,
    read_repetitions,
    read_threads,
    sweep_threads,
)
from bench.series import Timing
from core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"), [("10", (10, 10, None)), ("5%", (6, 30, 0.05)), ("2.5%", (6, 30, 0.025)), ("1", (1, 1, None))]
)
def test_repetitions_are_a_number_or_a_width(text: str, expected: tuple[int, int, float | None]) -> None:
    found = read_repetitions(text)
    assert (found.least, found.most, found.within) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "ten", "0%", "100%", "5 %", "1.5", "%", "99999"])
def test_repetitions_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="neither a number nor a share"):
        read_repetitions(text)


def test_threads_are_a_list_without_0() -> None:
    assert (read_threads("1, 2,4,2"), read_threads("")) == ((1, 2, 4), ())
    for text in ("0", "1,0", "two", "-1", "1,,2", "1.5", "513"):
        with pytest.raises(UsageError, match="no list of thread counts"):
            read_threads(text)


@pytest.mark.parametrize(("prompt", "generate"), [(0, 0), (-1, 4), (4, -1)])
def test_nothing_to_measure_is_refused(prompt: int, generate: int) -> None:
    with pytest.raises(UsageError, match="nothing to measure"):
        check_tokens(prompt, generate)


def test_the_sweep_goes_by_powers_of_two_to_all_cores() -> None:
    assert [sweep_threads(cores) for cores in (1, 2, 4, 6, 8)] == [
        *((1,), (1, 2), (1, 2, 4), (1, 2, 4, 6), (1, 2, 4, 8))
    ]


def test_every_round_has_every_configuration_once_in_an_order_that_the_seed_decides() -> None:
    configurations = [Configuration(model="m", threads=threads) for threads in range(1, 7)]

    def rounds(seed: int) -> list[list[Configuration]]:
        return list(itertools.islice(order_rounds(configurations, seed), 20))

    assert all(sorted(order, key=lambda one: one.threads) == configurations for order in rounds(1))
    assert len({tuple(order) for order in rounds(1)}) > 10
    assert rounds(1) == rounds(1) != rounds(2)


def test_the_forecast_counts_the_warm_up_and_the_time_of_the_start() -> None:
    plan = Plan(threads=(1,), n_prompt=100, n_gen=20, repetitions=read_repetitions("6"), seed=1, at_most=60)
    # The probe: 8 tokens of prompt in 0.8 s, twice; 2 + 1 tokens of 0.5 s each; 5 s in all leave 1.9 s for the start.
    probe = [Timing(test="prefill", tokens=8, seconds=0.8), Timing(test="decode", tokens=2, seconds=1.0)]
    # 1.9 s, 2 x 100 tokens of 0.1 s, 21 tokens of 0.5 s
    assert forecast_run(plan, probe, 5.0) == pytest.approx(1.9 + 20 + 10.5)
