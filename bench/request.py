"""What a user wants to be measured, and what came of it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.plan import LEAST_ROUNDS, MOST_ROUNDS, Plan, Repetitions, Value, sweep_threads
from toolchains.host_toolchain import ToolchainChoice


@dataclass(frozen=True, kw_only=True)
class Usual:
    """What is measured where nothing else was asked for."""

    n_prompt: int
    n_gen: int
    repetitions: Repetitions


OF_BOARDS = Usual(n_prompt=128, n_gen=32, repetitions=Repetitions(least=LEAST_ROUNDS, most=MOST_ROUNDS, within=0.05))
OF_EMULATED = Usual(n_prompt=16, n_gen=8, repetitions=Repetitions(least=LEAST_ROUNDS, most=LEAST_ROUNDS, within=None))
"""A token takes a second or two there, and no repetition makes its times those of a board."""


@dataclass(frozen=True, kw_only=True)
class BenchRequest:
    """A bench. Empty text and tuples mean "not said"; times in seconds."""

    models: tuple[str, ...]
    """Paths, or names of `native/models/models.yaml`."""
    board: str = ""
    choice: ToolchainChoice = field(default_factory=ToolchainChoice)
    threads: tuple[int, ...] = ()
    """Empty: the best of a sweep up to the board's cores."""
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Further settings, each with the values to measure."""
    n_prompt: int | None = 0
    """None, as in the next two: as usual for such a board."""
    n_gen: int | None = 0
    loops: int = 0
    warm_up: int = 0
    repetitions: Repetitions | None = None
    seed: int
    at_most: float
    start_below: float | None = None
    """Temperature in °C that the board shall have before each run; None: whatever it has."""
    cool_within: float = 600.0
    pin: bool = False
    """Whether the clocks shall be fixed while a program runs."""
    ask: bool = False
    """Whether to ask before much time is spent, where somebody sits at a terminal."""
    resume: Path | None = None
    """The record of a bench that did not come to its end, which this one goes on with."""

    completions: int = 0
    """How many through llama-server count, of each model."""
    anyway: bool = False
    """Whether a model is measured that does not fit into the board's memory."""

    def on(self, *, emulated: bool) -> BenchRequest:
        """The request with what was not said as it is usual for a board."""
        usual = OF_EMULATED if emulated else OF_BOARDS
        return dataclasses.replace(
            self,
            n_prompt=usual.n_prompt if self.n_prompt is None else self.n_prompt,
            n_gen=usual.n_gen if self.n_gen is None else self.n_gen,
            repetitions=self.repetitions or usual.repetitions,
        )

    def plan(self, cores: int, *, emulated: bool) -> Plan:
        """What was asked for, on a board with so many cores. An emulated one computes with those of this computer."""
        assert self.n_prompt is not None and self.n_gen is not None and self.repetitions is not None
        most = min(cores, len(os.sched_getaffinity(0))) if emulated else cores
        return Plan(
            threads=self.threads or sweep_threads(max(most, 1)),
            sweep=not self.threads,
            axes=self.axes,
            n_prompt=self.n_prompt,
            n_gen=self.n_gen,
            loops=self.loops,
            warm_up=self.warm_up,
            repetitions=self.repetitions,
            seed=self.seed,
            at_most=self.at_most,
            start_below=self.start_below,
            cool_within=self.cool_within,
            completions=self.completions,
        )


@dataclass(frozen=True, kw_only=True)
class BenchOutcome:
    """A bench that has come to its end."""

    record: Path
    content: Mapping[str, Any]
    """What its ``record.json`` says."""

    def as_json(self) -> dict[str, Any]:
        """The answer of ``bench.llama --json`` and ``bench.mslite --json``."""
        content = self.content
        completion = content.get("completion") or {}
        return {
            "record": str(self.record),
            "board": content["board"]["serial"],
            "emulated": content["board"]["emulated"],
            "engine": content["engine"],
            "computed_by": content["computed_by"],
            "devices": content["devices"],
            "valid": content["valid"],
            "flags": content["flags"],
            "notes": content["notes"],
            "fit": content["fit"],
            "ended_because": content["ended_because"],
            "metrics": {
                **{f"{result['configuration']}, {result['test']}": result for result in content["results"]},
                **{
                    f"{result['configuration']}, {result['metric']}": result for result in completion.get("results", ())
                },
            },
            "series": str(self.record / content["series"]["file"]),
            "completions": str(self.record / completion["file"]) if completion else None,
        }
