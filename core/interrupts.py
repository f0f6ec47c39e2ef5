"""Ctrl-C and what shall end ohforge in the same way."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP do what Ctrl-C does: what runs on a board is ended, and its record closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
