"""``ohforge bench.*``: speeds that hold, with all that they were measured under."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from commands.command import Answer, FlagGroup, command
from commands.words import (
    ARCH_HELP,
    BOARD_HELP,
    CPU_HELP,
    SCHEDULER_HELP,
    TOOLCHAIN,
    read_boards,
    read_duration,
)
from core.errors import RunError, UsageError
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from bench.request import BenchOutcome, BenchRequest
    from core.dry import Would
    from core.session import Session

RECORD_HELP = "Folder of a record, its name below runs/, or latest; `ohforge bench.list` shows them."


@dataclass(frozen=True, kw_only=True)
class Discipline:
    """How a bench is done, whatever measures, as it was typed."""

    threads: str = ""
    repetitions: str = ""
    seed: int = 1
    at_most: str = "2h"
    start_below: float = 0.0
    cool_within: str = "10m"
    pin: bool | None = None
    resume: str = ""
    yes: bool | None = None
    boards: str = ""
    scheduler: str = ""

    def read(
        self, session: Session, choice: ToolchainChoice, models: list[str], board: str, **own: Any
    ) -> BenchRequest:
        """The request with what a task has of its own. Raises UsageError."""
        from bench.plan import read_repetitions, read_threads
        from bench.request import BenchRequest

        return BenchRequest(
            models=tuple(models),
            board=board,
            choice=choice,
            threads=read_threads(self.threads),
            repetitions=read_repetitions(self.repetitions) if self.repetitions else None,
            seed=self.seed,
            at_most=read_duration("--at-most", self.at_most),
            start_below=self.start_below or None,
            cool_within=read_duration("--cool-within", self.cool_within),
            pin=bool(self.pin),
            ask=not self.yes,
            **own,
        )

    def read_resumed(self, session: Session, instrument: str, models: list[str]) -> BenchRequest:
        """What the bench that is to be gone on with was asked for. Raises UsageError, and what reading its record raises."""
        from bench.record import find_record
        from bench.resume import request_of

        if models:
            raise UsageError("--resume takes models and all else from the record.", remedy="Leave away the models.")
        folder = find_record(session, self.resume)
        at_most = read_duration("--at-most", self.at_most)
        return request_of(folder, instrument, at_most=at_most, ask=not self.yes)


DISCIPLINE = FlagGroup(
    title="Discipline",
    type=Discipline,
    help={
        "threads": "Thread counts to measure, such as 1,2,4; default: the best of a short sweep up to the board's cores.",
        "repetitions": "How often: a number, or a share such as 5%, for as many as it takes until the 95 % interval of "
        "each median is that narrow to both sides (6 to 30). Default: 5%; 6 on an emulated board.",
        "seed": "Of the order in which configurations take turns.",
        "at-most": "How long it may take in all, such as 30m or 2h.",
        "start-below": "Wait before each run until the board is below so many °C.",
        "cool-within": "How long such a wait may take; what begins warmer is not valid.",
        "pin": "Fix the board's clocks while a program runs (needs the agent, and root on the board), and set them back.",
        "resume": "Go on with a bench that did not come to its end: its folder, its name below runs/, or latest.",
        "yes": "Do not ask on a terminal before more than a minute is spent.",
        "boards": "Boards of one kind, such as lab-1,lab-2, that are all measured at once, each by itself; needs Dask.",
        "scheduler": SCHEDULER_HELP,
    },
)
MODEL_HELP = "file, or a name that `ohforge model.list` shows; may be given again."


@command(
    optional_positional="model",
    repeatable=("model",),
    changes=True,
    dry=True,
    groups={"choice": TOOLCHAIN, "discipline": DISCIPLINE},
    help={
        "model": f"A .gguf {MODEL_HELP}",
        "board": BOARD_HELP,
        "arch": ARCH_HELP,
        "cpu": CPU_HELP,
        "prompt": "Tokens of the prompt, for prefill; 0 leaves it away. Default: 128; 16 on an emulated board.",
        "generate": "Tokens to generate, for decode; 0 leaves it away. Default: 32; 8 on an emulated board.",
        "batch": "Logical batch sizes to measure, such as 512,2048; default: the program's own.",
        "ubatch": "Physical batch sizes to measure, such as 64,512.",
        "depth": "Tokens that are in the context already, such as 0,512,2048.",
        "cache-k": "Types of the cached keys to measure, such as f16,q8_0.",
        "cache-v": "Types of the cached values.",
        "repack": "Whether weights are copied into another order for the CPU: on, off or on,off.",
        "load-mode": "How the model's file comes into memory: auto, none, mmap, mlock, mmap+mlock, dio (direct reading).",
        "completions": "Completions through llama-server that count, of each model with its best thread count: time to the "
        "first token and of every further one, loading, memory, page faults, reads; 0: none.",
        "anyway": "Measure a model that does not fit into the board's memory, too.",
    },
)
def llama(
    session: Session,
    choice: ToolchainChoice,
    discipline: Discipline,
    model: list[str] | None = None,
    board: str = "",
    prompt: str = "",
    generate: str = "",
    batch: str = "",
    ubatch: str = "",
    depth: str = "",
    cache_k: str = "",
    cache_v: str = "",
    repack: str = "",
    load_mode: str = "",
    completions: int = 0,
    anyway: bool = False,
) -> Answer:
    """Measure prefill and decode of language models on a board by llama-bench; every sample is kept, and judged."""
    from bench.completion import check_plan
    from bench.llama import check_tokens, measure_llama, read_axes, read_tokens, would_measure_llama

    if discipline.resume:
        request = discipline.read_resumed(session, "llama", model or [])
    else:
        n_prompt, n_gen = read_tokens("--prompt", prompt), read_tokens("--generate", generate)
        check_tokens(n_prompt, n_gen)
        check_plan(completions, n_prompt, n_gen)
        memory = {"cache_k": cache_k, "cache_v": cache_v, "repack": repack, "load_mode": load_mode}
        axes = read_axes(batch=batch, ubatch=ubatch, depth=depth, **memory)
        request = discipline.read(
            session, choice, model or [], board, n_prompt=n_prompt, n_gen=n_gen, axes=axes, completions=completions
        )
    return _perform(session, replace(request, anyway=anyway), measure_llama, would_measure_llama, "llama", discipline)


@command(
    optional_positional="model",
    repeatable=("model",),
    changes=True,
    dry=True,
    groups={"choice": TOOLCHAIN, "discipline": DISCIPLINE},
    help={
        "model": f"A .ms {MODEL_HELP}",
        "board": BOARD_HELP,
        "arch": ARCH_HELP,
        "cpu": CPU_HELP,
        "device": "What shall compute: cpu, nnrt, nnrt:NAME, or several such as cpu,nnrt.",
        "fp16": "Whether the engine computes in half precision: on, off or on,off.",
        "loops": "How often one run of the program computes; its sample is the median.",
        "warm-up": "How often it computes before that, uncounted.",
    },
)
def mslite(
    session: Session,
    choice: ToolchainChoice,
    discipline: Discipline,
    model: list[str] | None = None,
    board: str = "",
    device: str = "cpu",
    fp16: str = "",
    loops: int = 10,
    warm_up: int = 2,
) -> Answer:
    """Measure the time of one inference with MindSpore Lite models on a board; every loop is kept, and judged."""
    from bench.mslite import check_loops, measure_mslite, read_axes, would_measure_mslite

    if discipline.resume:
        request = discipline.read_resumed(session, "mslite", model or [])
    else:
        check_loops(loops, warm_up)
        axes = read_axes(device=device, fp16=fp16)
        request = discipline.read(session, choice, model or [], board, loops=loops, warm_up=warm_up, axes=axes)
    return _perform(session, request, measure_mslite, would_measure_mslite, "mslite", discipline)


def _perform(
    session: Session,
    request: BenchRequest,
    measure: Callable[[Session, BenchRequest], BenchOutcome],
    would_measure: Callable[[Session, BenchRequest], list[Would]],
    instrument: str,
    discipline: Discipline,
) -> Answer:
    from commands.show_bench import show_bench
    from core.dry import Would, tell

    named = read_boards(discipline.boards, discipline.scheduler)
    if named and (request.board or request.resume):
        raise UsageError(
            "--boards goes neither with --board nor with --resume.", remedy="Go on with each part by itself."
        )
    if session.dry and discipline.scheduler:  # What lacks there, that computer alone knows.
        where = f"boards {', '.join(named)} of {discipline.scheduler}"
        would = [
            Would(action="measure", what=f"{model} by bench.{instrument}", where=where) for model in request.models
        ]
        return Answer(tell(session.console, would))
    if session.dry:
        every = [replace(request, board=board) for board in named] or [request]
        return Answer(tell(session.console, [would for each in every for would in would_measure(session, each)]))
    if named:
        return _measure_parts(session, request, instrument, measure, named, discipline.scheduler)
    outcome = measure(session, request)
    show_bench(session.console, outcome)
    return Answer(outcome.as_json())


def _measure_parts(
    session: Session,
    request: BenchRequest,
    instrument: str,
    measure: Callable[[Session, BenchRequest], BenchOutcome],
    boards: tuple[str, ...],
    scheduler: str,
) -> Answer:
    from bench.parts import measure_parts
    from commands.show_bench import show_parts

    outcome = measure_parts(session, request, instrument, measure, boards, scheduler=scheduler)
    show_parts(session.console, outcome)
    return Answer(outcome.as_json(), exit_status=0 if outcome.all_done else RunError.category.value)


@command(name="list", help={})
def list_(session: Session) -> Answer:
    """List the benches below runs/, with their best medians and whether they are valid."""
    from bench.record import list_benches
    from commands.show_bench import show_benches

    benches = list_benches(session.settings.runs)
    show_benches(session.console, benches)
    return Answer({"benches": benches})


@command(
    positional=("first", "second"),
    help={
        "first": RECORD_HELP,
        "second": "Another one, which is compared with it.",
        "anyway": "Compare what was measured under unlike conditions, or is not valid; the answer says so.",
    },
)
def compare(session: Session, first: str, second: str, anyway: bool = False) -> Answer:
    """Compare two benches: changes of the medians with their intervals; refused when the conditions are not alike."""
    from bench.compare import compare_benches
    from bench.record import find_record
    from commands.show_bench import show_comparison

    comparison = compare_benches(find_record(session, first), find_record(session, second), anyway=anyway)
    show_comparison(session.console, comparison)
    return Answer(comparison.as_json())


@command(positional=("record",), help={"record": RECORD_HELP})
def verify(session: Session, record: str) -> Answer:
    """Say whether anything of a record, of a bench or a run, was changed since it ended."""
    from bench.record import find_record, verify_record

    check = verify_record(folder := find_record(session, record))
    session.console.info(f"{folder}: all {check.files} files are as they were at its end")
    return Answer({"record": str(folder), "files": check.files, "changed": [], "missing": [], "added": []})
