"""The content store on a board: ``<device dir>/ohforge/store/<sha256>``, each file once, under the name of its content.

A file becomes part of the store when its size and hash were verified on the board. Beside it stands a note
``<sha256>.ok`` with its size, inode and time of last change at that moment, and as long as the three are the same
it is not hashed again: every way of writing to a file changes the time (also through a hard link, by a program that
ran in a run folder), a file that was replaced has another inode, and what cuts the power in between loses the note,
which is written last. Without a note, or with one that does not fit, the content is hashed again before it is used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from core.errors import TransferError
from deploy.board.protocol import Profile
from deploy.board.survey import Question, Survey

HASH_BYTES_PER_SECOND = 10e6
"""What the slowest board manages at least; toybox on a Cortex-A55 does about 45 MB/s."""
SLOWEST_LINK = 100_000
"""Bytes a second below which a link counts as dead."""
STEP = 16 * 1024 * 1024
READ = 256 * 1024
"""Bytes at a time, which a core's own cache holds."""
Digests = Mapping[int, str]
"""SHA-256 of the first so many bytes of a file."""
NICE = 10
"""Hashing takes what hdc leaves of the processors."""
SAMPLES = 16
SAMPLE_BYTES = 64 * 1024


class StoredFile:
    """A file as the store knows it. `size` in bytes; `local` is where its content is on this computer.

    Its hash is either given, or worked out at once, or `hashing` will bring it: then whoever asks for it waits.
    """

    def __init__(self, local: Path, *, sha256: str = "", hashing: Future[Digests] | None = None) -> None:
        self.local = local
        status = local.stat()
        self.size = status.st_size
        self._identity = _identity(status)
        self.name_is_known = hashing is None
        """Whether its name in the store is known without a wait."""
        self._sha256 = sha256
        self._hashing = hashing
        if not sha256 and hashing is None:
            self._sha256 = self.beginnings[max(self.beginnings)]

    @property
    def sha256(self) -> str:
        return self._sha256 or self.beginnings[max(self.beginnings)]

    @property
    def has_changed(self) -> bool:
        """Whether the local file was written to, replaced or removed since it was looked at."""
        try:
            return _identity(self.local.stat()) != self._identity
        except OSError:
            return True

    @functools.cached_property
    def beginnings(self) -> Digests:
        """As `hash_beginnings` gives them. Raises TransferError when the file cannot be read or is being changed."""
        try:
            found = self._hashing.result() if self._hashing is not None else hash_beginnings(self.local)
        except OSError as error:
            raise TransferError(
                f"{self.local} cannot be read: {error.strerror}.", remedy="Run again when the file is there."
            ) from error
        if max(found) != self.size:
            raise file_changed(self.local)
        return found

    @functools.cached_property
    def fingerprint(self) -> str:
        """By what a part of it is found on a board before its hash is known: 64 hexadecimal digits, from samples of it.

        Two files may have the same, so it says where to look and never what is there.
        """
        digest = hashlib.sha256(f"{self.size}\n".encode())
        with self.local.open("rb") as content:
            for number in range(SAMPLES):
                content.seek(max(0, self.size - SAMPLE_BYTES) * number // (SAMPLES - 1))
                digest.update(content.read(SAMPLE_BYTES))
        return digest.hexdigest()


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino


def store_folder(profile: Profile) -> str:
    return f"{profile.device_dir}/ohforge/store"


def runs_folder(profile: Profile) -> str:
    return f"{profile.device_dir}/ohforge/runs"


def part_path(profile: Profile, name: str) -> str:
    """Where a file lies on the board until it is verified. One name for each content, so that it can be resumed."""
    return f"{store_folder(profile)}/{name}.part"


def parts_folder(file: StoredFile) -> str:
    """The folder, below the store, in which a large file grows."""
    return f"{file.fingerprint}.parts"


def joined_path(file: StoredFile) -> str:
    """Where that of it which is verified lies, below the store."""
    return f"{parts_folder(file)}/joined"


def question_about(files: Sequence[StoredFile], large: Sequence[StoredFile]) -> Question:
    """What tells whether the board has `files`, and parts of those that are `large`, without a wait for their hashes."""
    return Question(
        stored=sorted({file.sha256 for file in files if file.name_is_known}),
        sizes=sorted({file.size for file in files if not file.name_is_known}),
        parts=sorted({file.fingerprint for file in large}),
    )


def is_stored(survey: Survey, file: StoredFile) -> bool:
    """Whether the file is on the board with the right content, as far as the note in the store proves it."""
    return _is_there(survey, file) and file.sha256 in survey.proven


def needs_proof(survey: Survey, file: StoredFile) -> bool:
    """Whether the board has a file of that name and size whose content must be hashed before it is used."""
    return _is_there(survey, file) and file.sha256 not in survey.proven


def _is_there(survey: Survey, file: StoredFile) -> bool:
    # By its size first: the hash of a file that cannot be there is not waited for.
    return file.size in survey.stored.values() and survey.stored.get(file.sha256) == file.size


def each_content_once(files: Sequence[StoredFile]) -> list[StoredFile]:
    """Of files with the same content only the last. Hashes are waited for where sizes are equal."""
    of_size = Counter(file.size for file in files)
    return list({(file.size, file.sha256 if of_size[file.size] > 1 else ""): file for file in files}.values())


def file_changed(*files: Path) -> TransferError:
    """The error that tells that local files are not what they were when they were looked at."""
    names = ", ".join(map(str, files))
    return TransferError(f"{names} was changed while it was being sent.", remedy="Run again when it is complete.")


def hash_beginnings(path: Path) -> Digests:
    """The hashes of the first `STEP` bytes of a file, of the first two, and so on, and of all of it."""
    found: dict[int, str] = {}
    whole, at, room = hashlib.sha256(), 0, memoryview(bytearray(READ))
    with path.open("rb", buffering=0) as content:
        while count := content.readinto(room[: STEP - at % STEP]):
            whole.update(room[:count])
            at += count
            if at % STEP == 0:
                found[at] = whole.hexdigest()
    return {**found, at: whole.hexdigest()}


def hash_part(path: Path, start: int, end: int, algorithm: str = "sha256") -> str:
    """The hash of the bytes from `start` to before `end` of a file, or of fewer where it is shorter."""
    digest, room = hashlib.new(algorithm, usedforsecurity=False), memoryview(bytearray(READ))
    with path.open("rb", buffering=0) as content:
        content.seek(start)
        while start < end and (count := content.readinto(room[: end - start])):
            digest.update(room[:count])
            start += count
    return digest.hexdigest()


def hash_in_background(paths: Sequence[Path]) -> list[Future[Digests]]:
    """What `hash_beginnings` will have found; one file after another, and given up when this process ends."""
    found: list[Future[Digests]] = [Future() for _ in paths]

    def work() -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        for path, future in zip(paths, found, strict=True):
            try:
                future.set_result(hash_beginnings(path))
            except BaseException as error:
                future.set_exception(error)

    if paths:
        threading.Thread(target=work, name="hashing", daemon=True).start()
    return found


def md5_file(path: Path) -> str:
    return hash_part(path, 0, path.stat().st_size, "md5")
