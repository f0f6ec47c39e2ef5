"""``bench.llama``: the speed of prefill and decode of language models, by llama.cpp's own llama-bench."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from bench.measure import measure, would_measure
from bench.plan import Configuration, Plan, Value, read_axis
from bench.request import BenchOutcome, BenchRequest
from bench.series import DECODE, PREFILL, Timing
from core.dry import Would
from core.errors import RunError, UsageError
from core.session import Session
from deploy.launch.server_settings import LOAD_MODES, SHARED_FLAGS
from native.models.llama_memory import KV_TYPES
from native.recipe.runspec import RunSpec

PROBE_PROMPT, PROBE_TOKENS = 8, 2
FLAGS = {"batch": "-b", "ubatch": "-ub", "depth": "-d", "repack": "--repack", **SHARED_FLAGS}
"""The settings by the flags of llama-bench."""


def measure_llama(session: Session, request: BenchRequest) -> BenchOutcome:
    """Measures, records and judges. What was measured before something went wrong stays in the record.

    Raises UsageError, ModelError, TakesTooLong, and what building and running raise.
    """
    return measure(session, request, LlamaBench())


def would_measure_llama(session: Session, request: BenchRequest) -> list[Would]:
    """What `measure_llama` would do; `session` is a dry one. Raises what its looks raise."""
    return would_measure(session, request, LlamaBench())


def read_tokens(flag: str, text: str) -> int | None:
    """A number of tokens; None for empty text. Raises UsageError."""
    values = read_axis(flag, text)
    if len(values) > 1:
        raise UsageError(
            f"{flag} {text!r} is more than one number.", remedy="Lists are for --depth, --batch and --ubatch."
        )
    return int(values[0]) if values else None


def check_tokens(n_prompt: int | None, n_gen: int | None) -> None:
    """Raises UsageError for counts with which nothing is measured; what is None is more than nothing."""
    if n_prompt == 0 == n_gen:
        raise UsageError(
            f"--prompt {n_prompt} and --generate {n_gen} leave nothing to measure.",
            remedy="Both are counts of tokens; 0 leaves one of them away.",
        )


def read_axes(
    *,
    batch: str = "",
    ubatch: str = "",
    depth: str = "",
    cache_k: str = "",
    cache_v: str = "",
    repack: str = "",
    load_mode: str = "",
) -> dict[str, tuple[Value, ...]]:
    """The settings whose flags were given, each with its values. Raises UsageError."""
    found = {
        "batch": read_axis("--batch", batch, least=1),
        "ubatch": read_axis("--ubatch", ubatch, least=1),
        "depth": read_axis("--depth", depth),
        "cache-k": read_axis("--cache-k", cache_k, known=KV_TYPES),
        "cache-v": read_axis("--cache-v", cache_v, known=KV_TYPES),
        "repack": read_axis("--repack", repack, known=("on", "off")),
        "load-mode": read_axis("--load-mode", load_mode, known=LOAD_MODES),
    }
    return {name: values for name, values in found.items() if values}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LlamaBench:
    """``llama-bench -r 1``: random token ids, neither sampling nor text nor the loading of the model."""

    name: str = "llama"
    product: str = "llama/llama-bench"
    kind: str = "gguf"

    def spec(self) -> RunSpec | None:
        return None

    def tests(self, plan: Plan) -> tuple[str, ...]:
        return tuple(name for name, tokens in ((PREFILL, plan.n_prompt), (DECODE, plan.n_gen)) if tokens)

    def words(self, file: str, configuration: Configuration, plan: Plan) -> Sequence[str]:
        counts = ("-t", str(configuration.threads), "-p", str(plan.n_prompt), "-n", str(plan.n_gen))
        settings = (word for name, value in configuration.settings for word in _words_of(name, value))
        return ("-m", file, *counts, *settings, "-r", "1", "-o", "jsonl")

    def shorten(self, plan: Plan) -> Plan:
        """A few tokens at the begin of the context; those of a prompt also where only a depth asks for them."""
        axes = {name: values for name, values in plan.axes.items() if name != "depth"}
        prompt = max(plan.n_prompt, *_depths(plan))
        return dataclasses.replace(
            plan, axes=axes, n_prompt=min(prompt, PROBE_PROMPT), n_gen=min(plan.n_gen, PROBE_TOKENS)
        )

    def read(self, text: str) -> list[Timing]:
        return read_timings(text)

    def computing(self, configuration: Configuration, plan: Plan, timings: Sequence[Timing]) -> float:
        """It evaluates the prompt twice, and one token more than asked for, since it warms up; and the depth for each test."""
        per_token = {timing.test: timing.seconds / timing.tokens for timing in timings if timing.tokens}
        depth = dict(configuration.settings).get("depth", 0)
        prompt = 2 * plan.n_prompt + int(depth) * len(self.tests(plan))
        decode = plan.n_gen + 1 if plan.n_gen else 0
        return prompt * per_token.get(PREFILL, 0.0) + decode * per_token.get(DECODE, 0.0)


def read_timings(text: str) -> list[Timing]:
    """The tests in the output of ``llama-bench -r 1 -o jsonl``, one JSON object a line among other lines.

    Keys are those of ``tools/llama-bench/llama-bench.cpp``; unknown ones are left alone, for they change between
    versions. Raises RunError when a line cannot be understood, or there is none.
    """
    lines = [line for line in text.splitlines() if line.startswith("{")]
    try:
        timings = [_read_timing(json.loads(line)) for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"llama-bench printed something that cannot be understood: {error!r}.") from error
    if not timings:
        raise RunError("llama-bench ended well, but printed no measurement.")
    return timings


def _words_of(name: str, value: Value) -> tuple[str, str]:
    return FLAGS[name], {"on": "1", "off": "0"}.get(str(value), str(value))


def _depths(plan: Plan) -> list[int]:
    return [int(depth) for depth in plan.axes.get("depth", (0,))]


def _read_timing(said: dict[str, Any]) -> Timing:
    prompt, generated = int(said["n_prompt"]), int(said["n_gen"])
    (nanoseconds,) = said["samples_ns"]
    if (prompt > 0) == (generated > 0) or nanoseconds <= 0:
        raise ValueError(f"{prompt} prompt tokens and {generated} generated ones in {nanoseconds} ns")
    return Timing(test=PREFILL if prompt else DECODE, tokens=prompt or generated, seconds=nanoseconds / 1e9)
