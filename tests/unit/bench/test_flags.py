"""Each flag is raised by its cause, and by nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.conditions import Conditions
from bench.flags import Measured, Span, find_flags, notes_on
from bench.series import Sample
from tests.support.bench_board import CALM, POLICY, changed

LATER = changed(uptime=1100.0, cpu_busy=520.0)
"""100 s later; 20 s of CPU time were used on four cores."""


def sample(number: int, **changes: Any) -> Sample:
    values: dict[str, Any] = {
        "position": number,
        "round": number,
        "model": "m",
        "threads": 2,
        "test": "decode",
        "tokens": 4,
        "seconds": 0.4,
        "tokens_per_second": 10.0 + number % 2 / 10,
        "at": "2026-01-01T00:00:00.000Z",
        "run": f"run-{number}",
        "read_bytes": 0,
        "cpu_seconds": 2.0,
        "cpu_hz": {"policy0": 1.8e9},
    }
    return Sample(**{**values, **changes})


def flags(
    samples: list[Sample], before: Conditions = CALM, after: Conditions = LATER, own: float | None = 18.0
) -> dict[str, str]:
    part = Measured(configuration="m, 2 threads", model_bytes=100_000_000, samples=samples)
    return {
        flag.name: flag.sentence for flag in find_flags([part], [Span(before=before, looks=[after], cpu_seconds=own)])
    }


NINE = [sample(number) for number in range(1, 10)]


def test_steady_samples_on_a_calm_board_raise_no_flag() -> None:
    assert flags(NINE) == {}


def test_a_board_that_slows_down_is_flagged_as_drifting() -> None:
    falling = [sample(number, tokens_per_second=21.1 - number) for number in range(1, 10)]
    # Thirds of 20.1 19.1 18.1 and 14.1 13.1 12.1: medians 19.1 and 13.1.
    assert flags(falling) == {"drift": "decode became 31% slower from the first third of the repetitions to the last"}


def test_an_outlier_is_flagged_with_its_repetition() -> None:
    found = flags([*NINE[:6], sample(7, tokens_per_second=5.0), *NINE[7:]])
    assert found == {"outliers": "decode of repetition 7 lies apart from the others"}


def test_a_lower_clock_in_one_repetition_is_flagged() -> None:
    found = flags([*NINE[:8], sample(9, cpu_hz={"policy0": 1.2e9})])
    assert found == {"frequency-drop": "policy0 ran at 1200 MHz in repetition 9, at 1800 MHz in others"}
    assert flags([sample(number, cpu_hz=None) for number in range(1, 10)]) == {}


def test_a_clock_that_is_held_down_and_a_cooling_device_at_work_are_flagged() -> None:
    lower = dataclasses.replace(POLICY, highest_hz=1_104_000_000)
    assert flags(NINE, after=dataclasses.replace(LATER, policies=(lower,))) == {
        "throttled": "the highest clock of policy0 went from 1800 to 1104 MHz"
    }
    name = "thermal-cpufreq-0 (cooling_device0)"
    assert flags(NINE, after=dataclasses.replace(LATER, cooling={name: 3})) == {
        "throttled": f"the cooling device {name} went to state 3"
    }


def test_swapping_is_flagged_and_a_board_without_swap_is_not() -> None:
    assert flags(NINE, after=dataclasses.replace(LATER, swapped_in=7, swapped_out=5)) == {
        "swap": "the board moved 12 pages to or from swap meanwhile"
    }
    none = changed(swapped_in=None, swapped_out=None)
    assert flags(NINE, before=none) == {}


def test_decoding_that_reads_the_model_from_storage_is_flagged() -> None:
    # The study's regime: every token reads the file anew.
    found = flags([*NINE[:8], sample(9, read_bytes=96_000_000)])
    assert found == {
        "storage": "up to 96.0 MB were read from storage in a repetition, of a model of 100.0 MB: "
        "storage is measured, not the CPU"
    }
    assert flags([sample(number, read_bytes=None) for number in range(1, 10)]) == {}


@pytest.mark.parametrize(("busy", "share"), [(557.0, None), (598.0, "20%")])
def test_cpu_time_that_is_not_the_benchs_own_is_flagged(busy: float, share: str | None) -> None:
    # 100 s of four CPUs are 400 s, of which the bench used 18; 57 - 18 = 39 s are 9.75 %, 98 - 18 = 80 s are 20 %.
    found = flags(NINE, after=dataclasses.replace(LATER, cpu_busy=busy))
    expected = {"other-load": f"other programs used {share} of the board's CPUs meanwhile"} if share else {}
    assert found == expected


def test_where_nobody_counts_cpu_time_the_load_before_the_bench_tells() -> None:
    assert flags(NINE, own=None) == {}
    assert flags(NINE, own=None, before=changed(load=(2.5, 1.0, 0.5))) == {
        "other-load": "the board was busy before the bench began (load 2.5)"
    }
    assert flags(NINE, own=None, before=changed(load=None)) == {}


def test_a_clock_that_is_not_fixed_is_noted() -> None:
    loose = dataclasses.replace(POLICY, governor="interactive")
    assert notes_on(CALM) == []
    assert notes_on(changed(policies=(loose,))) == [
        "the clock is not fixed: policy0 (interactive) may change it by load"
    ]
    assert notes_on(changed(policies=(), temperatures={})) == [
        "the board does not show its clocks (cpufreq): whether they were fixed is not known"
    ]


def test_a_board_that_runs_on_its_battery_is_noted() -> None:
    supplies = {
        "battery": {"type": "Battery", "online": None, "status": "Discharging"},
        "usb": {"type": "USB", "online": 0, "status": None},
    }
    assert notes_on(changed(supplies=supplies)) == [
        "the board runs on its battery (battery), which may hold its clock down"
    ]


def test_a_clock_that_was_pinned_is_not_noted_as_loose() -> None:
    assert notes_on(changed(policies=(dataclasses.replace(POLICY, governor="interactive"),)), is_pinned=True) == []


def test_what_was_held_down_for_a_while_is_flagged_though_it_is_over() -> None:
    lower = dataclasses.replace(LATER, policies=(dataclasses.replace(POLICY, highest_hz=408_000_000),))
    assert [flag.sentence for flag in find_flags([], [Span(before=CALM, looks=[lower, LATER], cpu_seconds=18.0)])] == [
        "the highest clock of policy0 went from 1800 to 408 MHz"
    ]


def test_a_board_that_was_started_anew_is_flagged_and_its_load_is_not_guessed() -> None:
    restarted = {"restarted": "the board was started anew meanwhile"}
    assert flags(NINE, after=changed(uptime=20.0, cpu_busy=19.0)) == restarted
    # It may have been up for a shorter time than this when the bench began.
    assert flags(NINE, before=changed(boot="a"), after=dataclasses.replace(LATER, boot="b")) == restarted
    assert flags(NINE, before=changed(boot=None), after=dataclasses.replace(LATER, boot="b")) == {}


def test_a_repetition_that_began_warmer_than_asked_for_is_flagged() -> None:
    samples = [*(sample(number, began_at=49.5) for number in range(1, 7)), sample(7, began_at=52.0)]
    part = Measured(configuration="m", model_bytes=1, samples=samples, start_below=50.0)
    assert [flag.sentence for flag in find_flags([part], [])] == [
        "the board had 52 °C at the start of repetition 7; below 50 was asked for"
    ]


@pytest.mark.parametrize(
    ("asked", "used", "sentence"),
    [
        ("nnrt", "cpu", "nnrt was asked for; cpu computed"),
        ("nnrt:NPU", "unknown", "nnrt:NPU was asked for; what computed is not known"),
        ("nnrt:NPU", "nnrt", None),
        ("cpu", "cpu", None),
    ],
)
def test_a_device_that_did_not_compute_is_flagged(asked: str, used: str, sentence: str | None) -> None:
    samples = [sample(number, device=used) for number in range(1, 10)]
    part = Measured(configuration="m", model_bytes=100_000_000, samples=samples, device=asked)
    assert [flag.sentence for flag in find_flags([part], [])] == ([sentence] if sentence else [])


def test_times_that_become_longer_are_slower() -> None:
    longer = [
        sample(number, test="predict", tokens=None, tokens_per_second=None, seconds=0.010 + number / 1000)
        for number in range(1, 10)
    ]
    # Thirds of 11 12 13 and 17 18 19 ms.
    assert flags(longer) == {"drift": "predict became 50% slower from the first third of the repetitions to the last"}
