"""``bench.llama``: the speed of prefill and decode on a board, by llama.cpp's own llama-bench, with all that makes it hold.

Every repetition is a run of its own, with a record of its own below the bench's: so configurations can take turns, and
samples do not depend on each other as those of one process do.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.completion import CompletionPlan, measure_completions, would_complete
from bench.conditions import Conditions, read_conditions
from bench.flags import Flag, Measured, find_flags, notes_on
from bench.plan import (
    LEAST_ROUNDS,
    Configuration,
    Plan,
    bench_words,
    forecast_run,
    order_rounds,
    probe_tokens,
    sweep_threads,
)
from bench.record import BenchRecord, start_bench
from bench.request import BenchOutcome, BenchRequest
from bench.series import Sample, SeriesFile, Timing, read_timings
from bench.stats import Summary, summarise
from core.dry import Would
from core.errors import OhforgeError, TakesTooLong, UsageError
from core.interrupts import termination_as_interrupt
from core.record_folder import now
from core.session import Session
from deploy.board.protocol import Board
from deploy.hdc.choose import choose_board
from deploy.launch.dry import would_launch
from deploy.launch.launch import build_run, execute_built, files_of_model, name_on_board, ready_product
from deploy.launch.request import LaunchRequest
from deploy.lease.lease import hold_board
from deploy.run import conditions as run_conditions
from deploy.run.record import SAMPLES, STDOUT_LOG, recorded
from deploy.run.request import RunRequest
from deploy.run.result import RunOutcome

if TYPE_CHECKING:
    from native.models.models import Model

PRODUCT = "llama/llama-bench"
UNIT = "tokens/s"
SLACK = 10.0
"""How many times longer than foreseen a repetition may take."""
LEAST_TIMEOUT = 120.0
SAMPLES_PER_RUN = 20
FASTEST_SAMPLING, SLOWEST_SAMPLING = 0.2, 5.0
"""Seconds between two looks at the board during a run."""


def measure_llama(session: Session, request: BenchRequest) -> BenchOutcome:
    """Measures, records and judges. What was measured before something went wrong stays in the record.

    Raises UsageError, ModelError, TakesTooLong, and what building and running raise.
    """
    from native.models.models import find_model

    board = choose_board(session, request.board)
    models = [_checked(find_model(session, name)) for name in request.models]
    _check_names(models)
    launch = ready_product(session, board, LaunchRequest(program=PRODUCT, choice=request.choice))
    run = build_run(session, launch)
    with hold_board(session, board, "bench llama"):
        before = read_conditions(session, board)
        plan = make_plan(request, before.cores or board.profile.cores)
        record = start_bench(session, board, run.engine, models, plan)
        try:
            with recorded(record), termination_as_interrupt():
                return _Bench(session, board, run, models, plan, request, record, before).perform()
        except OhforgeError as error:
            error.details["record"] = str(record.folder)  # Not that of the run within it.
            raise


def would_measure(session: Session, request: BenchRequest) -> list[Would]:
    """What `measure_llama` would do; `session` is a dry one. Raises what its looks raise."""
    from native.models.models import plan_model

    board = choose_board(session, request.board)
    planned = [plan_model(session, name) for name in request.models]
    models = [_checked(model) for model, _ in planned]
    _check_names(models)
    launch = ready_product(session, board, LaunchRequest(program=PRODUCT, choice=request.choice))
    plan = make_plan(request, board.profile.cores)
    would = [entry for _, entries in planned for entry in entries]
    for model in models:
        for threads in plan.threads:
            run = _run_of(launch.run, model, bench_words_for(plan, model, threads))
            would += would_launch(session, dataclasses.replace(launch, run=run))
    if plan.completions:
        would += would_complete(session, board, models, completion_plan(request, plan.at_most))
    return list(dict.fromkeys(would))


def make_plan(request: BenchRequest, cores: int) -> Plan:
    """What was asked for, with a sweep over the board's cores where no threads were named."""
    return Plan(
        threads=request.threads or sweep_threads(max(cores, 1)),
        n_prompt=request.n_prompt,
        n_gen=request.n_gen,
        repetitions=request.repetitions,
        seed=request.seed,
        at_most=request.at_most,
        completions=request.completions,
    )


def completion_plan(request: BenchRequest, seconds: float) -> CompletionPlan:
    """The completions that were asked for, for which so many seconds are left."""
    return CompletionPlan(
        count=request.completions,
        n_prompt=request.n_prompt,
        n_gen=request.n_gen,
        seed=request.seed,
        seconds=seconds,
        choice=request.choice,
    )


def bench_words_for(plan: Plan, model: Model, threads: int) -> tuple[str, ...]:
    return bench_words(name_on_board(model.path), threads, plan.n_prompt, plan.n_gen)


def _checked(model: Model) -> Model:
    if model.kind != "gguf":
        raise UsageError(f"{model.path} is a .{model.kind} model; llama-bench measures .gguf models.", remedy="")
    return model


def _check_names(models: Sequence[Model]) -> None:
    if not models:
        raise UsageError("There is no model.", remedy="Name a .gguf file, or a name that `ohforge model.list` shows.")
    if len({model.name for model in models}) < len(models):
        raise UsageError("Two of the models have one name, and could not be told apart.", remedy="Rename one of them.")


def _run_of(run: RunRequest, model: Model, words: tuple[str, ...]) -> RunRequest:
    """The run of llama-bench with a model. Its status is ours to judge."""
    files = (*run.files, *files_of_model(model))
    return dataclasses.replace(run, program="llama-bench", arguments=words, files=files, model=model, pass_status=False)


class _Bench:
    """The steps of a bench on a board that is held."""

    def __init__(
        self,
        session: Session,
        board: Board,
        run: RunRequest,
        models: Sequence[Model],
        plan: Plan,
        request: BenchRequest,
        record: BenchRecord,
        before: Conditions,
    ) -> None:
        self.session, self.board, self.run, self.plan, self.record = session, board, run, plan, record
        self.request = request
        self.inner = session.with_settings(runs_dir=str(record.runs)).quietly()
        self.models = {model.name: model for model in models}
        self.configurations = [
            Configuration(model=name, threads=threads) for name in self.models for threads in plan.threads
        ]
        self.series = SeriesFile(record.folder)
        self.before = before
        self.began = time.monotonic()
        self.run_seconds: dict[Configuration, float] = {}
        """How long one repetition takes, as foreseen and then as seen."""
        self.by_agent = False
        self.cpu_seconds: float | None = 0.0
        """What all runs since `before` have used; None when one of them was not counted."""

    def perform(self) -> BenchOutcome:
        for note in notes_on(self.before):
            self.session.console.warn(note)
        self.record.save(conditions={"before": self.before.as_json(), "after": None}, notes=notes_on(self.before))
        self._probe()
        self._look_before()
        ended_because = self._measure_rounds()
        after = read_conditions(self.session, self.board)
        self.record.save(conditions={"before": self.before.as_json(), "after": after.as_json()})
        flags = find_flags(self._measured(), self.before, after, self.cpu_seconds)
        self._save_results([*flags, *self._measure_completions()], ended_because)
        self.record.end("done")
        return BenchOutcome(record=self.record.folder, content=self.record.content)

    # before it ---------------------------------------------------------------------------------------

    def _probe(self) -> None:
        """A few tokens of each model tell how long all will take, before hours are spent. Raises TakesTooLong."""
        threads = max(self.plan.threads)
        for model in self.models:
            timings, outcome = self._run(Configuration(model=model, threads=threads), *probe_tokens(self.plan))
            seconds = self.record.take_over(outcome.record)["result"]["seconds"]
            self.by_agent = outcome.run_engine == "agent"
            for configuration in self.configurations:
                if configuration.model == model:
                    # With fewer threads than in the probe computing takes longer, at most in proportion.
                    share = threads / configuration.threads
                    slower = [dataclasses.replace(timing, seconds=timing.seconds * share) for timing in timings]
                    rest = max(0.0, seconds - sum(timing.seconds for timing in timings))
                    in_all = rest + sum(timing.seconds for timing in slower)
                    self.run_seconds[configuration] = forecast_run(self.plan, slower, in_all)
        times = [
            (count + 1) * self._round_seconds for count in (self.plan.repetitions.least, self.plan.repetitions.most)
        ]
        self.record.save(forecast_seconds=times)
        about = " to ".join(dict.fromkeys(map(_duration, times)))
        self.session.console.info(
            f"expected: {about} for {len(self.configurations)} configuration(s): a warm-up, and repetitions "
            f"{self.plan.repetitions} of each (bounded by {_duration(self.plan.at_most)})"
        )
        if times[0] > self.plan.at_most:
            raise TakesTooLong(
                f"The bench would take about {_duration(times[0])}, but {_duration(self.plan.at_most)} is allowed.",
                remedy="Allow more with --at-most, or ask for less: --generate, --prompt, --repetitions, --threads.",
            )

    def _look_before(self) -> None:
        """Looks once more: the probe has sent the files, which took time of the CPU; only the load is that of before."""
        self.before = dataclasses.replace(read_conditions(self.session, self.board), load=self.before.load)
        self.cpu_seconds = 0.0
        self.record.save(conditions={"before": self.before.as_json(), "after": None})

    @property
    def _round_seconds(self) -> float:
        return sum(self.run_seconds.values())

    # the repetitions ---------------------------------------------------------------------------------

    def _measure_rounds(self) -> str:
        """Rounds of all configurations: first the warm-up, then those that count. Returns why there was no other."""
        repetitions = self.plan.repetitions
        for number, order in enumerate(order_rounds(self.configurations, self.plan.seed)):
            if number and time.monotonic() - self.began + self._round_seconds > self.plan.at_most:
                if number == 1:
                    raise TakesTooLong(f"The warm-up took so long that {_duration(self.plan.at_most)} do not suffice.")
                return "time"
            for configuration in order:
                self._repeat(number, configuration)
            self._save_results([], None)
            self.record.save(rounds=number)
            if number and number >= repetitions.least and self._is_narrow_enough():
                return "narrow enough"
            if number >= repetitions.most:
                return "repetitions"
        raise AssertionError("the order of rounds has no end")

    def _measure_completions(self) -> list[Flag]:
        """Those that were asked for, with the thread counts that were best; returns what speaks against them."""
        if not self.plan.completions:
            return []
        left = max(0.0, self.plan.at_most - (time.monotonic() - self.began))
        plan = completion_plan(self.request, left)
        return measure_completions(self.session, self.board, self.models, self.record, plan)

    def _is_narrow_enough(self) -> bool:
        within = self.plan.repetitions.within
        spreads = [summary.spread for _, _, summary, _ in self._summaries()]
        return within is not None and all(spread is not None and spread <= within for spread in spreads)

    def _repeat(self, number: int, configuration: Configuration) -> None:
        began = time.monotonic()
        timings, outcome = self._run(configuration, self.plan.n_prompt, self.plan.n_gen)
        self.run_seconds[configuration] = time.monotonic() - began
        known = _known_of(outcome)
        for timing in timings:
            self.series.add(
                Sample(
                    position=len(self.series.samples) + 1,
                    round=number,
                    model=configuration.model,
                    threads=configuration.threads,
                    test=timing.test,
                    tokens=timing.tokens,
                    seconds=timing.seconds,
                    tokens_per_second=timing.per_second,
                    at=now(),
                    run=outcome.record.name,
                    **known,
                )
            )
        self.record.save(series={**self.record.content["series"], "count": len(self.series.samples)})
        shown = ", ".join(f"{timing.test} {timing.per_second:.3g}" for timing in timings)
        title = f"repetition {number}" if number else "warm-up"
        self.session.console.info(f"  {title}: {configuration.name}: {shown} {UNIT}{self._label}")

    @property
    def _label(self) -> str:
        return " (emulated)" if self.record.content["board"]["emulated"] else ""

    def _run(self, configuration: Configuration, n_prompt: int, n_gen: int) -> tuple[list[Timing], RunOutcome]:
        """One run of llama-bench, and what it measured. Raises what the run raises."""
        model = self.models[configuration.model]
        expected = self.run_seconds.get(configuration)
        words = bench_words(name_on_board(model.path), configuration.threads, n_prompt, n_gen)
        run = _run_of(self.run, model, words)
        options = dataclasses.replace(
            run.options,
            timeout=max(LEAST_TIMEOUT, SLACK * expected) if expected is not None else self.plan.at_most,
            conditions=run_conditions.Conditions(sample_seconds=self._sampling(expected)),
        )
        outcome = execute_built(self.inner, self.board, dataclasses.replace(run, options=options))
        used = _known_of(outcome)["cpu_seconds"]
        self.cpu_seconds = self.cpu_seconds + used if self.cpu_seconds is not None and used is not None else None
        return read_timings(_output_of(outcome)), outcome

    def _sampling(self, expected: float | None) -> float:
        """Seconds between two samples of the board; 0 where nobody can take them."""
        if expected is None or not self.by_agent:
            return 0.0
        return round(min(max(expected / SAMPLES_PER_RUN, FASTEST_SAMPLING), SLOWEST_SAMPLING), 3)

    # what it says ------------------------------------------------------------------------------------

    def _measured(self) -> list[Measured]:
        return [
            Measured(
                configuration=configuration.name,
                model_bytes=self.models[configuration.model].size,
                samples=[sample for sample in self.series.samples if sample.counts and _is_of(sample, configuration)],
            )
            for configuration in self.configurations
        ]

    def _summaries(self) -> list[tuple[Configuration, str, Summary, int]]:
        """Each configuration and test that has samples which count, with the tokens of one."""
        rows = []
        for configuration, part in zip(self.configurations, self._measured(), strict=True):
            for test in self.plan.tests:
                samples = [sample for sample in part.samples if sample.test == test]
                if samples:
                    speeds = [sample.tokens_per_second for sample in samples]
                    rows.append((configuration, test, summarise(speeds, UNIT), samples[0].tokens))
        return rows

    def _save_results(self, flags: list[Flag], ended_because: str | None) -> None:
        """Writes what is known so far; whether it is valid is known at the end only."""
        summaries = self._summaries()
        if ended_because is not None:
            flags = [*flags, *self._imprecise(summaries)]
        self.record.save(
            results=[
                {
                    "configuration": configuration.name,
                    "model": configuration.model,
                    "threads": configuration.threads,
                    "test": test,
                    "tokens": tokens,
                    **summary.as_json(),
                }
                for configuration, test, summary, tokens in summaries
            ],
            ended_because=ended_because,
            valid=not flags if ended_because is not None else None,
            flags=[flag.as_json() for flag in flags],
        )

    def _imprecise(self, summaries: Sequence[tuple[Configuration, str, Summary, int]]) -> list[Flag]:
        """Medians that are not known as well as was asked for."""
        within = self.plan.repetitions.within
        flags = []
        for configuration, test, summary, _ in summaries:
            known = f"±{summary.spread:.1%}" if summary.spread is not None else "nothing that can be told"
            if summary.n < LEAST_ROUNDS:
                sentence = f"{test} has {summary.n} samples; the interval of a median takes {LEAST_ROUNDS}"
            elif within is not None and (summary.spread is None or summary.spread > within):
                sentence = f"the median of {test} is known within {known} only; ±{within:.1%} was asked for"
            else:
                continue
            flags.append(Flag(name="imprecise", sentence=sentence, configuration=configuration.name))
        return flags


def _is_of(sample: Sample, configuration: Configuration) -> bool:
    return (sample.model, sample.threads) == (configuration.model, configuration.threads)


def _output_of(outcome: RunOutcome) -> str:
    """Standard output by itself where it came apart: a line of the log may stand within one of it otherwise."""
    apart = outcome.record / STDOUT_LOG
    content = apart.read_bytes() if apart.is_file() else outcome.output
    return content.decode("utf-8", "replace")


def _known_of(outcome: RunOutcome) -> dict[str, Any]:
    """What the board told of a run, as fields of `Sample`."""
    usage: Mapping[str, Any] = outcome.usage or {}
    clocks: dict[str, list[int]] = {}
    temperatures: list[float] = []
    for sample in _samples_in(outcome.record):
        temperatures += [degrees for degrees in sample["temperatures"].values() if degrees is not None]
        for name, hertz in sample["cpu_frequencies"].items():
            if hertz is not None:
                clocks.setdefault(name, []).append(hertz)
    return {
        "peak_bytes": usage.get("max_rss_bytes"),
        "major_faults": usage.get("major_faults"),
        "read_bytes": usage["blocks_read"] * 512 if usage else None,
        "cpu_seconds": usage["user_seconds"] + usage["system_seconds"] if usage else None,
        "cpu_hz": {name: statistics.median(values) for name, values in clocks.items()} or None,
        "hottest": max(temperatures, default=None),
    }


def _samples_in(record: Path) -> list[dict[str, Any]]:
    file = record / SAMPLES
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines]


def _duration(seconds: float) -> str:
    """A time for people, rounded up: ``45 s``, ``12 min``, ``2.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
