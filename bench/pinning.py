"""Clocks that are fixed while a program of a bench runs: the agent on the board does it, undoes it, and reads back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.errors import AgentUnavailable, ConditionsNotMet
from deploy.run.result import RunOutcome

if TYPE_CHECKING:
    from bench.record import BenchRecord


class Pinning:
    """What came of it in a bench; `lost` are sentences about clocks that did not stay as they were set."""

    def __init__(self, record: BenchRecord, *, asked: bool) -> None:
        self._record = record
        self._wanted = asked
        self.held = False
        self.notes: list[str] = []
        self.lost: list[str] = []
        record.save(pin={"asked": asked, "held": False, "why": "" if asked else "not asked for", "policies": []})

    def run(self, execute: Callable[[bool], RunOutcome]) -> RunOutcome:
        """`execute` gets whether to pin. Where that cannot be had the first time, it is said, and done without."""
        if not self._wanted:
            return execute(False)
        try:
            outcome = execute(True)
        except (AgentUnavailable, ConditionsNotMet) as refused:
            if self.held:
                raise
            self._wanted = False
            self._say(f"the clocks could not be pinned: {refused.message}")
            self._record.save(pin={**self._record.content["pin"], "why": refused.message})
            return execute(False)
        self._look_at(outcome)
        return outcome

    def _look_at(self, outcome: RunOutcome) -> None:
        pin = outcome.pin or {"policies": [], "lost": [], "left": []}
        if not self.held:
            self.held = True
            self._record.save(pin={"asked": True, "held": True, "why": "", "policies": pin["policies"]})
        self.lost += [f"{entry} did not stay as it was pinned" for entry in pin["lost"]]
        for entry in pin["left"]:
            self._say(f"THE BOARD IS NOT AS IT WAS: {entry} could not be set back")

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
