"""The one way in which tests wait for something to happen, such as the end of a process."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from core.deadline import Deadline

Seen = TypeVar("Seen")


LONG_ENOUGH = (1.5, 5.0, 20.0, 80.0)
"""Seconds, for a test that gives a deadline in which something must begin: when it has not, the next is tried."""


def wait_until(what: str, condition: Callable[[], Seen], seconds: float = 120.0, pause: float = 0.02) -> Seen:
    """Asks again and again until `condition` gives something true, and returns that.

    No test takes nearly as long as `seconds`, on a busy machine included. Raises AssertionError, which names `what`.
    """
    until = time.monotonic() + seconds
    while not (seen := condition()):
        assert time.monotonic() < until, f"{what} did not happen within {seconds:g} s"
        time.sleep(pause)
    return seen


def is_alive(process: int) -> bool:
    """Whether a process of this number runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnIn(Deadline):
    """Is over as soon as it is said, however long that takes on a busy computer."""

    over: threading.Event = dataclasses.field(default_factory=threading.Event)

    @classmethod
    def long(cls) -> DrawnIn:
        return cls(at=time.monotonic() + 600, seconds=600, waits_for="the test")

    @property
    def remaining(self) -> float:
        return 0.0 if self.over.is_set() else super().remaining
