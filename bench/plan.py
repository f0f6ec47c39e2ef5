"""What a bench is to measure: which configurations, how often, in which order, and how long that may take."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from core.errors import UsageError

LEAST_ROUNDS, MOST_ROUNDS = 6, 30
"""When it is the interval that decides; of fewer than six samples it has none."""
MOST_THREADS = 512
SWEEP_TURNS = 2
"""Short runs of each thread count, of which the quicker one counts: nothing makes a run quicker than it is."""
LONGEST_TURN = 120.0
"""Seconds of a turn after which there is no second one: what takes so long is hardly disturbed by anything short."""
Value = int | str


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
    settings: tuple[tuple[str, Value], ...] = ()
    """What was asked for beside the threads, such as ``("depth", 512)``, in the order in which it was."""

    @property
    def name(self) -> str:
        return ", ".join(
            [self.model, human_threads(self.threads), *(f"{name} {value}" for name, value in self.settings)]
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that decides what is measured. Times in seconds."""

    threads: tuple[int, ...]
    sweep: bool = False
    """Whether only the best of `threads` is measured, which a short run of each decides for every model."""
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Further settings, each with the values that are measured."""
    n_prompt: int = 0
    n_gen: int = 0
    loops: int = 0
    warm_up: int = 0
    """With `loops` those of one run of a program that repeats its work by itself."""
    repetitions: Repetitions
    seed: int
    at_most: float
    start_below: float | None = None
    """Temperature in °C that the board has before each run."""
    cool_within: float = 600.0
    completions: int = 0
    """How many through llama-server count, of each model."""

    def configurations(self, model: str, threads: Sequence[int]) -> list[Configuration]:
        """Each of these thread counts with each combination of settings."""
        return [
            Configuration(model=model, threads=count, settings=tuple(zip(self.axes, values, strict=True)))
            for count in threads
            for values in itertools.product(*self.axes.values())
        ]

    def as_json(self) -> dict[str, Any]:
        axes = {name: list(values) for name, values in self.axes.items()}
        return {**asdict(self), "threads": list(self.threads), "axes": axes}


def read_plan(content: Mapping[str, Any]) -> Plan:
    """The plan of a record."""
    return Plan(
        **{
            **content,
            "threads": tuple(content["threads"]),
            "axes": {name: tuple(values) for name, values in content.get("axes", {}).items()},
            "repetitions": Repetitions(**content["repetitions"]),
        }
    )


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


def read_axis(
    flag: str, text: str, *, known: Sequence[str] = (), least: int = 0, most: int = 2**24
) -> tuple[Value, ...]:
    """The values of a setting: words that are `known`, or whole numbers from `least` to `most`. Raises UsageError."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    fits: Callable[[str], object] = (
        known.__contains__ if known else lambda word: re.fullmatch(r"\d{1,9}", word) and least <= int(word) <= most
    )
    if wrong := [word for word in words if not fits(word)]:
        allowed = f"of {', '.join(known)}" if known else f"of numbers from {least} to {most}"
        raise UsageError(f"{flag} {text!r}: {wrong[0]!r} is none {allowed}.", remedy="Put commas between several.")
    return tuple(dict.fromkeys(words if known else map(int, words)))


def sweep_threads(cores: int) -> tuple[int, ...]:
    """Thread counts to try when none are asked for: powers of two, and all cores."""
    powers = [1 << power for power in range(cores.bit_length()) if 1 << power <= cores]
    return tuple(dict.fromkeys([*powers, cores]))


def order_rounds(configurations: Sequence[Configuration], seed: int) -> Iterator[list[Configuration]]:
    """Each round has every configuration once, in an order of its own, so that no drift of the board favours one."""
    chance = random.Random(seed)  # noqa: S311 - the order shall be the same for the same seed, not secret
    while True:
        yield chance.sample(configurations, len(configurations))


def human_threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def human_duration(seconds: float) -> str:
    """A time for people: ``45 s``, ``12 min``, ``2.5 h``."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
