"""How far a transfer is, looked up while it goes on: hdc itself does not tell."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from core.console import Progress
from core.deadline import Deadline
from deploy.transfer.early_end import EarlyEnd

Measure = Callable[[Deadline], int | None]
SLOW_ANSWER_SECONDS = 5.0
LAST_ANSWER_SECONDS = 10.0


@contextlib.contextmanager
def progress_shown(
    measure: Measure, before: int, size: int, progress: Progress, *, pause: float, deadline: Deadline
) -> Iterator[None]:
    """Shows, every `pause` seconds while the block runs, how many bytes of the file of `size` are there.

    `before` is what had arrived earlier. `measure` gives None when it cannot tell any more: the transfer itself says
    what is wrong. On a slow link a question waits behind the file, so it may take as long as that: `deadline` is the
    transfer's. A shorter one would end the server of hdc that seems not to answer, and the transfer with it. One that has
    waited long is the last.
    """
    ended, early_end = threading.Event(), EarlyEnd()

    def watch() -> None:
        while not ended.wait(pause):
            asked = time.monotonic()
            there = measure(early_end.hold(deadline))
            if there is None or time.monotonic() - asked > SLOW_ANSWER_SECONDS:
                return
            if not ended.is_set():
                progress.reach(before + min(there, size))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        early_end.end_after(LAST_ANSWER_SECONDS)
        thread.join()
