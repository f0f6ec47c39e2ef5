"""Large files from a board over SSH: one stream, while both sides hash the file.

It grows beside its final name, and what is there from an earlier try is not sent again. The hash of the whole file on
both sides tells whether all of it is right.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from core.deadline import Deadline
from core.errors import Busy, ContentDiffers, TransferError
from core.files import human_bytes, require_space
from core.session import Session
from deploy.board.render import render_script
from deploy.ssh.board import NO_FILE, NO_RIGHT, SshBoard, check_reading
from deploy.transfer.store import READ, SLOWEST_LINK, md5_file
from deploy.transfer.streamed import SHA256_DIGITS, TRIES, Answer, bring_on

OPENSSL_FROM = 4 * 1024 * 1024
"""Bytes of a file for which it pays to start openssl, which takes 5 ms longer than sha256sum and then a fifth of its time."""
LOOK_SECONDS = 0.02
"""Between two looks whether a file has grown."""


def streamed_part(serial: str, remote: str, local: Path) -> Path:
    """Where the file of a board grows that will be `local`."""
    return local.with_name(f".ohforge-{hashlib.sha256(f'{serial} {remote}'.encode()).hexdigest()[:16]}.part")


def receive_streamed(
    session: Session,
    board: SshBoard,
    remote: str,
    local: Path,
    *,
    size: int,
    mode: int,
    agents: Sequence[str],
    deadline: Deadline,
    goes_on: bool,
) -> str:
    """Fetches a file of about `size` bytes, or what lacks of it, and puts it into place when all of it is right; its SHA-256.

    The first of `agents` that runs on the board hashes it. When this raises, the next call `goes_on` from what has arrived;
    else nothing stays.
    Raises RemoteFileMissing, ContentDiffers, TransferError (as when it is changed there meanwhile), NotEnoughSpace, Busy, …
    """
    part = streamed_part(board.serial, remote, local)
    with _held(session, part, local.name, goes_on) as file:
        pull = _Pull(
            session=session,
            board=board,
            remote=remote,
            part=part,
            file=file,
            size=size,
            agents=agents,
            deadline=deadline.within(60 + size / SLOWEST_LINK, f"{remote} on its way from board {board.serial}"),
        )
        digest = bring_on(session, pull.bring, pull.there)
        os.fchmod(file.fileno(), mode)
        part.replace(local)
    return digest


@contextlib.contextmanager
def _held(session: Session, part: Path, name: str, stays: bool) -> Iterator[IO[bytes]]:
    """The file `part`, to which nobody else may add meanwhile. When the block fails it `stays`, but not empty."""
    with _open(part) as file:
        # Another may have put it into its place before it could be held.
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_there = os.path.samestat(os.fstat(file.fileno()), part.lstat())
        except (BlockingIOError, FileNotFoundError):
            is_there = False
        if not is_there:
            raise Busy(f"{name} is being received in {part.parent} by another ohforge.")
        try:
            yield file
        except BaseException:
            if stays and (size := os.fstat(file.fileno()).st_size):
                session.console.info(f"{human_bytes(size)} of {name} are in {part}; the next pull goes on from there")
            else:
                part.unlink(missing_ok=True)
            raise


def _open(part: Path) -> IO[bytes]:
    """What an earlier try has left, when it is a file that nobody else has laid there; else a new one."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(OSError):
        file = os.fdopen(os.open(part, flags, 0o600), "ab", buffering=0)
        found = os.fstat(file.fileno())
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1:
            return file
        file.close()
    part.unlink(missing_ok=True)
    return os.fdopen(os.open(part, flags | os.O_EXCL, 0o600), "ab", buffering=0)


@dataclass(kw_only=True)
class _Pull:
    """One file on its way, which grows as `file`."""

    session: Session
    board: SshBoard
    remote: str
    part: Path
    file: IO[bytes]
    size: int
    agents: Sequence[str]
    deadline: Deadline
    wrong: int = 0
    """How often something was here that is not what is there."""

    def there(self) -> int:
        """Bytes that have arrived."""
        return self.file.seek(0, os.SEEK_END)

    def bring(self) -> str:
        """The hash when all is here as it is there; empty when that must be tried again. Raises LostConnection."""
        if (offset := self.there()) > self.size:
            self._throw_away()
            offset = 0
        require_space(self.part.parent, self.size - offset, self.remote)
        script = render_script(
            "read_stream",
            file=self.remote,
            offset=offset,
            agents=self.agents,
            large=OPENSSL_FROM,
            no_file=NO_FILE,
            no_right=NO_RIGHT,
        )
        answer = Answer()
        with _hashed_meanwhile(self.part) as hashing:
            status = self.board.run_with_file(
                script, self.deadline, on_errors=answer.take, sink=self.file, size=self.size - offset
            )
        check_reading(status, f"Board {self.board.serial}, receiving {self.remote}")
        digest = hashing.result()
        here = digest if len(answer.hash) == SHA256_DIGITS else md5_file(self.part)
        is_changed = "changed" in answer.said
        if answer.hash == here and answer.size == self.there() and not is_changed:
            return digest
        self._throw_away()
        title = f"{self.remote} of board {self.board.serial}"
        if is_changed:
            raise TransferError(
                f"{title} was changed while it was being received.", remedy="Run again when it is complete."
            )
        self.wrong += 1
        if self.wrong >= TRIES:
            raise ContentDiffers(f"{title} arrived with another content, twice.")
        self.session.console.warn(f"{title} is not here as it should be; receiving all of it")
        return ""

    def _throw_away(self) -> None:
        self.file.seek(0)
        self.file.truncate()


@contextlib.contextmanager
def _hashed_meanwhile(path: Path) -> Iterator[Future[str]]:
    """The SHA-256 of a file that grows while the block runs."""
    over, given_up = threading.Event(), threading.Event()

    def work() -> str:
        digest, room = hashlib.sha256(), memoryview(bytearray(READ))
        with path.open("rb", buffering=0) as content:
            ends = False
            while not ends:
                ends = over.wait(LOOK_SECONDS)
                while (count := content.readinto(room)) and not given_up.is_set():
                    digest.update(room[:count])
        return digest.hexdigest()

    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(work)
        except BaseException:
            given_up.set()
            raise
        finally:
            over.set()
