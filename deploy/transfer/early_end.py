"""Deadlines that can be drawn in later, for what runs in another thread."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from core.deadline import Deadline
from core.errors import DeadlineExpired


class EarlyEnd:
    """Makes deadlines, and ends them all early when it must."""

    def __init__(self) -> None:
        self.at = math.inf
        self.why = ""

    def hold(self, deadline: Deadline) -> Deadline:
        """The same deadline, which this early_end can draw in."""
        return _Endable(at=deadline.at, seconds=deadline.seconds, waits_for=deadline.waits_for, early_end=self)

    def end_after(self, seconds: float, why: str = "") -> None:
        """Lets what is held end after so many seconds at the latest; `why` is what its error says."""
        self.at, self.why = time.monotonic() + seconds, why


@dataclass(frozen=True, kw_only=True)
class _Endable(Deadline):
    early_end: EarlyEnd

    @property
    def remaining(self) -> float:
        return max(0.0, min(self.at, self.early_end.at) - time.monotonic())

    def error(self) -> DeadlineExpired:
        is_early = self.early_end.why and self.early_end.at <= self.at
        return DeadlineExpired(self.early_end.why) if is_early else super().error()
