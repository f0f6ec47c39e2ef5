"""The loop of every bench: plan, probe, warm-up, repetitions in turns, conditions, samples, flags, record.

Every repetition is a run of its own, with a record of its own below the bench's: so configurations can take turns, and
samples do not depend on each other as those of one process do.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bench.completion import build_server, measure_completions, would_complete
from bench.conditions import Conditions, read_conditions
from bench.cooling import wait_until_cool
from bench.flags import Flag, Measured, Span, find_flags, notes_on
from bench.instrument import Instrument, check_model
from bench.observe import observed, output_of
from bench.pinning import Pinning
from bench.plan import Configuration, Plan, human_duration, human_threads, order_rounds
from bench.probe import Probe, ShortRun, probe
from bench.record import BenchRecord, start_bench
from bench.request import BenchOutcome, BenchRequest
from bench.results import Result, imprecise, results_of, samples_of
from bench.resume import reopen_bench, tell_how_to_go_on
from bench.series import Sample, SeriesFile, Timing
from bench.verdict import foresee
from core.dry import Would
from core.errors import Interrupted, OhforgeError, TakesTooLong, UsageError
from core.interrupts import termination_as_interrupt
from core.record_folder import now
from core.session import Session
from deploy.board.protocol import Board
from deploy.hdc.choose import choose_board
from deploy.launch.dry import would_launch
from deploy.launch.launch import Launch, build_run, execute_built, files_of_model, name_on_board, ready_product
from deploy.launch.model_inputs import require_computable
from deploy.launch.request import LaunchRequest
from deploy.lease.lease import hold_board
from deploy.run import conditions as run_conditions
from deploy.run.record import recorded
from deploy.run.request import RunRequest
from deploy.run.result import RunOutcome

if TYPE_CHECKING:
    from native.models.models import Model

SLACK = 10.0
"""How many times longer than foreseen a repetition may take."""
LEAST_TIMEOUT = 120.0
SAMPLES_PER_RUN = 20
FASTEST_SAMPLING, SLOWEST_SAMPLING = 0.2, 5.0
"""Seconds between two looks at the board during a run."""
ASK_ABOVE = 60.0
"""Seconds that a bench may take without a question."""
ANSWER_SECONDS = 300.0


def measure(session: Session, request: BenchRequest, instrument: Instrument) -> BenchOutcome:
    """Measures, records and judges. What was measured before something went wrong stays in the record.

    Raises UsageError, ModelError, NotEnoughMemory, TakesTooLong, and what building and running raise.
    """
    from native.models.models import find_model

    if request.anyway:
        session = session.with_settings(require_memory=False)
    board = choose_board(session, request.board)
    request = request.on(emulated=board.emulated)
    models = [check_model(instrument, find_model(session, name)) for name in request.models]
    launch = _ready(session, board, request, instrument, models)
    foreseen = foresee(session, launch, models, request)
    run = build_run(session, launch)
    if request.completions:
        build_server(session, board, request.choice)
    with hold_board(session, board, f"bench {instrument.name}"):
        before = read_conditions(session, board)
        if request.resume is not None:
            record, samples = reopen_bench(request, run.engine, models, board, before)
        else:
            plan = request.plan(before.cores or board.profile.cores, emulated=board.emulated)
            record, samples = start_bench(session, board, instrument, run.engine, models, plan, request, foreseen), []
        try:
            with recorded(record), termination_as_interrupt():
                return _Bench(session, board, run, request, instrument, models, record, samples, before).perform()
        except OhforgeError as error:
            error.details["record"] = str(record.folder)  # Not that of the run within it.
            tell_how_to_go_on(error, record)
            raise


def would_measure(session: Session, request: BenchRequest, instrument: Instrument) -> list[Would]:
    """What `measure` would do; `session` is a dry one. Raises what its looks raise."""
    from native.models.models import plan_model

    board = choose_board(session, request.board)
    request = request.on(emulated=board.emulated)
    planned = [plan_model(session, name) for name in request.models]
    models = [check_model(instrument, model) for model, _ in planned]
    launch = _ready(session, board, request, instrument, models)
    plan = request.plan(board.profile.cores, emulated=board.emulated)
    would = [entry for _, entries in planned for entry in entries]
    for model in models:
        for configuration in plan.configurations(model.name, plan.threads):
            words = instrument.words(name_on_board(model.path), configuration, plan)
            run = run_of(launch.run, instrument, model, words)
            would += would_launch(session, dataclasses.replace(launch, run=run))
    if plan.completions:
        would += would_complete(session, board, models, plan, request.choice)
    return list(dict.fromkeys(would))


def run_of(run: RunRequest, instrument: Instrument, model: Model, words: Sequence[str]) -> RunRequest:
    """The run of the program that measures with a model. Its status is ours to judge."""
    spec = instrument.spec()
    environment = {**(spec.environment if spec is not None else {}), **run.options.environment}
    return dataclasses.replace(
        run,
        program=instrument.product.partition("/")[2],
        arguments=tuple(words),
        files=(*run.files, *files_of_model(model)),
        model=model,
        spec=spec,
        pass_status=False,
        options=dataclasses.replace(run.options, environment=environment),
    )


def _ready(
    session: Session, board: Board, request: BenchRequest, instrument: Instrument, models: Sequence[Model]
) -> Launch:
    """The program's build. Raises UsageError for models that cannot be told apart, ModelError for those it cannot compute."""
    if not models:
        remedy = f"Name a .{instrument.kind} file, or a name that `ohforge model.list` shows."
        raise UsageError("There is no model.", remedy=remedy)
    if len({model.name for model in models}) < len(models):
        raise UsageError("Two of the models have one name, and could not be told apart.", remedy="Rename one of them.")
    launch = ready_product(session, board, LaunchRequest(program=instrument.product, choice=request.choice))
    for model in models:
        if launch.build is not None:
            require_computable(model, launch.build)
    return launch


class _Bench:
    """The steps of a bench on a board that is held. `samples` are those of a bench that is gone on with."""

    def __init__(
        self,
        session: Session,
        board: Board,
        run: RunRequest,
        request: BenchRequest,
        instrument: Instrument,
        models: Sequence[Model],
        record: BenchRecord,
        samples: Sequence[Sample],
        before: Conditions,
    ) -> None:
        self.session, self.board, self.run, self.request, self.record = session, board, run, request, record
        self.instrument = instrument
        self.plan = record.plan
        self.inner = session.with_settings(runs_dir=str(record.runs)).quietly()
        self.models = {model.name: model for model in models}
        self.tests = instrument.tests(self.plan)
        self.series = SeriesFile(record.folder, samples)
        self.done = {(sample.round, sample.configuration) for sample in samples if sample.counts}
        self.span = Span(before=before)
        self.began = time.monotonic()
        self.known = Probe()
        self.pinning = Pinning(record, asked=request.pin)
        self.by_agent = False

    def perform(self) -> BenchOutcome:
        self.record.save_conditions(self.span)
        self._probe()
        self._look_before()
        ended_because = self._measure_rounds()
        self._save_results(ended_because, self._measure_completions())
        self._note(self.pinning.notes)
        self.record.end("done")
        return BenchOutcome(record=self.record.folder, content=self.record.content)

    # before it ---------------------------------------------------------------------------------------

    def _probe(self) -> None:
        """A few short runs tell how long all will take, before hours are spent. Raises TakesTooLong, Interrupted."""
        self.known = probe(
            self.instrument, self.plan, list(self.models), self._run_shortly, self.record.content["sweep"]
        )
        self.record.save(sweep=self.known.sweep)
        for row in self.known.sweep or ():
            if row["chosen"]:
                self.session.console.info(f"  {row['model']}: quickest with {human_threads(row['threads'])}")
        times = [
            self._round_seconds * (count + 1 - self.record.content["rounds"]) + self._completion_seconds
            for count in (self.plan.repetitions.least, self.plan.repetitions.most)
        ]
        self.record.save(forecast_seconds=[max(seconds, 0.0) for seconds in times])
        completions = f", and {self.plan.completions} completions" if self.plan.completions else ""
        about = " to ".join(dict.fromkeys(map(human_duration, times)))
        self.session.console.info(
            f"expected: {about} for {len(self.configurations)} configuration(s): a warm-up, and repetitions "
            f"{self.plan.repetitions} of each{completions} (bounded by {human_duration(self.plan.at_most)})"
        )
        if times[0] > self.plan.at_most:
            raise TakesTooLong(
                f"The bench would take about {human_duration(times[0])}, but {human_duration(self.plan.at_most)} is "
                "allowed.",
                remedy="Allow more with --at-most, or ask for less: --generate, --prompt, --loops, --repetitions, --threads.",
            )
        if self.request.ask and times[0] > ASK_ABOVE:
            agreed = self.session.console.confirm(f"Spend about {human_duration(times[0])} on it?", ANSWER_SECONDS)
            if agreed is False:
                raise Interrupted(
                    "Nothing but the probe was measured: the answer was not yes.", remedy="--yes does not ask."
                )

    def _look_before(self) -> None:
        """Looks once more: the probe has sent the files, which took time of the CPU; only the load is that of before."""
        self._cool()
        looked = read_conditions(self.session, self.board)
        self.span = Span(before=dataclasses.replace(looked, load=self.span.before.load))
        notes = [*notes_on(self.span.before, is_pinned=self.pinning.held), *self.pinning.notes]
        for note in notes:
            self.session.console.warn(note)
        self._note(notes)
        self.record.save_conditions(self.span)

    def _note(self, notes: Sequence[str]) -> None:
        self.record.save(notes=list(dict.fromkeys([*self.record.content["notes"], *notes])))

    def _cool(self) -> float | None:
        """Waits for the temperature that a run is to begin with; returns the one that was reached."""
        below = self.plan.start_below
        return wait_until_cool(self.session, self.board, below, self.plan.cool_within) if below is not None else None

    @property
    def configurations(self) -> list[Configuration]:
        return list(self.known.seconds)

    @property
    def _round_seconds(self) -> float:
        return sum(self.known.seconds.values())

    @property
    def _completion_seconds(self) -> float:
        """Of all completions: each loads and computes about as much as a repetition."""
        best: dict[str, float] = {}
        for configuration, seconds in self.known.seconds.items():
            best[configuration.model] = min(seconds, best.get(configuration.model, seconds))
        return sum(best.values()) * (self.plan.completions + 1) if self.plan.completions else 0.0

    # the repetitions ---------------------------------------------------------------------------------

    def _measure_rounds(self) -> str:
        """Rounds of all configurations: first the warm-up, then those that count. Returns why there was no other."""
        repetitions = self.plan.repetitions
        for number, order in enumerate(order_rounds(self.configurations, self.plan.seed)):
            order = [configuration for configuration in order if (number, configuration) not in self.done]
            expected = self._round_seconds + self._completion_seconds
            if number and order and time.monotonic() - self.began + expected > self.plan.at_most:
                if number == 1:
                    allowed = human_duration(self.plan.at_most)
                    raise TakesTooLong(f"The warm-up took so long that {allowed} do not suffice.")
                return "time"
            for configuration in order:
                self._repeat(number, configuration)
            self._save_results(None)
            self.record.save(rounds=max(number, self.record.content["rounds"]))
            if order:
                self.span.looks.append(read_conditions(self.session, self.board))
                self.record.save_conditions(self.span)
            if number and number >= repetitions.least and self._is_narrow_enough():
                return "narrow enough"
            if number >= repetitions.most:
                return "repetitions"
        raise AssertionError("the order of rounds has no end")

    def _measure_completions(self) -> list[Flag]:
        """Those that were asked for; returns what speaks against them."""
        if not self.plan.completions:
            return []
        left = max(0.0, self.plan.at_most - (time.monotonic() - self.began))
        return measure_completions(self.session, self.board, self.models, self.record, self.request.choice, left)

    def _is_narrow_enough(self) -> bool:
        within = self.plan.repetitions.within
        return within is not None and all(result.spread <= within for result in self._results())

    def _repeat(self, number: int, configuration: Configuration) -> None:
        began_at = self._cool()
        began = time.monotonic()
        timings, outcome = self._run(configuration, self.plan)
        self.known.seconds[configuration] = time.monotonic() - began
        known = observed(outcome)
        samples = [
            Sample(
                position=len(self.series.samples) + place,
                round=number,
                model=configuration.model,
                threads=configuration.threads,
                settings=dict(configuration.settings),
                test=timing.test,
                tokens=timing.tokens,
                seconds=timing.seconds,
                tokens_per_second=timing.per_second,
                loops_ms=timing.loops_ms,
                at=now(),
                run=outcome.record.name,
                began_at=began_at,
                **known,
            )
            for place, timing in enumerate(timings, 1)
        ]
        self.series.add(samples)
        self.record.save(series={**self.record.content["series"], "count": len(self.series.samples)})
        shown = ", ".join(f"{sample.test} {sample.value:.3g} {sample.unit}" for sample in samples)
        title = f"repetition {number}" if number else "warm-up"
        self.session.console.info(f"  {title}: {configuration.name}: {shown}{self._label}")

    @property
    def _label(self) -> str:
        return " (emulated)" if self.record.content["board"]["emulated"] else ""

    def _run(self, configuration: Configuration, plan: Plan) -> tuple[list[Timing], RunOutcome]:
        """One run of the program, and what it measured. Raises what the run raises."""
        model = self.models[configuration.model]
        expected = self.known.seconds.get(configuration)
        words = self.instrument.words(name_on_board(model.path), configuration, plan)
        run = run_of(self.run, self.instrument, model, words)

        def execute(pin: bool) -> RunOutcome:
            options = dataclasses.replace(
                run.options,
                timeout=max(LEAST_TIMEOUT, SLACK * expected) if expected is not None else self.plan.at_most,
                conditions=run_conditions.Conditions(sample_seconds=self._sampling(expected), pin=pin),
            )
            return execute_built(self.inner, self.board, dataclasses.replace(run, options=options))

        outcome = self.pinning.run(execute)
        self.record.take_over(outcome)
        self.by_agent = outcome.run_engine == "agent"
        self.span.add(observed(outcome)["cpu_seconds"])
        return self.instrument.read(output_of(outcome)), outcome

    def _sampling(self, expected: float | None) -> float:
        """Seconds between two samples of the board; 0 where nobody can take them."""
        if expected is None or not self.by_agent:
            return 0.0
        return round(min(max(expected / SAMPLES_PER_RUN, FASTEST_SAMPLING), SLOWEST_SAMPLING), 3)

    def _run_shortly(self, configuration: Configuration, plan: Plan) -> ShortRun:
        if time.monotonic() - self.began > self.plan.at_most:
            raise TakesTooLong(f"The probe alone takes longer than {human_duration(self.plan.at_most)}.")
        timings, outcome = self._run(configuration, plan)
        return ShortRun(timings=timings, seconds=outcome.seconds)

    # what it says ------------------------------------------------------------------------------------

    def _results(self) -> list[Result]:
        return results_of(samples_of(self.series.samples, self.configurations), self.tests)

    def _save_results(self, ended_because: str | None, further: Sequence[Flag] = ()) -> None:
        """Writes what is known so far; whether it is valid is known at the end only."""
        results = self._results()
        flags: list[Flag] = []
        if ended_because is not None:
            flags = [*self._flags(), *further, *imprecise(results, self.plan.repetitions.within)]
        self.record.save(
            results=[result.as_json() for result in results],
            devices=self._devices(),
            ended_because=ended_because,
            valid=not flags if ended_because is not None else None,
            flags=[flag.as_json() for flag in flags],
        )

    def _devices(self) -> dict[str, Any]:
        """Which device was asked for in each configuration, and which computed, of programs that may choose."""
        found: dict[str, Any] = {}
        for sample in self.series.samples:
            if sample.device is not None:
                asked = str(sample.settings.get("device", ""))
                used = found.setdefault(sample.configuration.name, {"asked": asked, "used": []})["used"]
                used.extend({sample.device} - set(used))
        return found

    def _flags(self) -> list[Flag]:
        measured = [
            Measured(
                configuration=configuration.name,
                model_bytes=self.models[configuration.model].size,
                device=str(dict(configuration.settings).get("device", "")),
                start_below=self.plan.start_below,
                samples=samples,
            )
            for configuration, samples in samples_of(self.series.samples, self.configurations).items()
        ]
        return find_flags(measured, [*self.record.earlier_spans(), self.span], self.pinning.lost)
