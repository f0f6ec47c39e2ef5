"""Ctrl-C and what shall end ohforge in the same way."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator


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


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Lets Ctrl-C, SIGTERM and SIGHUP wait until the block has ended: within it nobody could tidy up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(handler := signal.getsignal(number))
    }
    for number in before:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for signalled in came:
            before[signal.Signals(signalled)](signalled, None)


def leave_at_once(status: int, first: Callable[[], None]) -> None:
    """From now on a further Ctrl-C ends this process at once, after `first`: its threads may still wait for something."""
    if threading.current_thread() is not threading.main_thread():
        return

    def leave(number: int, frame: object) -> None:
        first()
        os._exit(status)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
