"""What a user wants to be measured, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.plan import Repetitions
from toolchains.host_toolchain import ToolchainChoice


@dataclass(frozen=True, kw_only=True)
class BenchRequest:
    """A bench by llama-bench. Empty text and tuples mean "not said"; times in seconds."""

    models: tuple[str, ...]
    """Paths, or names of `native/models/models.yaml`."""
    board: str = ""
    choice: ToolchainChoice = field(default_factory=ToolchainChoice)
    threads: tuple[int, ...] = ()
    """Empty: a sweep up to the board's cores."""
    n_prompt: int
    n_gen: int
    repetitions: Repetitions
    seed: int
    at_most: float
    completions: int = 0
    """How many through llama-server count, of each model."""


@dataclass(frozen=True, kw_only=True)
class BenchOutcome:
    """A bench that has come to its end."""

    record: Path
    content: Mapping[str, Any]
    """What its ``record.json`` says."""

    def as_json(self) -> dict[str, Any]:
        """The answer of ``bench.llama --json``."""
        content = self.content
        completion = content.get("completion") or {}
        return {
            "record": str(self.record),
            "board": content["board"]["serial"],
            "emulated": content["board"]["emulated"],
            "engine": content["engine"],
            "valid": content["valid"],
            "flags": content["flags"],
            "notes": content["notes"],
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
