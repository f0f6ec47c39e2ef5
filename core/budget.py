"""What reading a file that nobody vouches for may cost: charged before the work is done, so that a few bytes that refer to
one place a million times end soon, and say so."""

from __future__ import annotations

import time
from collections.abc import Callable

ITEMS = 4_000_000
"""Entries, texts, elements and the like of one file; real models have some hundred thousand at most."""
SECONDS = 60.0
"""Far more than the largest real file takes on a slow computer."""


class Overdrawn(ValueError):
    """A file asks for more work than any real one."""


class Budget:
    """The budget of one file. `seconds` begin with the first charge."""

    def __init__(
        self, *, items: int = ITEMS, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._items = self._left = items
        self._seconds = seconds
        self._clock = clock
        self._until: float | None = None

    def spend(self, items: int, what: str) -> None:
        """Charges items that are about to be read. Raises Overdrawn when they or the time are too many."""
        self._left -= items
        if self._left < 0:
            raise Overdrawn(f"{what} brings the number of items to more than {self._items}")
        now = self._clock()
        if self._until is None:
            self._until = now + self._seconds
        elif now > self._until:
            raise Overdrawn(f"{what} is reached after more than {self._seconds:g} s of reading")
