"""``ohforge bench.*``: speeds that hold, with all that they were measured under."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command
from commands.words import ARCH_HELP, BOARD_HELP, CPU_HELP, TOOLCHAIN, read_duration
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from core.session import Session

RECORD_HELP = "Folder of a record, its name below runs/, or latest; `ohforge bench.list` shows them."


@command(
    optional_positional="model",
    repeatable=("model",),
    changes=True,
    dry=True,
    groups={"choice": TOOLCHAIN},
    help={
        "model": "A .gguf file, or a name that `ohforge model.list` shows; may be given again.",
        "board": BOARD_HELP,
        "arch": ARCH_HELP,
        "cpu": CPU_HELP,
        "threads": "Thread counts to measure, such as 1,2,4; default: powers of two up to the board's cores.",
        "prompt": "Tokens of the prompt, for prefill; 0 leaves it away.",
        "generate": "Tokens to generate, for decode; 0 leaves it away.",
        "repetitions": "How often: a number, or a share such as 5%, for as many as it takes until the 95 % interval of "
        "each median is that narrow to both sides (6 to 30).",
        "seed": "Of the order in which configurations take turns.",
        "at-most": "How long it may take in all, such as 30m or 2h.",
        "anyway": "Measure a model that does not fit into the board's memory, too.",
    },
)
def llama(
    session: Session,
    choice: ToolchainChoice,
    model: list[str] | None = None,
    board: str = "",
    threads: str = "",
    prompt: int = 128,
    generate: int = 32,
    repetitions: str = "5%",
    seed: int = 1,
    at_most: str = "2h",
    anyway: bool = False,
) -> Answer:
    """Measure prefill and decode of language models on a board by llama-bench; every sample is kept, and judged."""
    from bench.llama import measure_llama, would_measure
    from bench.plan import check_tokens, read_repetitions, read_threads
    from bench.request import BenchRequest
    from bench.verdict import judge_bench
    from commands.show_bench import show_bench
    from core.dry import tell

    check_tokens(prompt, generate)
    request = BenchRequest(
        models=tuple(model or ()),
        board=board,
        choice=choice,
        threads=read_threads(threads),
        n_prompt=prompt,
        n_gen=generate,
        repetitions=read_repetitions(repetitions),
        seed=seed,
        at_most=read_duration("--at-most", at_most),
    )
    if session.dry:
        return Answer(tell(session.console, would_measure(session, request)))
    outcome = measure_llama(judge_bench(session, request, anyway=anyway), request)
    show_bench(session.console, outcome)
    return Answer(outcome.as_json())


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
