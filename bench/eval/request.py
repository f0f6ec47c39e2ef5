"""What is to be evaluated, and how; and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.endpoint.client import SILENCE_SECONDS, check_address
from bench.eval.prompts import DIRECT, TOLD_BUDGET, check_budgets, told_tokens
from core.errors import UsageError
from deploy.launch.server_settings import ServerSettings, read_settings
from toolchains.host_toolchain import ToolchainChoice

MOST_TOKENS = 1024
TOLD_SHARE = 0.5
WHERE = ("endpoint", "on_host", "board", "openai", "threads")
SPREAD = ("boards", "scheduler")
"""Fields of a request that say who answers; with the second ones that are several boards."""


@dataclass(frozen=True, kw_only=True)
class EvalPlan:
    """All that decides which answers are asked for, and what they are judged as."""

    data: str = "gsm8k"
    """Name or path."""
    limit: int = 0
    """Questions; 0: all."""
    seed: int = 1
    """Of their order."""
    prompt: str = DIRECT
    budgets: tuple[int, ...] = ()
    """Tokens, ascending."""
    max_tokens: int = MOST_TOKENS
    """Limit of whole answers."""
    told_share: float = TOLD_SHARE
    sampling_seed: int = 1
    concurrency: int = 1
    until_width: float | None = None
    """Stop when the interval of the accuracy is not wider; None: ask all."""
    anyway: bool = False
    """Go on with a chat template that does not fit; the result is then not valid."""
    settings: ServerSettings = field(default_factory=ServerSettings)
    """Of a llama-server that is started for it: they change answers as well as times."""

    def __post_init__(self) -> None:
        check_budgets(self.prompt, self.budgets)
        if self.budgets and self.prompt != TOLD_BUDGET and self.budgets[-1] > self.max_tokens:
            raise UsageError(
                f"A budget of {self.budgets[-1]} tokens is above the limit of whole answers, {self.max_tokens}.",
                remedy="Raise --max-tokens.",
            )
        if self.max_tokens < 1 or self.concurrency < 1:
            raise UsageError("--max-tokens and --concurrency are counts from 1 on.", remedy="")
        if not 0 < self.told_share <= 1:
            raise UsageError(f"--told {self.told_share:g} is no share.", remedy="Name one above 0, up to 1.")
        if self.until_width is not None and not 0 < self.until_width < 1:
            raise UsageError(f"--until-width {self.until_width:g} is no width of an interval.", remedy="Such as 0.05.")
        if 0 < self.settings.context <= self.max_tokens:
            raise UsageError(
                f"A context of {self.settings.context} tokens has no room for an answer of {self.max_tokens}.",
                remedy="Raise --context, or lower --max-tokens.",
            )

    @property
    def names_budgets(self) -> bool:
        return self.prompt == TOLD_BUDGET

    def told(self, budget: int) -> int | None:
        return told_tokens(budget, self.told_share) if self.names_budgets else None

    def as_json(self) -> dict[str, Any]:
        """The part ``plan`` of a record."""
        return {
            "budgets": list(self.budgets),
            "max_tokens": self.max_tokens,
            "told_share": self.told_share if self.names_budgets else None,
            "temperature": 0,
            "sampling_seed": self.sampling_seed,
            "concurrency": self.concurrency,
            "until_width": self.until_width,
            "anyway": self.anyway,
            "settings": self.settings.as_json(),
        }


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """What the command line asks for. Either `endpoint`, or `on_host`, or `boards`, or a board (empty: the one that is chosen)."""

    model: str = ""
    endpoint: str = ""
    on_host: bool = False
    board: str = ""
    boards: tuple[str, ...] = ()
    """Boards of one kind, among which the questions are spread."""
    scheduler: str = ""
    """Address of the Dask scheduler whose workers have these boards; empty: this computer has them."""
    openai: bool = False
    """Use OpenAI's interface, also of a llama-server."""
    choice: ToolchainChoice = field(default_factory=ToolchainChoice)
    threads: int = 0
    silence: float = SILENCE_SECONDS
    plan: EvalPlan = field(default_factory=EvalPlan)
    resume: Path | None = None
    """Folder of the record that is gone on with; the plan is then that record's."""
    at_most: float | None = None
    """Seconds after which no further question is asked."""

    def __post_init__(self) -> None:
        if self.endpoint:
            object.__setattr__(self, "endpoint", check_address(self.endpoint))
        if sum(map(bool, (self.endpoint, self.on_host, self.board, self.boards))) > 1:
            raise UsageError(
                "--endpoint, --on-host, --board and --boards each say who answers.", remedy="Name one of them."
            )
        if self.endpoint and (said := str(self.plan.settings)):
            raise UsageError(
                f"The server at {self.endpoint} runs already: {said} cannot be asked of it.",
                remedy="Start it so, or let ohforge start one, with --on-host or on a board.",
            )
        if not (self.endpoint or self.model or self.resume):
            raise UsageError(
                "There is no model.", remedy="Name a .gguf file, or a name that `ohforge model.list` shows."
            )

    @property
    def where(self) -> dict[str, Any]:
        """Who answers, as a record keeps it so that it can be gone on with."""
        where = {name: getattr(self, name) for name in WHERE}
        return {**where, "boards": list(self.boards), "scheduler": self.scheduler} if self.boards else where

    def as_before(self, content: Mapping[str, Any]) -> EvalRequest:
        """The same with a record's plan and model; who answers is taken from there, too, unless it is said anew."""
        is_said = bool(self.endpoint or self.on_host or self.board or self.boards)
        where = {} if is_said else {**content["where"], "boards": tuple(content["where"].get("boards", ()))}
        return replace(self, plan=plan_of(content), model=content["model"]["given"], **where)

    @property
    def longest_answer(self) -> int:
        """Tokens for which a server that is started must have room."""
        return max(self.plan.max_tokens, *self.plan.budgets, 1)


@dataclass(frozen=True, kw_only=True)
class EvalOutcome:
    """An evaluation that came to its end."""

    record: Path
    content: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The answer of ``eval.gsm8k --json``: the widest budget's numbers first, all budgets in ``results``."""
        results = self.content["results"]
        widest = results[-1]
        return {
            "record": str(self.record),
            "n": widest["n"],
            "accuracy": widest["accuracy"],
            "truncated": widest["truncated"],
            "no_answer": widest["no_answer"],
            **{key: self.content[key] for key in ("valid", "flags", "results", "prefix", "ended_because")},
            "answers_from": self.content["server"]["answers_from"],
            "emulated": self.content["server"]["emulated"],
            **({"parts": self.content["parts"]} if "parts" in self.content else {}),
        }


def read_budgets(text: str) -> tuple[int, ...]:
    """Budgets such as ``64,128``, ascending and each once. Raises UsageError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdigit() and 0 < int(word) < 1_000_000 for word in words):
        raise UsageError(f"--budgets {text!r} are no numbers of tokens.", remedy="Write them like 64,128,256.")
    return tuple(sorted({int(word) for word in words}))


def plan_of(content: Mapping[str, Any]) -> EvalPlan:
    """The plan that a record was made by."""
    plan, data = content["plan"], content["data"]
    return EvalPlan(
        data=data["file"],
        limit=len(data["ids"]),
        seed=data["seed"],
        prompt=content["prompt"]["name"],
        budgets=tuple(plan["budgets"]),
        max_tokens=plan["max_tokens"],
        told_share=plan["told_share"] or TOLD_SHARE,
        sampling_seed=plan["sampling_seed"],
        concurrency=plan["concurrency"],
        until_width=plan["until_width"],
        anyway=plan["anyway"],
        settings=read_settings(plan.get("settings", {})),
    )
