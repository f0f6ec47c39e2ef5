"""A transfer that stands still, told from one that is slow by what arrives on the board."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from core.errors import DeadlineExpired, TransferStalled
from core.files import human_bytes
from core.session import Session
from deploy.transfer.early_end import EarlyEnd
from deploy.transfer.store import HASH_BYTES_PER_SECOND

LOOK_SECONDS = 0.5
SILENT_AFTER = 5.0
"""A board that says something every second, as long as the link holds, is silent after so many."""
TOLD_AFTER = 10.0
GIVEN_UP_AFTER = 60.0
"""The largest pieces that a daemon writes take 5 s over the slowest link that counts as alive."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """Which way a file travels, in words."""

    has_moved: str
    goes_on: str
    so_far: str
    remedy: str


TO_BOARD = Way(has_moved="has reached", goes_on="goes on to", so_far="are there", remedy=TransferStalled.default_remedy)
FROM_BOARD = Way(
    has_moved="has come from",
    goes_on="is coming again from",
    so_far="are here",
    remedy="Unplug the board and connect it again, or restart it when it is frozen; then pull again.",
)


@dataclass(kw_only=True)
class StallWatch:
    """Ends a transfer when nothing of the file arrives for `GIVEN_UP_AFTER` seconds, and says so before."""

    session: Session
    serial: str
    name: str
    size: int
    ask: Callable[[], int | None] = lambda: None
    """How much has arrived, for when nothing is told: asked of the board, or seen here; None when that is not known."""
    way: Way = TO_BOARD
    end: EarlyEnd = field(default_factory=EarlyEnd)
    """Ends what is held by it when the transfer stands still."""
    stalled: bool = False
    _there: int = 0
    _told: bool = False
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._grew = self._heard = time.monotonic()

    def hear(self, there: int) -> None:
        """Takes the board's word for how many bytes are there."""
        self._heard = time.monotonic()
        if there != self._there:
            self._there, self._grew = there, self._heard

    def leave(self) -> None:
        """Lets the transfer go on unwatched: nobody tells any more what is there."""
        self._over.set()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watches while the block runs. Raises TransferStalled in place of the DeadlineExpired that it causes."""

        def watch() -> None:
            while not self._over.wait(LOOK_SECONDS) and not self.stalled:
                self._look()

        thread = threading.Thread(target=watch, name="stall watch", daemon=True)
        thread.start()
        try:
            yield
        except DeadlineExpired as late:
            if self.stalled:
                raise TransferStalled(late.message, remedy=self.way.remedy) from None
            raise
        finally:
            self.leave()
            thread.join()

    def _look(self) -> None:
        if time.monotonic() - self._heard > SILENT_AFTER and (there := self.ask()) is not None:
            self.hear(there)
        now = time.monotonic()
        still = now - self._grew
        # What has arrived whole is still to be written to the storage and hashed.
        limit = GIVEN_UP_AFTER + (self.size / HASH_BYTES_PER_SECOND if self._there >= self.size else 0)
        how = "it does not answer" if now - self._heard > SILENT_AFTER else "it answers, but the file does not grow"
        if self.way is FROM_BOARD:  # Nobody asks it: what it answers would wait behind the file.
            how = ""
        waited = f"{self.way.has_moved} board {self.serial} for {still:.0f} s"
        if still >= limit:
            self.stalled = True
            so_far = f"{human_bytes(self._there)} of {human_bytes(self.size)} {self.way.so_far}"
            self.end.end_after(0, f"Nothing more of {self.name} {waited} ({so_far}{how and f'; {how}'}).")
        elif self._told and still < TOLD_AFTER:
            self._told = False
            self.session.console.info(f"{self.name} {self.way.goes_on} board {self.serial}")
        elif not self._told and still >= TOLD_AFTER:
            self._told = True
            self.session.console.warn(
                f"nothing more of {self.name} {waited}{how and f' ({how})'}; it is given up after {limit:.0f} s"
            )
