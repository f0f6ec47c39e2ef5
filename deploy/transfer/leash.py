"""Deadlines that can be drawn in later, for what runs in another thread."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from core.deadline import Deadline


class Leash:
    """Makes deadlines, and ends them all early when it must."""

    def __init__(self) -> None:
        self.at = math.inf

    def hold(self, deadline: Deadline) -> Deadline:
        """The same deadline, which this leash can draw in."""
        return _Leashed(at=deadline.at, seconds=deadline.seconds, waits_for=deadline.waits_for, leash=self)

    def end_after(self, seconds: float) -> None:
        """Lets what is held end after so many seconds at the latest."""
        self.at = time.monotonic() + seconds


@dataclass(frozen=True, kw_only=True)
class _Leashed(Deadline):
    leash: Leash

    @property
    def remaining(self) -> float:
        return max(0.0, min(self.at, self.leash.at) - time.monotonic())
