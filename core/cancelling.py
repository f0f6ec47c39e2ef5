"""Running programs that another thread can call off."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.deadline import Deadline
from core.process import OnOutput, Result, Runner


class CancellableRunner:
    """A runner (see `core.process.Runner`) whose programs all end soon after `cancel`: for them the time is over then."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._called_off = threading.Event()

    def cancel(self) -> None:
        """Ends what runs, and what is begun later. May be called by any thread."""
        self._called_off.set()

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        deadline: Deadline,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        stdin: bytes | None = None,
    ) -> Result:
        """See `Runner.run`; DeadlineExpired is raised as well when it was called off."""
        return self._runner.run(
            argv,
            deadline=_UnlessCalledOff.of(deadline, self._called_off),
            cwd=cwd,
            env=env,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            stdin=stdin,
        )


@dataclass(frozen=True, kw_only=True)
class _UnlessCalledOff(Deadline):
    whole: Deadline
    off: threading.Event

    @classmethod
    def of(cls, whole: Deadline, off: threading.Event) -> _UnlessCalledOff:
        return cls(at=whole.at, seconds=whole.seconds, waits_for=whole.waits_for, whole=whole, off=off)

    @property
    def remaining(self) -> float:
        return 0.0 if self.off.is_set() else self.whole.remaining
