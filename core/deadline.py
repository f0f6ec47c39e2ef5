"""A point in time by which something must have happened, and the name of that something."""

from __future__ import annotations

import time
from dataclasses import dataclass

from core.errors import DeadlineExpired


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """A moment on the monotonic clock; `waits_for` completes the sentence "no end of … after N s"."""

    at: float
    seconds: float
    waits_for: str

    @classmethod
    def after(cls, seconds: float, waits_for: str) -> Deadline:
        return cls(at=time.monotonic() + seconds, seconds=seconds, waits_for=waits_for)

    @property
    def remaining(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def expired(self) -> bool:
        return self.remaining <= 0

    def within(self, seconds: float, waits_for: str) -> Deadline:
        """A deadline for a part: at most `seconds`, and never later than this one."""
        part = Deadline.after(seconds, waits_for)
        return part if part.at <= self.at else Deadline(at=self.at, seconds=self.seconds, waits_for=waits_for)

    def error(self) -> DeadlineExpired:
        return DeadlineExpired(f"No end of {self.waits_for} after {self.seconds:g} s.")
