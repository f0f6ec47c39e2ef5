"""A board's own clock against the host's: boards without a network begin in 1970 or 2017 and never notice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

FORMAT = "%Y-%m-%d %H:%M:%S %N %s"
"""For ``date`` on the board; one without nanoseconds leaves something else than nine digits there."""
ANSWER = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (\S*) (\d+)")


@dataclass(frozen=True, kw_only=True)
class BoardClock:
    """One reading of the board's clock, made between the host's times `asked` and `answered` (seconds since 1970)."""

    local: datetime
    """In the board's own time zone, which is also that of its log."""
    epoch: float
    """The same in seconds since 1970."""
    step: float
    """Seconds by which the reading may be too small."""
    asked: float
    answered: float

    def window(self, began: float, ended: float) -> tuple[datetime, datetime]:
        """The board's local times that surely enclose what happened between two times of the host."""
        earliest = self.local + timedelta(seconds=began - self.answered)
        latest = self.local + timedelta(seconds=ended - self.asked + self.step)
        return earliest, latest

    def epoch_at(self, host: float) -> float:
        """The least that the board's clock can have said, in seconds since 1970, when the host's said `host`."""
        return self.epoch + host - self.answered

    def as_json(self) -> dict[str, Any]:
        ahead = self.epoch - (self.asked + self.answered) / 2
        return {"local": self.local.isoformat(timespec="milliseconds"), "ahead_seconds": round(ahead, 1)}


def read_clock(text: str, asked: float, answered: float) -> BoardClock | None:
    """Understands what ``date`` printed for `FORMAT`; None when it is something else."""
    found = ANSWER.search(text)
    if found is None:
        return None
    fine = re.fullmatch(r"\d{9}", found[2])
    fraction = int(found[2]) / 1e9 if fine else 0.0
    local = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(microsecond=int(fraction * 1e6))
    return BoardClock(
        local=local,
        epoch=int(found[3]) + fraction,
        step=0.001 if fine else 1.0,
        asked=asked,
        answered=answered,
    )
