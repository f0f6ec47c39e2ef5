"""How a program, and the run that it was part of, ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.agent.frames import AgentReport, StartFailure
from deploy.run.faultlog import CrashLog
from deploy.run.record import RunRecord

if TYPE_CHECKING:
    from native.recipe.device_use import DeviceUse
    from native.recipe.exit_status import Explanation


@dataclass(frozen=True, kw_only=True)
class ProgramResult:
    """How a program ended. `exit_code` as a shell gives it: 128 + n for signal n."""

    exit_code: int
    signal: str
    """Name of the signal that ended it; empty for none. A shell cannot tell it from a program's own status of 128 + n."""
    seconds: float
    output: bytes
    """The end of what it printed, in the order of arrival."""
    text: str
    """The same for patterns: one stream after the other where they came apart."""
    failure: StartFailure | None = None
    """Why the agent could not start it."""
    report: AgentReport | None = None
    """What the agent says of it."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What is known beside the program's output and status."""

    explanation: Explanation | None = None
    """None when the program ended with status 0, or with one that only it knows the meaning of."""
    device: DeviceUse | None = None
    log: dict[str, Any] | None = None
    crash_logs: tuple[CrashLog, ...] = ()

    def as_json(self, record: RunRecord) -> dict[str, Any]:
        """The part of the record."""
        return {
            "device": self.device.as_json() if self.device is not None else None,
            "log": self.log,
            "crash_logs": [log.as_json(record.folder) for log in self.crash_logs],
        }

    def for_script(self, record: Path) -> dict[str, Any]:
        """The part of the answer of ``board.run --json``."""
        why = self.explanation
        return {
            "explanation": {"sentence": why.sentence, "remedy": why.remedy} if why is not None else None,
            "device": self.device.as_json() if self.device is not None else None,
            "log": str(record / self.log["file"]) if self.log is not None else None,
            "crash_logs": [str(log.path) for log in self.crash_logs],
        }


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a run ended, and where its record lies."""

    record: Path
    program: str
    board: str
    emulated: bool
    engine: str
    exit_code: int
    metrics: dict[str, dict[str, Any]]
    facts: dict[str, str]
    """Texts that the recipe's patterns find in the output, such as the ``text`` that a language model wrote."""
    outputs: list[Path]
    output: bytes
    """What the program printed, its end when it was very much."""
    complete: bool
    run_engine: str
    usage: dict[str, Any] | None
    """What the program used by the board's kernel; None when nobody counted."""
    seconds: float
    """From the start of the command to its end, the link included."""
    pin: dict[str, Any] | None = None
    """What became of clocks that were to be fixed meanwhile."""
    diagnosis: Diagnosis = field(default_factory=Diagnosis)

    def as_json(self) -> dict[str, Any]:
        return {
            "record": str(self.record),
            "program": self.program,
            "board": self.board,
            "emulated": self.emulated,
            "engine": self.engine,
            "exit_code": self.exit_code,
            "metrics": self.metrics,
            "facts": self.facts,
            "outputs": [str(path) for path in self.outputs],
            "complete": self.complete,
            "run_engine": self.run_engine,
            "usage": self.usage,
            **self.diagnosis.for_script(self.record),
        }
