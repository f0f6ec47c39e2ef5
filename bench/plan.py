"""What a bench is to measure: which configurations, how often, in which order, and how long that may take."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.series import DECODE, PREFILL, Timing
from core.errors import UsageError

LEAST_ROUNDS, MOST_ROUNDS = 6, 30
"""When it is the interval that decides; of fewer than six samples it has none."""
MOST_THREADS = 512
PROBE_PROMPT, PROBE_TOKENS = 8, 2


@dataclass(frozen=True, kw_only=True)
class Repetitions:
    """How many samples are taken: from `least` to `most`, until half of each median's interval is within `within`."""

    least: int
    most: int
    within: float | None
    """As a share of the median; None: `most` in any case."""

    def __str__(self) -> str:
        return str(self.most) if self.within is None else f"until ±{self.within:.1%} ({self.least} to {self.most})"


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One of the things that are measured in turn."""

    model: str
    threads: int

    @property
    def name(self) -> str:
        return f"{self.model}, {self.threads} thread{'s' if self.threads > 1 else ''}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that decides what is measured. Times in seconds."""

    threads: tuple[int, ...]
    n_prompt: int
    n_gen: int
    repetitions: Repetitions
    seed: int
    at_most: float
    completions: int = 0
    """How many through llama-server count, of each model."""

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(name for name, tokens in ((PREFILL, self.n_prompt), (DECODE, self.n_gen)) if tokens)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "threads": list(self.threads)}


def read_repetitions(text: str) -> Repetitions:
    """Understands ``10`` and ``5%``. Raises UsageError."""
    if re.fullmatch(r"[1-9]\d{0,3}", text):
        return Repetitions(least=int(text), most=int(text), within=None)
    if (share := re.fullmatch(r"(\d{1,2}(?:\.\d+)?)%", text)) and float(share[1]) > 0:
        return Repetitions(least=LEAST_ROUNDS, most=MOST_ROUNDS, within=float(share[1]) / 100)
    raise UsageError(
        f"--repetitions {text!r} is neither a number nor a share.",
        remedy="Write 10 for ten of each, or 5% for as many as it takes until the median is known within 5 %.",
    )


def read_threads(text: str) -> tuple[int, ...]:
    """Understands ``1,2,4``; empty for empty text. Raises UsageError."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(re.fullmatch(r"\d{1,4}", word) and 1 <= int(word) <= MOST_THREADS for word in words):
        raise UsageError(f"--threads {text!r} is no list of thread counts.", remedy="Write it like 1,2,4.")
    return tuple(dict.fromkeys(map(int, words)))


def check_tokens(n_prompt: int, n_gen: int) -> None:
    """Raises UsageError for counts with which nothing is measured."""
    if n_prompt < 0 or n_gen < 0 or n_prompt + n_gen == 0:
        raise UsageError(
            f"--prompt {n_prompt} and --generate {n_gen} leave nothing to measure.",
            remedy="Both are counts of tokens; 0 leaves one of them away.",
        )


def sweep_threads(cores: int) -> tuple[int, ...]:
    """Thread counts to try when none are asked for: powers of two, and all cores."""
    powers = [1 << power for power in range(cores.bit_length()) if 1 << power <= cores]
    return tuple(dict.fromkeys([*powers, cores]))


def order_rounds(configurations: Sequence[Configuration], seed: int) -> Iterator[list[Configuration]]:
    """Each round has every configuration once, in an order of its own, so that no drift of the board favours one."""
    chance = random.Random(seed)  # noqa: S311 - the order shall be the same for the same seed, not secret
    while True:
        yield chance.sample(configurations, len(configurations))


def bench_words(model: str, threads: int, n_prompt: int, n_gen: int) -> tuple[str, ...]:
    """The arguments of llama-bench for one repetition, before which it warms up by itself."""
    return ("-m", model, "-t", str(threads), "-p", str(n_prompt), "-n", str(n_gen), "-r", "1", "-o", "jsonl")


def forecast_run(plan: Plan, probe: Sequence[Timing], seconds: float) -> float:
    """Seconds that one repetition will take, by a short one that took `seconds` in all.

    llama-bench evaluates the prompt twice, and one token more than asked for, since it warms up; the rest of a
    run (start, loading) is as long as in the probe.
    """
    per_token = {timing.test: timing.seconds / timing.tokens for timing in probe}

    def computing(n_prompt: int, n_gen: int) -> float:
        prefill = 2 * n_prompt * per_token.get(PREFILL, 0.0)
        return prefill + ((n_gen + 1) * per_token.get(DECODE, 0.0) if n_gen else 0.0)

    rest = max(0.0, seconds - computing(*probe_tokens(plan)))
    return rest + computing(plan.n_prompt, plan.n_gen)


def probe_tokens(plan: Plan) -> tuple[int, int]:
    """Prompt and generated tokens of the probe: a few of what is to be measured."""
    return min(plan.n_prompt, PROBE_PROMPT), min(plan.n_gen, PROBE_TOKENS)
