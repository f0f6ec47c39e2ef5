"""``ohforge eval.*``: how often language models answer right."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from commands.command import Answer, FlagGroup, command
from commands.words import (
    ARCH_HELP,
    BOARD_HELP,
    BOARDS_HELP,
    CPU_HELP,
    SCHEDULER_HELP,
    TOOLCHAIN,
    read_boards,
    read_duration,
)
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from bench.eval.request import EvalPlan
    from core.session import Session
    from deploy.launch.server_settings import ServerSettings


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What is asked, and how it is judged, as it was typed."""

    data: str = "gsm8k"
    limit: int = 0
    seed: int = 1
    prompt: str = "direct"
    budgets: str = ""
    max_tokens: int = 1024
    told: float = 0.5
    concurrency: int = 1
    until_width: float = 0.0
    anyway: bool | None = None

    def read(self, settings: ServerSettings) -> EvalPlan:
        """The same, understood. Raises UsageError."""
        from bench.eval.request import EvalPlan, read_budgets

        return EvalPlan(
            data=self.data,
            limit=self.limit,
            seed=self.seed,
            prompt=self.prompt,
            budgets=read_budgets(self.budgets),
            max_tokens=self.max_tokens,
            told_share=self.told,
            concurrency=self.concurrency,
            until_width=self.until_width or None,
            anyway=bool(self.anyway),
            settings=settings,
        )


QUESTIONS = FlagGroup(
    title="Questions",
    type=Questions,
    help={
        "data": "A set that `ohforge data.list` shows, or a .jsonl file of your own, each line with question and answer.",
        "limit": "How many questions to ask; 0 asks all.",
        "seed": "Of the order of the questions: the same seed asks the same ones of every model.",
        "prompt": "direct: step by step. aav: an estimate first, then its check. budget: step by step, and the model is told "
        "a limit.",
        "budgets": "Limits of tokens under which answers are judged, such as 64,128,256.",
        "max-tokens": "Limit of whole answers, from which those under the budgets are cut.",
        "told": "Which part of each budget `--prompt budget` tells the model.",
        "concurrency": "How many questions at once; for servers with OpenAI's interface, or as many as --slots.",
        "until-width": "Stop when the 95 % interval of the accuracy is so narrow from end to end, such as 0.05.",
        "anyway": "Go on with a chat template that does not fit the model; the result is then not valid.",
    },
)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """How the server that is started keeps what it has in memory, as it was typed."""

    load_mode: str = ""
    cache_k: str = ""
    cache_v: str = ""
    context: int = 0
    slots: int = 0
    prompt_cache: bool | None = None
    cache_reuse: int = 0
    draft: str = ""
    draft_tokens: int = 0

    def read(self) -> ServerSettings:
        """The same, understood. Raises UsageError."""
        from deploy.launch.server_settings import ServerSettings

        return ServerSettings(**asdict(self))


MEMORY = FlagGroup(
    title="Memory of the server that is started",
    type=Memory,
    help={
        "load-mode": "How the model's file comes into memory: auto, none, mmap, mlock, mmap+mlock, dio (direct reading).",
        "cache-k": "Type of the cached keys, such as q8_0; default: f16.",
        "cache-v": "Type of the cached values.",
        "context": "Tokens of a question with its answer; default: as many as the limit of answers wants.",
        "slots": "Answers at once, each with a context of its own; give --concurrency as well to use them.",
        "prompt-cache": "Take the beginning of a prompt that the server still has from there.",
        "cache-reuse": "Take parts of so many tokens or more from there as well, moved to where they are now.",
        "draft": "A small model with the same vocabulary, whose guesses the served one only checks: a .gguf file, or a name.",
        "draft-tokens": "How many tokens the draft model guesses at once, at most; default: llama-server's own.",
    },
)


@command(
    positional=("file",),
    help={
        "file": "JSON lines, each with text, gold and optionally truncated (true or false) and id.",
        "math-verify": "Ask math-verify as well, which must be installed, and list where it thinks otherwise.",
    },
)
def grade(session: Session, file: str, math_verify: bool = False) -> Answer:
    """Judge answers that are there already, strictly and leniently; with --json one verdict a line."""
    from contextlib import nullcontext
    from pathlib import Path

    from bench.eval.grade_file import grade_file
    from bench.eval.grading import tally
    from bench.eval.second_opinion import MathVerify
    from commands.show_eval import LineTeller, show_tally
    from core.errors import InvalidData

    with MathVerify() if math_verify else nullcontext() as second:
        teller = LineTeller(session.console, second)
        show_tally(session.console, tally(teller.tell(grade_file(Path(file).expanduser()))))
    teller.sum_up()
    return Answer(exit_status=InvalidData.category.value if teller.broken else 0, by_lines=True)


@command(
    optional_positional="model",
    changes=True,
    dry=True,
    groups={"questions": QUESTIONS, "memory": MEMORY, "choice": TOOLCHAIN},
    help={
        "model": "A .gguf file, or a name that `ohforge model.list` shows; with --endpoint the server's name of it.",
        "endpoint": "Ask the server at this address, such as http://127.0.0.1:8080; its key is taken from OHFORGE_ENDPOINT_KEY.",
        "openai": "Use OpenAI's interface, although it is a llama-server.",
        "board": BOARD_HELP,
        "boards": BOARDS_HELP,
        "scheduler": SCHEDULER_HELP,
        "on-host": "Ask the model on this computer; the times are then none of a board.",
        "threads": "Threads of the server that is started; default: its own choice.",
        "silence": "Seconds without a sign of work after which the server counts as dead.",
        "at-most": "Ask no further question after so long, such as 30m or 8h; the accuracy is then that of fewer.",
        "resume": "Go on with an evaluation that did not come to its end: its folder, its name below runs/, or latest.",
        "arch": ARCH_HELP,
        "cpu": CPU_HELP,
    },
)
def gsm8k(
    session: Session,
    questions: Questions,
    memory: Memory,
    choice: ToolchainChoice,
    model: str = "",
    endpoint: str = "",
    openai: bool = False,
    board: str = "",
    boards: str = "",
    scheduler: str = "",
    on_host: bool = False,
    threads: int = 0,
    silence: float = 600.0,
    at_most: str = "",
    resume: str = "",
) -> Answer:
    """Ask a model questions of arithmetic, and count the right answers under budgets of tokens, with intervals."""
    from bench.eval.evaluate import evaluate, would_evaluate
    from bench.eval.record import find_eval
    from bench.eval.request import EvalRequest
    from commands.show_eval import show_evaluation
    from core.dry import tell

    request = EvalRequest(
        model=model,
        endpoint=endpoint,
        on_host=on_host,
        board=board,
        boards=read_boards(boards, scheduler),
        scheduler=scheduler,
        openai=openai,
        choice=choice,
        threads=threads,
        silence=silence,
        plan=questions.read(memory.read()),
        resume=find_eval(session, resume) if resume else None,
        at_most=read_duration("--at-most", at_most) if at_most else None,
    )
    if session.dry:
        return Answer(tell(session.console, would_evaluate(session, request)))
    outcome = evaluate(session, request)
    show_evaluation(session.console, outcome)
    return Answer(outcome.as_json())


@command(
    positional=("record",),
    changes=True,
    dry=True,
    help={"record": "Folder of an evaluation's record, its name below runs/, or latest."},
)
def regrade(session: Session, record: str) -> Answer:
    """Judge the answers of an evaluation again, by the rules of this version, without asking the model."""
    from bench.eval.record import find_eval
    from bench.eval.regrade import regrade as judge_again
    from bench.eval.regrade import would_regrade
    from commands.show_eval import show_regraded
    from core.dry import tell

    folder = find_eval(session, record)
    if session.dry:
        return Answer(tell(session.console, would_regrade(folder)))
    regraded = judge_again(session, folder)
    show_regraded(session.console, regraded)
    return Answer(regraded.as_json())
