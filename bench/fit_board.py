"""``model.fit``: the board and the model that are meant, what the board has, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.fit import BoardLimits, as_json, flags_of, judge_best
from bench.request import BenchRequest
from core.errors import ModelError, UsageError
from core.files import human_bytes
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.survey import Question, survey_board
from deploy.hdc.choose import choose_board
from deploy.launch.build_choice import choose_arch, choose_cpu
from deploy.run.rates import Rates, find_rates
from native.models.gguf_model import read_gguf_model, require_runnable
from native.models.inspect import model_kind
from native.models.llama_memory import KV_TYPES, LlamaSettings
from native.models.models import locate_model
from toolchains.arch import Arch
from toolchains.host_toolchain import ToolchainChoice
from toolchains.toolchain import select_toolchain
from toolchains.tuning import find_tuning

PROGRAM = "llama"
REARRANGING = {"cortex-a55": "dotprod", "cortex-a76": "dotprod", "x86-64-v3": "avx2"}
"""CPU tunings with instructions for which llama.cpp copies weights into another order, and how it does."""

OF_PROFILE = "of the board's profile"
BITS_OF_SHORT_ADDRESSES = 32
ADDRESSES = 3 << 30
"""Bytes that a 32-bit program can have mapped, in the kernel's best case."""


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What a user asked for."""

    model: str
    board: str = ""
    choice: ToolchainChoice = field(default_factory=ToolchainChoice)
    context: int = 512
    ubatch: int = 512
    kv_type: str = "f16"
    repack: bool = True


def fit_on_board(session: Session, request: FitRequest) -> dict[str, Any]:
    """The answer, ready for JSON. Nothing is sent; a model that is named is fetched to this computer.

    Raises UsageError for settings that cannot be, ModelError for a file that is no language model, and what the choice
    of board, arch and tuning raises.
    """
    _check(request)
    path = locate_model(session, request.model)
    if model_kind(path) != "gguf":
        raise ModelError(
            f"{path} is no GGUF model; what a .ms model takes is not worked out here.",
            remedy="`ohforge model.inspect` tells the size of its weights and of what it computes.",
        )
    model = read_gguf_model(path)
    require_runnable(path, model.info)
    board = choose_board(session, request.board)
    arch, rearranged = choose_rearranging(session, board, request.choice)
    asked = LlamaSettings(
        context=request.context,
        ubatch=request.ubatch,
        kv_type=request.kv_type,
        rearranged=rearranged if request.repack else "",
    )
    limits = find_limits(session, board)
    fit = judge_best(model.info, limits, asked)
    answer = as_json(model.info, limits, fit, asked)
    if arch.elf_bits == BITS_OF_SHORT_ADDRESSES and fit.need.total > ADDRESSES:
        answer["notes"].append(
            f"A 32-bit program has addresses for {human_bytes(ADDRESSES)} or less: take --arch arm64 where the board runs it."
        )
    return {
        "model": str(path),
        "file_type": model.info.file_type,
        "board": board.serial,
        "emulated": board.profile.emulated,
        **answer,
        "rate": describe_rate(limits, fit.bound_by) if fit.seconds_per_token is not None else "",
        "flags": flags_of(fit.settings),
    }


def choose_rearranging(session: Session, board: Board, choice: ToolchainChoice) -> tuple[Arch, str]:
    """The arch that would be built for, and how llama.cpp rearranges weights there (`LlamaSettings`)."""
    arch = choose_arch(session, board, choice, select_toolchain(session, choice))
    tuning = find_tuning(choose_cpu(session, board, arch, choice.cpu, PROGRAM), arch)
    return arch, REARRANGING.get(tuning.name, "")


def find_limits(session: Session, board: Board) -> BoardLimits:
    """What the board has available at this moment, and its rates: as measured there, else those of its profile."""
    survey = survey_board(session, board, Question(facts=False))
    profile = board.profile
    rates = find_rates(session, board, machine=survey.machine, kernel=survey.kernel)
    return BoardLimits(
        available=survey.available_bytes or profile.memory_bytes,
        memory_rate=(rates.memory if rates else None) or profile.memory_rate,
        storage_rate=(rates.storage if rates else None) or profile.storage_rate,
        total=survey.memory_bytes,
        measured=_how_measured(rates) if rates else None,
    )


def _how_measured(rates: Rates) -> dict[str, Any]:
    which = [name for name in ("memory", "storage") if getattr(rates, name) is not None]
    return {"which": which, "at": rates.measured, "emulated": rates.emulated}


def _check(request: FitRequest) -> None:
    for name, value in (("context", request.context), ("ubatch", request.ubatch)):
        if value < 1:
            raise UsageError(f"--{name} {value} cannot be; it is a number of tokens.")
    if request.kv_type not in KV_TYPES:
        raise UsageError(f"--kv-type {request.kv_type!r} is none of {', '.join(KV_TYPES)}.")


def describe_rate(limits: BoardLimits, bound_by: str) -> str:
    """The rate of a forecast that is bound by ``memory`` or ``storage``, and how it is known."""
    rate = limits.memory_rate if bound_by == "memory" else limits.storage_rate
    measured = limits.measured
    if measured is None or bound_by not in measured["which"]:
        return f"{rate / 1e6:.4g} MB/s {OF_PROFILE}"
    where = "on the EMULATED board" if measured["emulated"] else "on the board"
    return f"{rate / 1e6:.4g} MB/s as measured {where} on {measured['at'][:10]}"


def most_demanding(asked: BenchRequest, rearranged: str) -> LlamaSettings:
    """Of all combinations that a bench measures the one that takes most memory."""
    default, axes = LlamaSettings(), asked.axes
    types = [str(value) for name in ("cache-k", "cache-v") for value in axes.get(name, (default.kv_type,))]
    prompt, generated = asked.n_prompt or 0, asked.n_gen or 0
    tokens = prompt + generated if asked.completions else max(prompt, generated, 1)
    return LlamaSettings(
        context=max(int(depth) for depth in axes.get("depth", (0,))) + tokens,
        ubatch=max(int(ubatch) for ubatch in axes.get("ubatch", (default.ubatch,))),
        kv_type=min(types, key=KV_TYPES.index),
        rearranged=rearranged if "on" in axes.get("repack", ("on",)) else "",
    )
