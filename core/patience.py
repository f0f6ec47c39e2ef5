"""How often something is tried again, and how long to wait before that."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.deadline import Deadline


@dataclass(frozen=True, kw_only=True)
class Patience:
    """A row of pauses, in seconds: the first is `pause`, each other `growth` times the one before."""

    pause: float
    growth: float = 1.0
    times: int | None = None
    """How many pauses there are; None: as many as whoever waits has time for."""

    def pauses(self) -> Iterator[float]:
        """The pauses in order."""
        for number in range(self.times) if self.times is not None else itertools.count():
            yield self.pause * self.growth**number

    def pause_after(self, failures: int) -> float | None:
        """How long to wait after so many failures in a row; None when it is time to give up."""
        if self.times is not None and failures > self.times:
            return None
        return self.pause * self.growth ** max(failures - 1, 0)

    def rounds(self, deadline: Deadline, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
        """Comes round after each pause until the deadline is over, the last time when it is."""
        for pause in self.pauses():
            if deadline.expired:
                return
            sleep(min(pause, deadline.remaining))
            yield
