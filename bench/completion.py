"""Completions through llama-server: the time to the first token, the time of every further one, and what that took.

llama-bench feeds random tokens and tells the sum of their times. Here a prompt is read and answered as by any client:
each repetition has a server of its own, so that loading is measured as well, and a record of its own below the bench's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cooling import wait_until_cool
from bench.endpoint.answer import Answer, Ask
from bench.endpoint.client import Endpoint
from bench.flags import READ_SHARE, Flag
from bench.plan import Configuration, Plan, human_duration, order_rounds
from bench.record import BenchRecord
from bench.series import DECODE, PREFILL
from bench.stats import LEAST_FOR_INTERVAL, Summary, summarise
from core.dry import Would
from core.errors import AnswerCut, EndpointError, EndpointSilent, RunError, UsageError
from core.files import human_bytes
from core.record_folder import now
from core.session import Session
from deploy.board.protocol import Board
from deploy.launch.dry import would_launch
from deploy.launch.launch import name_on_board, ready_product
from deploy.launch.model_server import ModelServer, ServeOptions
from deploy.launch.process_use import ProcessUse
from deploy.launch.request import LaunchRequest
from deploy.launch.serve import PRODUCT, ready_server, run_with, serve_on_board, server_words
from deploy.run.conditions import Conditions
from deploy.run.options import RunOptions
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from native.models.models import Model

FILE = "completions.jsonl"
AGENT = "agent"
SAMPLE_SECONDS = 1.0
LEAST_TOKENS = 2
"""Of one token no time between two is known."""
SLACK = 10.0
"""How many times longer than foreseen the server may be silent."""
LEAST_SILENCE = 300.0
LOAD_SECONDS = 1800.0
TEXT = (
    "The ferry to the island leaves twice a day, early in the morning and late in the afternoon. In winter the crossing "
    "takes longer, because the captain keeps away from the sandbanks that the storms have moved. Most of the passengers "
    "know each other: the teacher, two fishermen, a nurse who visits her patients, and now and then a traveller. "
)
"""What is gone on from; as much of it, again and again, as the prompt has tokens."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One completion. Counters are of the server, from the request to the last token; None: the board does not tell."""

    position: int
    round: int
    """0: the warm-up, which is kept and does not count."""
    model: str
    threads: int
    prompt_tokens: int
    generated: int
    load_seconds: float
    """From the server's start until it was ready, by this computer's clock, as are the next two."""
    ttft_seconds: float
    """From the request to the first token."""
    arrivals: tuple[float, ...]
    """Seconds from the request to each token."""
    token_seconds: tuple[float, ...]
    """Of each token from the second on, by the server's clock, link left out."""
    peak_bytes: int | None
    """The most that the server has had in memory, loading included."""
    minor_faults: int | None
    major_faults: int | None
    read_bytes: int | None
    """From storage."""
    load_major_faults: int | None
    load_read_bytes: int | None
    """These two while it was loading."""
    at: str
    """Host's time at its end."""
    run: str
    """Folder of the server's own record, below ``runs/``."""

    @property
    def counts(self) -> bool:
        return self.round > 0


def check_plan(count: int, n_prompt: int | None, n_gen: int | None) -> None:
    """Raises UsageError for completions in which there is nothing to measure; what is None is enough."""
    few = n_prompt == 0 or (n_gen is not None and n_gen < LEAST_TOKENS)
    if count < 0 or (count and few):
        raise UsageError(
            f"--completions {count} with --prompt {n_prompt} and --generate {n_gen} leaves nothing to measure.",
            remedy=f"A completion takes a token of a prompt and {LEAST_TOKENS} that are generated.",
        )


def build_server(session: Session, board: Board, choice: ToolchainChoice) -> None:
    """Builds what completions need before anything is measured, so that no build comes between. Raises what a build raises."""
    ready_server(session, board, ServeOptions(choice=choice))


def measure_completions(
    session: Session,
    board: Board,
    models: Mapping[str, Model],
    record: BenchRecord,
    choice: ToolchainChoice,
    seconds: float,
) -> list[Flag]:
    """Measures what the plan of a bench asks for, with the thread counts that were best by its results.

    No round is begun that would end after so many `seconds`. Returns what speaks against it. Raises what building,
    sending and serving raise, EndpointError and its kinds.
    """
    threads = {name: best_threads(record.content["results"], name) for name in models}
    return _Completions(session, board, models, record, choice, seconds, threads).measure()


def would_complete(
    session: Session, board: Board, models: Sequence[Model], plan: Plan, choice: ToolchainChoice
) -> list[Would]:
    """What `measure_completions` would do for a first one; `session` is a dry one. Raises what its looks raise."""
    launch = ready_product(session, board, LaunchRequest(program=PRODUCT, choice=choice))
    would: list[Would] = []
    for model in models:
        words = server_words(name_on_board(model.path), ServeOptions(context=plan.n_prompt + plan.n_gen))
        would += would_launch(session, dataclasses.replace(launch, run=run_with(launch.run, model, words)))
    return would


def computing_seconds(results: Sequence[Mapping[str, Any]], configuration: Configuration, plan: Plan) -> float:
    """How long one completion computes, by the speeds that were measured; what was not measured counts nothing."""
    tokens = {PREFILL: plan.n_prompt, DECODE: plan.n_gen}
    rows = [row for row in results if row["model"] == configuration.model and row["threads"] == configuration.threads]
    quickest: dict[str, float] = {
        row["test"]: max(row["median"], 1e-9) for row in sorted(rows, key=lambda row: row["median"])
    }
    return sum(count / quickest[test] for test, count in tokens.items() if test in quickest)


def best_threads(results: Sequence[Mapping[str, Any]], model: str) -> int:
    """With which a model was quickest at what most of an answer's time goes into: decode where it was measured."""
    rows = [row for row in results if row["model"] == model]
    decode = [row for row in rows if row["test"] == DECODE]
    return int(max(decode or rows, key=lambda row: row["median"])["threads"])


class _Completions:
    def __init__(
        self,
        session: Session,
        board: Board,
        models: Mapping[str, Model],
        record: BenchRecord,
        choice: ToolchainChoice,
        seconds: float,
        threads: Mapping[str, int],
    ) -> None:
        self.session, self.board, self.models, self.record = session, board, models, record
        self.plan = plan = record.plan
        self.inner = session.with_settings(runs_dir=str(record.runs)).quietly()
        self.configurations = [Configuration(model=name, threads=threads[name]) for name in models]
        self.options = ServeOptions(
            choice=choice,
            context=plan.n_prompt + plan.n_gen,
            load_seconds=LOAD_SECONDS,
            run=self._run_options(seconds),
        )
        self.server = ready_server(session, board, self.options)
        self.done: list[Completion] = []
        self.until = time.monotonic() + seconds
        (record.folder / FILE).unlink(missing_ok=True)  # Of a bench that is gone on with, they begin anew.

    def measure(self) -> list[Flag]:
        self._save("running")
        times = sum(computing_seconds(self.record.content["results"], each, self.plan) for each in self.configurations)
        self.session.console.info(
            f"expected: {human_duration((self.plan.completions + 1) * times)} for {self.plan.completions} completion(s) of "
            "each model and a warm-up, loading left out"
        )
        seconds: list[float] = []
        for number, order in enumerate(order_rounds(self.configurations, self.plan.seed)):
            if number > self.plan.completions:
                break
            began = time.monotonic()
            if seconds and began + max(seconds) > self.until:
                self.session.console.warn(f"only {number - 1} completions fit into the time that is allowed")
                break
            for configuration in order:
                self._repeat(number, configuration)
            seconds.append(time.monotonic() - began)
        self._save("done")
        return self._flags()

    def _run_options(self, seconds: float) -> RunOptions:
        # Only the agent can look at the board meanwhile, and hold its clocks.
        by_agent = (self.record.content["run_engine"] or {}).get("name") == AGENT
        conditions = Conditions(
            sample_seconds=SAMPLE_SECONDS if by_agent else 0.0, pin=self.record.content["pin"]["held"]
        )
        return RunOptions(timeout=seconds + LOAD_SECONDS, conditions=conditions)

    def _repeat(self, number: int, configuration: Configuration) -> None:
        options = dataclasses.replace(self.options, threads=configuration.threads)
        if self.plan.start_below is not None:
            wait_until_cool(self.session, self.board, self.plan.start_below, self.plan.cool_within)
        model = self.models[configuration.model]
        with serve_on_board(self.inner, self.board, model, options, run=self.server) as server:
            before = server.use()
            with blamed_on(server), Endpoint(self.inner, server.url, silence=self._silence(configuration)) as endpoint:
                prompt = prompt_of(endpoint, self.plan.n_prompt)
                answer = endpoint.answer(Ask(max_tokens=self.plan.n_gen, prompt=prompt, ignore_end=True))
            after = server.use()
            if before is None or after is None or server.record is None or server.load_seconds is None:
                raise RunError(f"llama-server on board {self.board.serial} is not there any more.")
            completion = Completion(
                position=len(self.done) + 1,
                round=number,
                model=configuration.model,
                threads=configuration.threads,
                load_seconds=server.load_seconds,
                at=now(),
                run=server.record.name,
                **check_times(answer, len(prompt)),
                **_counted(before, after),
            )
        self._keep(completion)
        title = f"completion {number}" if number else "warm-up"
        label = " (emulated)" if self.record.content["board"]["emulated"] else ""
        token = sum(completion.token_seconds) / len(completion.token_seconds)
        self.session.console.info(
            f"  {title}: {configuration.name}: loaded in {completion.load_seconds:.3g} s, first token after "
            f"{completion.ttft_seconds:.3g} s, then {token:.3g} s a token{label}"
        )

    def _silence(self, configuration: Configuration) -> float:
        """Seconds that the server may be silent: the prompt is evaluated in one piece."""
        computing = computing_seconds(self.record.content["results"], configuration, self.plan)
        return max(LEAST_SILENCE, SLACK * computing)

    def _keep(self, completion: Completion) -> None:
        self.done.append(completion)
        with (self.record.folder / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(completion)) + "\n")
        self._save("running")

    def _save(self, state: str) -> None:
        self.record.save(
            completion={
                "state": state,
                "file": FILE,
                "count": len(self.done),
                "asked": self.plan.completions,
                "prompt_tokens": self.plan.n_prompt,
                "tokens": self.plan.n_gen,
                "results": [
                    {"configuration": each.name, "model": each.model, "threads": each.threads, "metric": metric}
                    | summary.as_json()
                    for each in self.configurations
                    for metric, summary in summaries_of(self._of(each)).items()
                ],
            }
        )

    def _of(self, configuration: Configuration) -> list[Completion]:
        return [each for each in self.done if each.counts and each.model == configuration.model]

    def _flags(self) -> list[Flag]:
        found = [storage_flag(each, self.models[each.model].size, self._of(each)) for each in self.configurations]
        return [flag for flag in found if flag is not None]


def storage_flag(configuration: Configuration, model_bytes: int, completions: Sequence[Completion]) -> Flag | None:
    """What is raised when the weights do not stay in memory."""
    read = max((per_token(each, each.read_bytes) or 0.0 for each in completions), default=0.0)
    if read <= READ_SHARE * model_bytes:
        return None
    sentence = (
        f"{human_bytes(read)} were read from storage for each token of a completion: the model does not fit into memory"
    )
    return Flag(name="storage", sentence=sentence, configuration=configuration.name)


@contextlib.contextmanager
def blamed_on(server: ModelServer) -> Iterator[None]:
    """When an answer breaks off within the block, raises what has ended the server or the way to it, if that is why."""
    try:
        yield
    except (EndpointError, AnswerCut, EndpointSilent):
        server.check()
        raise


def prompt_of(endpoint: Endpoint, tokens: int) -> tuple[int, ...]:
    """A prompt of exactly so many tokens, by the server's own vocabulary, with what it puts before each."""
    pieces = 1
    while True:
        found = endpoint.tokenize(TEXT * pieces, special=True)
        if len(found) >= tokens:
            return found[:tokens]
        pieces *= 2


def check_times(answer: Answer, asked: int) -> dict[str, Any]:
    """The times of an answer, as fields of `Completion`. Raises RunError when the times do not belong to single tokens, or not to a prompt of as many as were `asked`."""
    clock = [piece.server_ms for piece in answer.pieces]
    arrivals = tuple(piece.at for piece in answer.pieces)
    if not answer.has_token_in_each_piece or len(clock) < LEAST_TOKENS:
        raise RunError(
            f"llama-server wrote {answer.generated} tokens in {len(clock)} pieces: they have no times of their own."
        )
    if answer.prompt_tokens != asked or answer.cached_tokens:
        raise RunError(
            f"llama-server read {answer.prompt_tokens} tokens, {answer.cached_tokens or 0} of them from its cache, where "
            f"{asked} were to be read."
        )
    told = [milliseconds for milliseconds in clock if milliseconds is not None]
    if len(told) < len(clock):
        raise RunError("llama-server did not tell the time of every token.")
    return {
        "prompt_tokens": answer.prompt_tokens,
        "generated": answer.generated,
        "ttft_seconds": arrivals[0],
        "arrivals": arrivals,
        "token_seconds": tuple((later - earlier) / 1000 for earlier, later in itertools.pairwise(told)),
    }


def _counted(before: ProcessUse, after: ProcessUse) -> dict[str, Any]:
    def grown(name: str) -> int | None:
        first, last = getattr(before, name), getattr(after, name)
        return last - first if first is not None and last is not None else None

    return {
        "peak_bytes": after.peak_bytes,
        "load_major_faults": before.major_faults,
        "load_read_bytes": before.read_bytes,
        **{name: grown(name) for name in ("minor_faults", "major_faults", "read_bytes")},
    }


def per_token(completion: Completion, count: int | None) -> float | None:
    """The first token comes of reading the prompt, so each stands for one pass over the weights (of a prompt of one piece)."""
    return count / completion.generated if count is not None else None


def summaries_of(completions: Sequence[Completion]) -> dict[str, Summary]:
    """What is told of the completions of one configuration; what the board does not tell is left out."""
    if not completions:
        return {}
    values: dict[str, tuple[list[float | None], str]] = {
        "load": ([each.load_seconds for each in completions], "s"),
        "ttft": ([each.ttft_seconds for each in completions], "s"),
        "tpot": ([sum(each.token_seconds) / len(each.token_seconds) for each in completions], "s"),
        "token": ([seconds for each in completions for seconds in each.token_seconds], "s"),
        "peak_memory": ([each.peak_bytes for each in completions], "bytes"),
        "minor_faults_per_token": ([per_token(each, each.minor_faults) for each in completions], "faults"),
        "major_faults_per_token": ([per_token(each, each.major_faults) for each in completions], "faults"),
        "read_per_token": ([per_token(each, each.read_bytes) for each in completions], "bytes"),
    }
    found = {}
    for name, (series, unit) in values.items():
        known = [value for value in series if value is not None]
        if len(known) == len(series):
            summary = _summarise(known, unit)
            # Tokens of one completion do not come about independently of each other: they give no interval.
            found[name] = dataclasses.replace(summary, low=None, high=None) if name == "token" else summary
    return found


def _summarise(samples: Sequence[float], unit: str) -> Summary:
    """As `summarise`, of counts that may all be 0, too."""
    if any(samples):
        return summarise(samples, unit)
    known = 0.0 if len(samples) >= LEAST_FOR_INTERVAL else None
    return Summary(median=0.0, low=known, high=known, p5=0.0, p95=0.0, cv=None, n=len(samples), unit=unit)


def read_completions(folder: Path) -> list[Completion]:
    """All completions of a record, warm-ups as well; none where there is no such file."""
    file = folder / FILE
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    tuples = ("arrivals", "token_seconds")
    return [Completion(**{**row, **{name: tuple(row[name]) for name in tuples}}) for row in map(json.loads, lines)]
