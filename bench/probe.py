"""A few short runs before a bench: how long it will take, and which thread count is the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.instrument import Instrument
from bench.plan import LONGEST_TURN, SWEEP_TURNS, Configuration, Plan
from bench.series import Timing


@dataclass(frozen=True, kw_only=True)
class ShortRun:
    """What a run timed, and how many seconds it took in all."""

    timings: Sequence[Timing]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What came of it."""

    seconds: dict[Configuration, float] = field(default_factory=dict)
    """How long one repetition takes of each configuration that is to be measured."""
    sweep: list[dict[str, Any]] | None = None
    """The thread counts that were tried; None: those to measure were named."""


Run = Callable[[Configuration, Plan], ShortRun]


def probe(
    instrument: Instrument, plan: Plan, models: Sequence[str], run: Run, sweep: Sequence[Mapping[str, Any]] | None
) -> Probe:
    """Runs each model shortly: with the most threads, or with all counts where the best shall be found.

    `sweep` is that of a bench which is gone on with: what it has chosen stays. Raises what `run` raises.
    """
    chosen = {row["model"]: row["threads"] for row in sweep or () if row["chosen"]}
    short = instrument.shorten(plan)
    seconds: dict[Configuration, float] = {}
    rows: list[dict[str, Any]] = []
    for model in models:
        if plan.sweep and model not in chosen:
            tried = _sweep(short, model, run)
            best, found = _best(tried)
            rows += [_row(model, threads, one, threads == best) for threads, one in tried.items()]
            counts: Sequence[int] = [best]
        else:
            counts = [chosen[model]] if plan.sweep else plan.threads
            best = max(counts)
            found = run(short.configurations(model, [best])[0], short)
        for configuration in plan.configurations(model, counts):
            seconds[configuration] = _forecast(instrument, plan, short, configuration, best, found)
    known = [dict(row) for row in sweep or ()]
    return Probe(seconds=seconds, sweep=[*known, *rows] if plan.sweep else None)


def _sweep(short: Plan, model: str, run: Run) -> dict[int, ShortRun]:
    """The quickest run of each thread count; the turns go through the counts in opposite orders."""
    found: dict[int, ShortRun] = {}
    for turn in range(SWEEP_TURNS):
        if sum(one.seconds for one in found.values()) > LONGEST_TURN:
            break
        for threads in short.threads[:: -1 if turn % 2 else 1]:
            one = run(short.configurations(model, [threads])[0], short)
            if threads not in found or _duration(one) < _duration(found[threads]):
                found[threads] = one
    return found


def _duration(run: ShortRun) -> float:
    """Of what is measured last, which is what a model spends its time on."""
    return run.timings[-1].seconds


def _best(tried: Mapping[int, ShortRun]) -> tuple[int, ShortRun]:
    """The quickest; of equal ones that with fewer threads."""
    threads = min(tried, key=lambda count: (_duration(tried[count]), count))
    return threads, tried[threads]


def _row(model: str, threads: int, run: ShortRun, chosen: bool) -> dict[str, Any]:
    timing = run.timings[-1]
    return {
        "model": model,
        "threads": threads,
        "test": timing.test,
        "tokens": timing.tokens,
        "seconds": timing.seconds,
        "chosen": chosen,
    }


def _forecast(
    instrument: Instrument, plan: Plan, short: Plan, configuration: Configuration, threads: int, run: ShortRun
) -> float:
    """Seconds of one repetition: what a run takes beside computing (start, loading) is as long as in the short one."""
    tried = short.configurations(configuration.model, [threads])[0]
    rest = max(0.0, run.seconds - instrument.computing(tried, short, run.timings))
    # With fewer threads than in the probe computing takes longer, at most in proportion.
    share = threads / configuration.threads
    slower = [dataclasses.replace(timing, seconds=timing.seconds * share) for timing in run.timings]
    return rest + instrument.computing(configuration, plan, slower)
