"""Chunks on their way, watched by a command on the board that tells every second how much is there; pulls, watched here.

The command is begun before the chunks, for its answer would wait behind all that hdc has taken in to send: a minute's
worth of a slow link.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from core.deadline import Deadline
from core.errors import Failure
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.hdc.board import HdcBoard
from deploy.transfer.early_end import EarlyEnd
from deploy.transfer.stall import FROM_BOARD, StallWatch
from deploy.transfer.store import HASH_BYTES_PER_SECOND, StoredFile, parts_folder, store_folder

IDLE_SECONDS = 120
"""How long the board tells that nothing changes: longer than a transfer that stands still is waited for here."""
READY_SECONDS = 10.0
FIRST_WORD_SECONDS = 180.0
"""For the first word of a listing: hdc may have to start, and the board's user to agree."""
WORD_SECONDS = 60.0


@contextlib.contextmanager
def watched_parts(
    session: Session, board: Board, file: StoredFile, *, deadline: Deadline, end: EarlyEnd
) -> Iterator[None]:
    """Watches the folder of parts of `file` while the block runs, which keeps deadlines that `end` holds.

    Raises TransferStalled when nothing more arrives. A board that cannot tell how much is there is not watched.
    """
    watch = StallWatch(session=session, serial=board.serial, name=file.local.name, size=file.size, end=end)
    began, telling, pending = threading.Event(), EarlyEnd(), b""

    def take(chunk: bytes) -> None:
        nonlocal pending
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            word, *sizes = line.split()
            if word == b"there":
                watch.hear(sum(map(int, sizes)))
                began.set()

    def tell() -> None:
        script = render_script(
            "watch_parts", store=store_folder(board.profile), folder=parts_folder(file), idle=IDLE_SECONDS
        )
        with contextlib.suppress(Failure):
            board.shell(script, deadline=telling.hold(deadline), on_output=take)
        watch.leave()
        began.set()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(tell)
        try:
            if not began.wait(READY_SECONDS):
                watch.leave()
            with watch.watching():
                yield
        finally:
            telling.end_after(0)


@contextlib.contextmanager
def watched_arrival(
    session: Session, board: Board, part: Path, *, name: str, size: int, deadline: Deadline
) -> Iterator[Deadline]:
    """A deadline for `part` to arrive in this computer, which ends early when that does not grow any more.

    Raises TransferStalled then. Where hdc writes elsewhere first, on the board's host or a disk of Windows, nobody watches.
    """
    if not isinstance(board, HdcBoard) or board.hdc.host is not None or board.hdc.bridge is not None:
        yield deadline
        return

    def size_here() -> int:
        with contextlib.suppress(FileNotFoundError):
            return part.stat().st_size
        return 0

    watch = StallWatch(session=session, serial=board.serial, name=name, size=size, ask=size_here, way=FROM_BOARD)
    with watch.watching():
        yield watch.end.hold(deadline)


def ended_by_silence(end: EarlyEnd, serial: str) -> Callable[[bytes], None]:
    """What takes the output of ``list_files.sh``, and lets `end` end it when the board says no more than it may take.

    It names a large file before it hashes it.
    """
    pending, silence = b"", FIRST_WORD_SECONDS

    def wait_for_more() -> None:
        what = "listed and hashed what it was asked for"
        end.end_after(silence, f"Board {serial} has said nothing for {silence:.0f} s while it {what}.")

    def take(chunk: bytes) -> None:
        nonlocal pending, silence
        *rows, pending = (pending + chunk).split(b"\0")
        if rows:
            hashing = re.match(rb"hashing - (\d{1,18}) ", rows[-1])
            silence = WORD_SECONDS + (int(hashing[1]) / HASH_BYTES_PER_SECOND if hashing else 0)
        wait_for_more()

    wait_for_more()
    return take
