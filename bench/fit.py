"""Whether a model fits a board, before a byte of it is sent: memory, the largest context, and seconds for a token."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from native.formats.gguf import GgufInfo
from native.models.llama_memory import CONTEXT_STEP, LlamaSettings, MemoryNeed, find_doubts, find_need, pad

FITS, STORAGE_BOUND, TOO_LARGE = "fits", "storage-bound", "does not fit"
SPARE = 0.1
"""Part of the available memory that is left to the rest of the system."""
LARGEST_CONTEXT = 131_072
"""Tokens, for a model that does not say how many it was trained with."""
SMALL_UBATCH = 64
BITS_PER_WEIGHT = {
    "Q8_0": 8.50,
    "Q6_K": 6.56,
    "Q5_K_M": 5.70,
    "Q4_K_M": 4.89,
    "Q4_0": 4.64,
    "Q3_K_M": 4.00,
    "Q2_K": 3.16,
}
"""As llama-quantize makes them of a Llama 3.1 8B; smaller models and large vocabularies take somewhat more."""


@dataclass(frozen=True, kw_only=True)
class BoardLimits:
    """What a board gives: bytes of memory that are available, and bytes a second. 0: not known."""

    available: int
    memory_rate: float
    """Of reading from memory."""
    storage_rate: float
    """Of reading a file from the board's storage, from begin to end."""
    total: int = 0
    """Memory in all."""
    measured: Mapping[str, Any] | None = None
    """How the rates were measured on the board; None when they are those of its profile."""

    @property
    def usable(self) -> int:
        return int(self.available * (1 - SPARE))

    def as_json(self) -> dict[str, Any]:
        """What is not known is null."""
        rates = {"memory": self.memory_rate or None, "storage": self.storage_rate or None, "measured": self.measured}
        return {"available": self.available, "usable": self.usable, "total": self.total or None, "rates": rates}


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How a model fits with certain settings."""

    settings: LlamaSettings
    need: MemoryNeed
    verdict: str
    seconds_per_token: float | None
    """A forecast of the time to go on by one token; None where the board's rates are not known, or it does not fit."""
    bound_by: str
    """``memory`` or ``storage``; empty where it does not fit."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Something that could be done: other settings, or another quantisation."""

    title: str
    fit: Fit
    largest_context: int | None = None
    """None for another quantisation, of which everything is an estimate."""


def judge(info: GgufInfo, limits: BoardLimits, settings: LlamaSettings) -> Fit:
    """The verdict with just these settings."""
    return _judge_need(find_need(info, settings), limits, settings)


def judge_best(info: GgufInfo, limits: BoardLimits, settings: LlamaSettings) -> Fit:
    """As `judge`, but without rearranged copies of weights where they are what does not fit."""
    fit = judge(info, limits, settings)
    if fit.verdict == FITS or not fit.need.repack:
        return fit
    return judge(info, limits, dataclasses.replace(settings, rearranged=""))


def find_largest_context(info: GgufInfo, limits: BoardLimits, settings: LlamaSettings) -> int:
    """Tokens of the largest context that has the verdict of the smallest one; 0 when even that does not fit."""
    wanted = judge_best(info, limits, dataclasses.replace(settings, context=CONTEXT_STEP)).verdict
    if wanted == TOO_LARGE:
        return 0
    low, high = 1, pad(info.context_length or LARGEST_CONTEXT) // CONTEXT_STEP
    while low < high:
        middle = (low + high + 1) // 2
        with_middle = dataclasses.replace(settings, context=middle * CONTEXT_STEP)
        if judge_best(info, limits, with_middle).verdict == wanted:
            low = middle
        else:
            high = middle - 1
    return low * CONTEXT_STEP


def find_choices(info: GgufInfo, limits: BoardLimits, settings: LlamaSettings) -> list[Choice]:
    """What would help, by what is changed."""
    return [
        Choice(
            title=title,
            fit=judge(info, limits, changed),
            largest_context=find_largest_context(info, limits, changed),
        )
        for title, changed in _changes(settings)
    ]


def find_quantisations(info: GgufInfo, limits: BoardLimits, settings: LlamaSettings) -> list[Choice]:
    """The same model in other quantisations: estimates from the usual bits per weight, without rearranged copies."""
    plain = dataclasses.replace(settings, rearranged="")
    found = []
    for name, bits in BITS_PER_WEIGHT.items():
        share = info.parameters * bits / 8 / info.weight_bytes if info.weight_bytes else 0.0
        sized = _resized(find_need(info, plain), share)
        found.append(Choice(title=name, fit=_judge_need(sized, limits, plain)))
    return found


def as_json(info: GgufInfo, limits: BoardLimits, fit: Fit, asked: LlamaSettings) -> dict[str, Any]:
    """The answer of ``model.fit --json``."""
    return {
        **foreseen_json(fit),
        **limits.as_json(),
        "largest_context": find_largest_context(info, limits, asked),
        "choices": [_choice_json(choice) for choice in find_choices(info, limits, asked)],
        "quantisations": [_choice_json(choice) for choice in find_quantisations(info, limits, asked)],
        "notes": find_doubts(info),
    }


def foreseen_json(fit: Fit) -> dict[str, Any]:
    """The verdict with its numbers; with the settings, for which it is."""
    return {**_fit_json(fit), "bytes": dataclasses.asdict(fit.need)}


def flags_of(settings: LlamaSettings) -> list[str]:
    """The words with which llama.cpp's programs are told the settings."""
    kv = ["-ctk", settings.kv_type, "-ctv", settings.kv_type] if settings.kv_type != "f16" else []
    return ["-c", str(settings.context), "-ub", str(settings.ubatch), *kv, *_no_repack(settings)]


def _no_repack(settings: LlamaSettings) -> list[str]:
    return [] if settings.rearranged else ["--no-repack"]


def _judge_need(need: MemoryNeed, limits: BoardLimits, settings: LlamaSettings) -> Fit:
    if need.held > limits.usable:
        return Fit(settings=settings, need=need, verdict=TOO_LARGE, seconds_per_token=None, bound_by="")
    fits = need.total <= limits.usable
    rate = limits.memory_rate if fits else limits.storage_rate
    return Fit(
        settings=settings,
        need=need,
        verdict=FITS if fits else STORAGE_BOUND,
        seconds_per_token=need.read_per_token / rate if rate else None,
        bound_by="memory" if fits else "storage",
    )


def _changes(settings: LlamaSettings) -> Iterator[tuple[str, LlamaSettings]]:
    small = min(SMALL_UBATCH, settings.ubatch)
    yield "as asked", settings
    if settings.ubatch > small:
        yield f"ubatch {small}", dataclasses.replace(settings, ubatch=small)
    if settings.rearranged:
        yield "--no-repack", dataclasses.replace(settings, rearranged="")
    if settings.kv_type in ("f16", "f32", "bf16"):
        yield "KV q8_0", dataclasses.replace(settings, kv_type="q8_0")
    yield "all of these", dataclasses.replace(settings, ubatch=small, rearranged="", kv_type="q8_0")


def _resized(need: MemoryNeed, share: float) -> MemoryNeed:
    weights, read = round(need.weights * share), round(need.read_per_token * share)
    return dataclasses.replace(need, weights=weights, read_per_token=read)


def _fit_json(fit: Fit) -> dict[str, Any]:
    return {
        "verdict": fit.verdict,
        "seconds_per_token": fit.seconds_per_token,
        "bound_by": fit.bound_by,
        "context": fit.settings.context,
        "ubatch": fit.settings.ubatch,
        "kv_type": fit.settings.kv_type,
        "repack": bool(fit.settings.rearranged),
    }


def _choice_json(choice: Choice) -> dict[str, Any]:
    return {
        "title": choice.title,
        **_fit_json(choice.fit),
        "held": choice.fit.need.held,
        "total": choice.fit.need.total,
        "largest_context": choice.largest_context,
    }
