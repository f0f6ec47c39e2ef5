"""Whether the run that was made ready fits its board, said in one line before anything is built or sent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.fit import FITS, STORAGE_BOUND, TOO_LARGE, BoardLimits, Fit, foreseen_json, judge, judge_best
from bench.fit_board import OF_PROFILE, REARRANGING, describe_rate, find_limits, most_demanding
from bench.request import BenchRequest
from core.errors import NotEnoughMemory
from core.files import human_bytes
from core.session import Session
from deploy.board.protocol import Board
from deploy.launch.launch import Launch
from native.formats.gguf import GgufInfo
from native.models.gguf_model import read_gguf_model, require_runnable
from native.models.llama_memory import KV_TYPES, LlamaSettings

if TYPE_CHECKING:
    from native.models.models import Model

ANYWAY = "With the setting ohforge.require_memory false it is run all the same."
NO_REPACK = frozenset({"--no-repack", "-nr"})
WORDS = {
    "context": ("-c", "--ctx-size"),
    "ubatch": ("-ub", "--ubatch-size"),
    "kv_type": ("-ctk", "--cache-type-k"),
}
"""How llama.cpp's programs are told what matters here; of several the last counts."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is to be expected of a model on a board with the settings of a run."""

    info: GgufInfo
    board: Board
    limits: BoardLimits
    fit: Fit

    @property
    def sentence(self) -> str:
        """The verdict with its numbers."""
        fit, need, limits = self.fit, self.fit.need, self.limits
        if fit.verdict == TOO_LARGE:
            return (
                f"{fit.verdict}: {human_bytes(need.held)} must stay in memory (keys and values {human_bytes(need.kv)}, "
                f"computing {human_bytes(need.compute + need.output)}, copies of weights {human_bytes(need.repack)}), but of the "
                f"{human_bytes(limits.available)} that are available {human_bytes(limits.usable)} are counted on"
            )
        forecast = ""
        if fit.seconds_per_token is not None:
            rate = describe_rate(limits, fit.bound_by)
            # Those of the profile are the real board's, whose times an emulated one does not have.
            where = " of a real one" if self.board.emulated and rate.endswith(OF_PROFILE) else ""
            forecast = f"; at least {fit.seconds_per_token:.3g} s for a token{where}, by {rate}"
        if fit.verdict == STORAGE_BOUND:
            return (
                f"{fit.verdict}: it needs {human_bytes(need.total)}, but of the {human_bytes(limits.available)} that are available "
                f"{human_bytes(limits.usable)} are counted on, so every token reads {human_bytes(need.read_per_token)} from "
                f"storage again{forecast}"
            )
        return f"{fit.verdict}: it needs {human_bytes(need.total)} of {human_bytes(limits.available)} that are available{forecast}"

    def remedy(self, flags: str) -> str:
        """What would make it fit, where `flags` keep weights in the order that they have."""
        better = judge_best(self.info, self.limits, self.fit.settings)
        helps = better.verdict != self.fit.verdict and not better.settings.rearranged
        return f"{f'Add `{flags}`. ' if helps else ''}`ohforge model.fit MODEL` says what else would help."

    def as_json(self) -> dict[str, Any]:
        fit = self.fit
        return {
            "verdict": fit.verdict,
            "needed": fit.need.total,
            "held": fit.need.held,
            "available": self.limits.available,
            "usable": self.limits.usable,
            "seconds_per_token": fit.seconds_per_token,
            "bound_by": fit.bound_by,
        }


def tell_verdict(session: Session, launch: Launch) -> dict[str, Any]:
    """Says the verdict on a run of a language model, with what its command line tells; empty for other runs.

    Raises NotEnoughMemory as `say_verdict`.
    """
    model = launch.run.model
    if model is None or model.kind != "gguf" or launch.build is None:
        return {}
    settings = read_settings(launch.run.arguments, _rearranged(launch))
    verdict = judge_model(launch.board, find_limits(session, launch.board), model.path, settings)
    say_verdict(session, verdict, flags="-- --no-repack", anyway=ANYWAY)
    return verdict.as_json()


def foresee(session: Session, launch: Launch, models: Sequence[Model], request: BenchRequest) -> dict[str, Any] | None:
    """Says the verdict on each language model of a bench; returns what its record keeps of that, None where it has none.

    Raises NotEnoughMemory as `say_verdict`.
    """
    if not any(model.kind == "gguf" for model in models):
        return None
    limits, settings = find_limits(session, launch.board), most_demanding(request, _rearranged(launch))
    foreseen = []
    for model in models:
        verdict = judge_model(launch.board, limits, model.path, settings)
        say_verdict(session, verdict, flags="--repack off", anyway="With --anyway it is measured all the same.")
        rate = describe_rate(limits, verdict.fit.bound_by) if verdict.fit.seconds_per_token is not None else ""
        foreseen.append({"model": model.name, **foreseen_json(verdict.fit), "rate": rate})
    return {**limits.as_json(), "models": foreseen}


def judge_model(board: Board, limits: BoardLimits, path: Path, settings: LlamaSettings) -> Verdict:
    """The verdict with these settings. Raises ModelError for what is no model."""
    info = read_gguf_model(path).info
    require_runnable(path, info)
    return Verdict(info=info, board=board, limits=limits, fit=judge(info, limits, settings))


def _rearranged(launch: Launch) -> str:
    """How llama.cpp rearranges weights in the build that is run (`LlamaSettings`)."""
    return REARRANGING.get(launch.build.plan.toolchain.cpu, "") if launch.build is not None else ""


def say_verdict(session: Session, verdict: Verdict, *, flags: str, anyway: str) -> None:
    """One line; `flags` keep weights as they are, `anyway` says how to go on in spite of it. Raises NotEnoughMemory, unless ``ohforge.require_memory`` is off, for a model that does not fit, and for
    one that is larger than the whole memory, of which nothing would ever stay there from one token to the next.
    """
    fit, limits = verdict.fit, verdict.limits
    if fit.verdict == FITS:
        session.console.info(verdict.sentence)
    elif session.settings.require_memory and (fit.verdict == TOO_LARGE or 0 < limits.total < fit.need.weights):
        in_all = f" The board has {human_bytes(limits.total)} of memory in all." if limits.total else ""
        raise NotEnoughMemory(
            f"On board {verdict.board.serial} the model {verdict.sentence}.{in_all}",
            remedy=f"{verdict.remedy(flags)} {anyway}",
            needed_bytes=fit.need.held if fit.verdict == TOO_LARGE else fit.need.weights,
            memory_bytes=limits.total,
        )
    else:
        session.console.warn(verdict.sentence)


def read_settings(words: Sequence[str], rearranged: str) -> LlamaSettings:
    """What the command line of llama-completion says of memory; what it leaves open, or what is no number, is llama.cpp's."""
    told = dict(itertools.pairwise(words))
    texts = {name: next((told[word] for word in spelled if word in told), "") for name, spelled in WORDS.items()}
    default = LlamaSettings()
    return LlamaSettings(
        context=_number(texts["context"], default.context),
        ubatch=_number(texts["ubatch"], default.ubatch),
        kv_type=texts["kv_type"] if texts["kv_type"] in KV_TYPES else default.kv_type,
        rearranged="" if NO_REPACK & set(words) else rearranged,
    )


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and int(text) else default
