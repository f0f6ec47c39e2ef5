"""Files for boards behind a host, which lie there once, under their hashes, however many of its boards they go to.

They are sent there as to any board over SSH: only what is missing, verified, and going on where a cut left it. From
there hdc sends them. When more is to come, what was not used for longest goes, so that `MOST_BYTES` are not exceeded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from core.deadline import Deadline
from core.errors import NoSpaceOnBoard, NotEnoughSpace
from core.files import human_bytes
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.hdc.board import HdcBoard
from deploy.hdc.host import MAKE_ROOM, HdcHost, Staged
from deploy.transfer.store import StoredFile, each_content_once, store_folder

EnsureStored = Callable[[Session, Board, Sequence[StoredFile]], int]
"""Brings files into a board's store; returns how many bytes were sent."""
MOST_BYTES = 20_000_000_000
ROOM_SECONDS = 120.0


@contextlib.contextmanager
def staged(session: Session, board: Board, files: Sequence[StoredFile], ensure_stored: EnsureStored) -> Iterator[None]:
    """While the block runs, hdc finds `files` on the board's host; for a board without one nothing is done.

    Raises NotEnoughSpace when the host's disk is full, and what `deploy.transfer.push.ensure_stored` raises.
    """
    host = board.host if isinstance(board, HdcBoard) else None
    if host is None or not files:
        yield
        return
    total = sum(file.size for file in each_content_once(files))
    _make_room(host, files, total)
    try:
        sent = ensure_stored(session, host, files)
    except NoSpaceOnBoard as full:
        raise NotEnoughSpace(full.message, remedy=MAKE_ROOM, **full.details) from None
    session.console.info(f"{human_bytes(sent)} sent to the host {host.serial}, where {human_bytes(total - sent)} were")
    store = store_folder(host.profile)
    try:
        for file in files:
            host.staged[file.local.absolute()] = Staged(path=f"{store}/{file.sha256}")
        yield
    finally:
        host.staged.clear()


@contextlib.contextmanager
def staged_part(board: Board, file: StoredFile, part: Path, offset: int, size: int) -> Iterator[None]:
    """While the block runs, hdc finds bytes of a staged file on the host, which lie in `part` here."""
    host = board.host if isinstance(board, HdcBoard) else None
    whole = host.staged.get(file.local.absolute()) if host is not None else None
    if host is None or whole is None:
        yield
        return
    host.staged[part.absolute()] = Staged(path=whole.path, offset=offset, size=size)
    try:
        yield
    finally:
        del host.staged[part.absolute()]


def _make_room(host: HdcHost, files: Sequence[StoredFile], total: int) -> None:
    names = [file.sha256 for file in files]
    script = render_script("make_room", store=store_folder(host.profile), names=names, most=max(0, MOST_BYTES - total))
    host.shell(script, deadline=Deadline.after(ROOM_SECONDS, f"room on the host {host.serial}"))
