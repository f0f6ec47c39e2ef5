"""Large files to a board in chunks: each is verified there and joined to those before it, so that a cut costs one chunk.

On the board a large file grows in the folder ``store/<fingerprint>.parts``: ``joined`` holds what was verified so far, in
order, and chunks arrive beside it. One hdc process sends a chunk; one more verifies and joins it while the next is on
its way. So the board needs room for the file and two chunks. The next try joins chunks that had arrived whole and goes on
from there. What lay there is not trusted: a file that was not sent in one go is hashed as a whole at its end.
"""

from __future__ import annotations

import contextlib
import hashlib
import platform
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from core.deadline import Deadline
from core.errors import (
    BoardError,
    Busy,
    ContentDiffers,
    Failure,
    LostConnection,
    NoSpaceOnBoard,
    PermissionOnBoard,
    RemoteFolderMissing,
    TransferError,
)
from core.files import human_bytes, require_space
from core.session import Session
from core.spool import spool_folder
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.script import quote
from deploy.board.survey import read_df
from deploy.hdc.host import title_of
from deploy.transfer.early_end import EarlyEnd
from deploy.transfer.followed import LAG, send_followed
from deploy.transfer.splitter import Chunk, Splitter
from deploy.transfer.staging import staged_part
from deploy.transfer.store import (
    HASH_BYTES_PER_SECOND,
    SLOWEST_LINK,
    StoredFile,
    file_changed,
    joined_path,
    parts_folder,
    store_folder,
)
from deploy.transfer.watched import watched_parts

CHUNKED_FROM = 64 * 1024 * 1024
"""Smaller files are sent whole. Measured by ``benchmarks/deploy.py`` over 35 MB/s (USB 2.0), chunks take longer than one piece
by 36 % at 8 MiB, 18 % at 16, 17 % at 32, 4 % at 64 and less than it at 128; and what they save after a cut is less than
two seconds below 64 MiB."""
SMALLEST_CHUNK = 16 * 1024 * 1024
LARGEST_CHUNK = 128 * 1024 * 1024
CHUNK_SECONDS = 3.0
"""How long one chunk should be on its way: chunks grow and shrink with the speed of the link."""
TRIES = 2
"""How often one chunk is sent before it is an error."""
GRACE_SECONDS = 5.0
"""How long the chunk that is being joined may still take when the transfer has failed."""


@dataclass(frozen=True, kw_only=True)
class Grown:
    """How a file came to the board in chunks."""

    bytes_sent: int
    found_as: str
    """Where it lies now, below the store."""
    proven: bool
    """Whether every byte of it was read here, verified there and joined in this one go."""


def is_large(size: int) -> bool:
    """Whether a file of so many bytes goes in chunks."""
    return size >= CHUNKED_FROM


def room_for_chunks(files: Sequence[StoredFile]) -> int:
    """Bytes that must be free on a board besides what `files` themselves need."""
    return 2 * SMALLEST_CHUNK if any(is_large(file.size) for file in files) else 0


def send_in_chunks(
    session: Session,
    board: Board,
    file: StoredFile,
    *,
    tool: str,
    agent: str = "",
    room: int | None,
    deadline: Deadline,
    reach: Callable[[int], None],
    when_proven: Callable[[], None] | None = None,
) -> Grown:
    """Sends what the board lacks of `file`; `tool` hashes there, `room` is what chunks may take up in bytes.

    With an `agent`, which is its path on the board, a file of which nothing is there goes in one piece; then `when_proven` is
    called as soon as all of it is there and right, before hdc has ended. `reach` is told how many bytes of the file are
    there. When this raises, the next call goes on at the last chunk.
    Raises TransferError, TransferStalled, ContentDiffers, NoSpaceOnBoard, PermissionOnBoard, LostConnection,
    NotEnoughSpace (here), …
    """
    push = _Push(
        session=session,
        board=board,
        file=file,
        tool=tool,
        agent=agent,
        room=room,
        deadline=deadline,
        reach=reach,
        when_proven=when_proven,
    )
    try:
        return push.run()
    except BaseException:
        if push.joined:
            session.console.info(
                f"{human_bytes(push.joined)} of {file.local.name} are on {title_of(board)}; "
                "the next push goes on from there"
            )
        raise


@dataclass(kw_only=True)
class _Push:
    """One file on its way. `joined` is how many bytes the board has verified, as far as is known here."""

    session: Session
    board: Board
    file: StoredFile
    tool: str
    agent: str
    room: int | None
    deadline: Deadline
    reach: Callable[[int], None]
    when_proven: Callable[[], None] | None
    joined: int = 0
    sent: int = 0
    size: int = field(default_factory=lambda: SMALLEST_CHUNK)
    failures: dict[int, int] = field(default_factory=dict)
    """How often a chunk at an offset was wrong."""
    streamed: bool = False
    """Whether it came in one piece, and its hash was right."""
    taken_in: bool = False
    """Whether another computer has brought the whole file meanwhile."""

    def __post_init__(self) -> None:
        # One name for this computer and user, so that what it left behind is removed the next time.
        here = f"{platform.node()} {self.session.settings.data}"
        self.owner = hashlib.sha256(here.encode()).hexdigest()[:12]
        self.store = store_folder(self.board.profile)
        self.folder = parts_folder(self.file)
        self.splitter = Splitter(self.file, self.tool)
        self.early_end = EarlyEnd()
        self.stalled = EarlyEnd()

    def run(self) -> Grown:
        try:
            return self._run()
        except Failure:
            if not self.file.has_changed:
                raise
            # What was sent is of no use: the file here is no longer what it was.
            self._throw_away()
            raise file_changed(self.file.local) from None

    def _run(self) -> Grown:
        if not (self.agent and self._send_in_one_piece()):
            self._begin()
            self.reach(self.joined)
            if self.joined:
                there, name = human_bytes(self.joined), self.file.local.name
                self.session.console.info(f"{there} of {name} are on {title_of(self.board)} from an earlier try")
        if self.joined < self.file.size:
            self._send_the_rest()
        if self.splitter.differs:
            self._throw_away()
            raise file_changed(self.file.local)
        name = self.file.sha256 if self.taken_in else joined_path(self.file)
        proven = self.streamed or (self.splitter.proven and not self.taken_in)
        return Grown(bytes_sent=self.sent, found_as=name, proven=proven)

    def _send_in_one_piece(self) -> bool:
        """Leaves `joined` at what the board has; False when nothing could be sent in this way."""
        try:
            streamed = send_followed(
                self.session,
                self.board,
                self.file,
                agent=self.agent,
                deadline=self.deadline,
                reach=self.reach,
                when_proven=self.when_proven,
            )
        except NoSpaceOnBoard:
            with contextlib.suppress(Failure):  # The full disk is what the user must hear of.
                self._begin()
            raise
        except TransferError:
            # What was sent is of no use: the file here is no longer what it was.
            self._throw_away()
            raise
        if streamed is None:
            return False
        if streamed.differs and self.file.has_changed:
            raise file_changed(self.file.local)
        if streamed.taken or (streamed.whole and not streamed.differs):
            self.sent += self.file.size
            self.joined = self.file.size
            self.streamed = streamed.verified == self.file.size
            return True
        self.sent += self._begin(keep=streamed.verified if streamed.differs else None)
        why = streamed.failure.message if streamed.failure is not None else "A byte of it is wrong."
        self.session.console.warn(
            f"{why} {human_bytes(self.joined)} of {self.file.local.name} stay on {title_of(self.board)}; "
            "going on from there"
        )
        return True

    def _send_the_rest(self) -> None:
        spooled = min(2 * self._limit(), self.file.size - self.joined)
        require_space(Path(tempfile.gettempdir()), spooled, "Sending a large file in chunks")
        with (
            spool_folder() as spool,
            watched_parts(self.session, self.board, self.file, deadline=self.deadline, end=self.stalled),
            ThreadPoolExecutor(1) as cutting,
            ThreadPoolExecutor(1) as joining,
        ):
            try:
                self._send_all(spool, cutting, joining)
            except BaseException:
                self.early_end.end_after(GRACE_SECONDS)
                raise

    def _begin(self, keep: int | None = None) -> int:
        """Finds out how far the file is there, of which no more than `keep` bytes are kept when that is known.

        Returns how much of a piece that was broken off had arrived.
        """
        script = render_script(
            "begin_parts",
            store=self.store,
            folder=self.folder,
            owner=self.owner,
            tool=self.tool,
            size=self.file.size,
            keep=keep,
            lag=LAG,
        )
        text = self._when_nobody_else_sends(script)
        found = re.search(r"^at (\d+)$", text, re.MULTILINE)
        if found is None:
            raise PermissionOnBoard(
                f"Board {self.board.serial}: {text.strip()[-300:] or f'{self.store} cannot be written'}."
            )
        self.joined = int(found[1])
        return sum(map(int, re.findall(r"^came (\d+)$", text, re.MULTILINE)))

    def _when_nobody_else_sends(self, script: str) -> str:
        """What `script` says when the file does not grow any more: an hdc whose ohforge was killed goes on sending."""
        told = False
        while True:
            seconds = 60 + 2 * LARGEST_CHUNK / HASH_BYTES_PER_SECOND
            waiting = self.deadline.within(seconds, f"board {self.board.serial} to prepare for a large file")
            text = self.board.shell(script, deadline=waiting).text
            busy = re.search(r"^busy (\d+)$", text, re.MULTILINE)
            if busy is None:
                return text
            name, serial = self.file.local.name, self.board.serial
            if self.deadline.expired:
                raise Busy(f"{name} is still being sent to board {serial} by another hdc.")
            if not told:
                there = human_bytes(int(busy[1]))
                self.session.console.info(
                    f"another hdc sends {name} to board {serial} ({there} are there); waiting for its end"
                )
            told = True

    def _throw_away(self) -> None:
        self.joined = 0
        with contextlib.suppress(Failure):  # What is told is why.
            self.board.shell(
                f"rm -rf {quote(f'{self.store}/{self.folder}')}",
                deadline=Deadline.after(30, "a partial file to be removed"),
            )

    # three things go on at once: the next chunk is cut, one is sent, the one before is joined -----------

    def _send_all(self, spool: Path, cutting: ThreadPoolExecutor, joining: ThreadPoolExecutor) -> None:
        at = self.joined
        cut: Future[Chunk] | None = None
        pending: tuple[Chunk, Future[None]] | None = None
        while not self.taken_in and (at < self.file.size or pending is not None):
            chunk, name = None, ""
            if at < self.file.size:
                chunk = self._next(cut, at, spool, cutting)
                cut = self._cut(chunk.end, spool, cutting) if chunk.end < self.file.size else None
                try:
                    name = self._send(chunk)
                except (RemoteFolderMissing, LostConnection, TransferError):
                    # Another computer that was quicker takes the folder away: the board tells when it joins.
                    if pending is not None and self._is_taken_in(pending[1]):
                        return
                    raise
                at = chunk.end
            if pending is not None:
                before, future = pending
                future.result()
                if self.joined != before.end:
                    # Wrong, or somebody else was quicker: what was sent after it does not fit either.
                    at = self.joined
                    if chunk is not None:
                        self._remove(name)
                    chunk = None
            pending = None if chunk is None else (chunk, joining.submit(self._join, chunk, name))

    def _is_taken_in(self, joining: Future[None]) -> bool:
        with contextlib.suppress(Failure):
            joining.result()
        return self.taken_in

    def _next(self, cut: Future[Chunk] | None, at: int, spool: Path, cutting: ThreadPoolExecutor) -> Chunk:
        chunk = cut.result() if cut is not None else None
        if chunk is None or chunk.offset != at:
            if chunk is not None:
                chunk.path.unlink()
            chunk = self._cut(at, spool, cutting).result()
        return chunk

    def _cut(self, at: int, spool: Path, cutting: ThreadPoolExecutor) -> Future[Chunk]:
        left = self.file.size - at
        # The last chunks get smaller, for nothing is sent any more while the last one is verified.
        size = min(self.size, self._limit(), max(SMALLEST_CHUNK, left // 2), left)
        return cutting.submit(self.splitter.cut, at, size, spool / secrets.token_hex(4))

    def _limit(self) -> int:
        """The largest chunk of which the board can hold two."""
        return LARGEST_CHUNK if self.room is None else max(SMALLEST_CHUNK, min(LARGEST_CHUNK, self.room // 2))

    def _send(self, chunk: Chunk) -> str:
        name = f"{self.owner}-{chunk.offset}-{chunk.hash}"
        seconds = 60 + chunk.size / SLOWEST_LINK
        for attempt in range(1, TRIES + 1):
            what = f"a chunk of {self.file.local.name} on board {self.board.serial}"
            waiting = self.stalled.hold(self.deadline.within(seconds, what))
            started = time.monotonic()
            try:
                self.sent += chunk.size
                with staged_part(self.board, self.file, chunk.path, chunk.offset, chunk.size):
                    self.board.send(chunk.path, f"{self.store}/{self.folder}/{name}", deadline=waiting)
                break
            except NoSpaceOnBoard:
                self._remove(name)
                raise
            except (TransferError, LostConnection) as error:
                if attempt == TRIES:
                    raise
                self.session.console.detail(f"{error.message} Sending the chunk again.")
        chunk.path.unlink()
        rate = chunk.size / max(0.001, time.monotonic() - started)
        self.size = int(min(LARGEST_CHUNK, max(SMALLEST_CHUNK, rate * CHUNK_SECONDS)))
        return name

    def _join(self, chunk: Chunk, name: str) -> None:
        """Has the board verify and join a chunk; `joined` says afterwards how far the file is there."""
        script = render_script(
            "join_chunk",
            store=self.store,
            folder=self.folder,
            stored=self.file.sha256,
            chunk=name,
            tool=self.tool,
            size=chunk.size,
            hash=chunk.hash,
            offset=chunk.offset,
        )
        seconds = 60 + chunk.size / HASH_BYTES_PER_SECOND
        waiting = self.early_end.hold(self.deadline.within(seconds, f"{self.tool} on board {self.board.serial}"))
        text = self.board.shell(script, deadline=waiting).text
        words = {line.split(" ", 1)[0]: line.partition(" ")[2] for line in text.splitlines()}
        _, free = read_df(words.get("free", ""))
        # Boards before 5.1 do not notice a full disk: less arrives, in silence.
        is_short = int(words.get("bad", chunk.size)) < chunk.size and free is not None and free < chunk.size
        if is_short or ("short" in words and "no space" in text.lower()):
            raise NoSpaceOnBoard(f"Board {self.board.serial}: the storage is full. It said: {text[:200]!r}")
        if "short" in words:
            raise BoardError(f"Board {self.board.serial} cannot join a chunk to those before. It said: {text[:200]!r}")
        if "there" in words:
            self.taken_in = True
        elif "gone" in words:
            self.joined = 0
            raise TransferError(f"Board {self.board.serial}: {self.folder} was removed while it was being filled.")
        elif "bad" in words:
            self._count_failure(chunk)
        elif "at" in words:
            self.joined = int(words["at"])
            self.reach(self.joined)
            if self.joined != chunk.end:
                self._count_failure(chunk)
        else:
            raise BoardError(f"Board {self.board.serial} did not say what became of a chunk. It said: {text[-300:]!r}")

    def _remove(self, name: str) -> None:
        with contextlib.suppress(Failure):  # The full disk is what the user must hear of.
            self.board.shell(
                f"rm -f {quote(f'{self.store}/{self.folder}/{name}')}",
                deadline=Deadline.after(15, "a partial file to be removed"),
            )

    def _count_failure(self, chunk: Chunk) -> None:
        self.failures[chunk.offset] = self.failures.get(chunk.offset, 0) + 1
        where = f"bytes {chunk.offset} to {chunk.end} of {self.file.local.name}"
        if self.failures[chunk.offset] >= TRIES:
            raise ContentDiffers(
                f"Board {self.board.serial}: {where} arrived with another content, twice (by {self.tool}). "
                "The wrong chunk was removed."
            )
        self.session.console.warn(f"{where} are not on board {self.board.serial} as they should be; sending again")
