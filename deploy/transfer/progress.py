"""How far a transfer is, looked up while it goes on: hdc itself does not tell."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from core.console import Progress

Measure = Callable[[], int | None]


@contextlib.contextmanager
def progress_shown(measure: Measure, before: int, size: int, progress: Progress, *, pause: float) -> Iterator[None]:
    """Shows, every `pause` seconds while the block runs, how many bytes of the file of `size` are there.

    `before` is what had arrived earlier. `measure` gives None when it cannot tell any more: the transfer itself says
    what is wrong.
    """
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(pause):
            there = measure()
            if there is None:
                return
            if not ended.is_set():
                progress.reach(before + min(there, size))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
