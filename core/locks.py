"""Locks between processes, which end with their owner."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from core.deadline import Deadline
from core.errors import Busy


@contextlib.contextmanager
def hold(path: Path, deadline: Deadline, on_wait: Callable[[str], None] | None = None) -> Iterator[bool]:
    """Holds the lock file `path` while the block runs; yields True when another process had it before.

    The lock is the kernel's (``flock``), so it is free again as soon as its owner is dead, however it died.
    `on_wait` is told once that there is someone to wait for. Raises Busy when the time is over.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    waited = False
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waited = True
        if on_wait is not None:
            on_wait(f"another process is at it: waiting for {deadline.waits_for}")
        try:
            lock.acquire(timeout=deadline.remaining, poll_interval=0.1)
        except Timeout as error:
            raise Busy(
                f"Another process still holds {path} after {deadline.seconds:g} s ({deadline.waits_for})."
            ) from error
    try:
        yield waited
    finally:
        lock.release()
