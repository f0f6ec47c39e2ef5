"""What is asked for, in which order it is measured, and how long it will take."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any

import pytest

from bench.llama import LlamaBench, check_tokens, read_axes, read_tokens
from bench.plan import (
    Configuration,
    Plan,
    Value,
    order_rounds,
    read_plan,
    read_repetitions,
    read_threads,
    sweep_threads,
)
from bench.probe import ShortRun, probe
from bench.request import BenchRequest
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


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to measure"):
        check_tokens(0, 0)
    check_tokens(None, 0)  # The usual number of tokens of a prompt.
    assert (read_tokens("--prompt", "0"), read_tokens("--prompt", "12"), read_tokens("--prompt", "")) == (0, 12, None)
    for text in ("-1", "8,16", "many"):
        with pytest.raises(UsageError, match="--prompt"):
            read_tokens("--prompt", text)


def test_what_was_not_said_is_less_on_an_emulated_board_and_threads_are_not_more_than_this_computer_has() -> None:
    asked = BenchRequest(models=("m",), n_prompt=None, n_gen=5, seed=1, at_most=60.0)
    cores = len(os.sched_getaffinity(0))
    board = asked.on(emulated=False).plan(64, emulated=False)
    emulated = asked.on(emulated=True).plan(64, emulated=True)
    assert (board.n_prompt, board.n_gen, board.threads[-1], board.repetitions.within) == (128, 5, 64, 0.05)
    assert (emulated.n_prompt, emulated.n_gen, emulated.threads[-1]) == (16, 5, min(cores, 64))
    assert (emulated.repetitions.least, emulated.repetitions.most, emulated.repetitions.within) == (6, 6, None)


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


def plan_of(*threads: int, sweep: bool = False, **changes: Any) -> Plan:
    values = {"n_prompt": 100, "n_gen": 20, "repetitions": read_repetitions("6"), "seed": 1, "at_most": 60, **changes}
    return Plan(threads=threads, sweep=sweep, **values)


def test_the_forecast_counts_the_warm_up_and_the_time_of_the_start() -> None:
    def run(configuration: Configuration, plan: Plan) -> ShortRun:
        # 8 tokens of prompt in 0.8 s, twice; 2 + 1 tokens of 0.5 s each; 5 s in all leave 1.9 s for the start.
        assert (configuration.threads, plan.n_prompt, plan.n_gen) == (2, 8, 2)
        timings = [Timing(test="prefill", tokens=8, seconds=0.8), Timing(test="decode", tokens=2, seconds=1.0)]
        return ShortRun(timings=timings, seconds=5.0)

    found = probe(LlamaBench(), plan_of(1, 2, axes={"depth": (0, 50)}), ["m"], run, None).seconds
    # 1.9 s, 2 x 100 tokens of 0.1 s, 21 tokens of 0.5 s; with one thread up to twice the computing; to a depth of 50
    # tokens comes 50 x 0.1 s before each of the two tests.
    assert {(one.threads, dict(one.settings)["depth"]): seconds for one, seconds in found.items()} == {
        (2, 0): pytest.approx(1.9 + 20 + 10.5),
        (1, 0): pytest.approx(1.9 + 40 + 21),
        (2, 50): pytest.approx(1.9 + 20 + 10.5 + 10),
        (1, 50): pytest.approx(1.9 + 40 + 21 + 20),
    }


def test_without_thread_counts_a_short_sweep_finds_the_best_for_each_model() -> None:
    # Seconds of two tokens in the first and the second turn: once the board was busy with something else.
    seconds = {
        ("a", 1): [4, 4],
        ("a", 2): [9, 2],
        ("a", 4): [3, 3],
        ("b", 1): [1, 1],
        ("b", 2): [1, 1],
        ("b", 4): [2, 2],
    }
    asked = []

    def run(configuration: Configuration, plan: Plan) -> ShortRun:
        asked.append((configuration.model, configuration.threads))
        took = seconds[configuration.model, configuration.threads].pop(0)
        return ShortRun(timings=[Timing(test="decode", tokens=2, seconds=took)], seconds=took)

    found = probe(LlamaBench(), plan_of(1, 2, 4, sweep=True, n_prompt=0), ["a", "b"], run, None)
    assert [(one.model, one.threads) for one in found.seconds] == [("a", 2), ("b", 1)]
    assert asked == [(model, threads) for model in "ab" for threads in (1, 2, 4, 4, 2, 1)]
    slow = {"c": 0}

    def run_slowly(configuration: Configuration, plan: Plan) -> ShortRun:
        slow["c"] += 1
        return ShortRun(timings=[Timing(test="decode", tokens=2, seconds=60)], seconds=61)

    # Three runs of a minute are not done again; of equal counts the lowest is taken.
    assert [
        one.threads for one in probe(LlamaBench(), plan_of(1, 2, 4, sweep=True), ["c"], run_slowly, None).seconds
    ] == [1]
    assert slow == {"c": 3}
    again = probe(LlamaBench(), plan_of(1, 2, 4, sweep=True, n_prompt=0), [], run, found.sweep)
    assert again.sweep == found.sweep


def test_every_combination_of_settings_is_a_configuration_with_a_name_of_its_own() -> None:
    axes = read_axes(batch="64, 512", cache_k="q8_0", repack="on,off")
    found = plan_of(2, axes=axes).configurations("m", [2])
    assert [one.name for one in found] == [
        f"m, 2 threads, batch {batch}, cache-k q8_0, repack {repack}" for batch in (64, 512) for repack in ("on", "off")
    ]
    plan = plan_of(2, axes=axes)
    assert read_plan(json.loads(json.dumps(plan.as_json()))) == plan


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"batch": "0"}, "--batch '0': '0' is none of numbers from 1"),
        ({"depth": "-1"}, "'-1' is none of numbers from 0"),
        ({"ubatch": "64,,512"}, "'' is none of numbers"),
        ({"cache_k": "f16,q3_K"}, "'q3_K' is none of f32, f16"),
        ({"repack": "1"}, "'1' is none of on, off"),
        ({"load_mode": "mmap,direct"}, "'direct' is none of auto, none, mmap"),
    ],
)
def test_settings_of_another_form_are_refused(flags: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_axes(**flags)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ((("batch", 64), ("ubatch", 32)), "-b 64 -ub 32"),
        ((("depth", 512), ("cache-k", "q8_0"), ("cache-v", "q8_0")), "-d 512 -ctk q8_0 -ctv q8_0"),
        ((("repack", "on"),), "--repack 1"),
        ((("repack", "off"),), "--repack 0"),
        ((("load-mode", "dio"),), "-lm dio"),
    ],
)
def test_settings_are_flags_of_llama_bench(settings: tuple[tuple[str, Value], ...], words: str) -> None:
    # As ``llama-bench --help`` of the pinned version has them.
    configuration = Configuration(model="m", threads=3, settings=settings)
    found = LlamaBench().words("m.gguf", configuration, plan_of(3))
    assert " ".join(found) == f"-m m.gguf -t 3 -p 100 -n 20 {words} -r 1 -o jsonl"
