"""Small JSON files that processes, also those of several users, read and change in turn.

In a folder that everybody may write (mode 1777, as ``/var/tmp``) another user's file can neither be replaced nor
removed, and the kernel may refuse to open it for creation (``fs.protected_regular``). So a file is made once, whole,
with mode 0666, and from then on changed in place under the kernel's lock (``flock``), which ends with its holder.
Its blocks are there from the beginning, so a full disk does not stop a change. Links are never followed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.errors import Busy, CannotWrite, NotEnoughSpace

FILE_BYTES = 4096
FOLDER_MODE = 0o1777
LOCK_SECONDS = 10.0
"""A change takes milliseconds: who holds the lock longer has been stopped in the middle of one."""
POLL_SECONDS = 0.02
ATTEMPTS = 50
DIGEST_LENGTH = 64


@dataclass
class SharedFile:
    """What a file holds while it is locked; a changed `value` is written at the end."""

    value: dict[str, Any] = field(default_factory=dict)
    damaged: bool = False
    """The content was none of ours: its writer died in the middle, or something else has written there."""


@contextlib.contextmanager
def change_shared(folder: Path, name: str, *, mode: int = FOLDER_MODE) -> Iterator[SharedFile]:
    """The locked file `name` below `folder`, both made when they are not there; `mode` is the new folder's.

    Raises Busy, CannotWrite (also for a link, or what is no plain file) and NotEnoughSpace.
    """
    with contextlib.ExitStack() as open_things:
        with _as_ours(folder, name):
            place = _open_folder(folder, mode)
            open_things.callback(os.close, place)
            descriptor = _open_locked(folder, place, name)
            open_things.callback(os.close, descriptor)
            shared = decode(os.pread(descriptor, FILE_BYTES, 0))
        before = json.dumps(shared.value, sort_keys=True)
        yield shared
        if json.dumps(shared.value, sort_keys=True) != before or shared.damaged:
            with _as_ours(folder, name):
                os.pwrite(descriptor, encode(shared.value), 0)


def read_shared(folder: Path, name: str) -> dict[str, Any]:
    """What the file holds; nothing when it does not exist, is damaged or may not be read. Waits for nobody."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return {}
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    except OSError:
        return {}
    finally:
        os.close(place)
    try:
        for _ in range(ATTEMPTS):
            shared = decode(os.pread(descriptor, FILE_BYTES, 0))
            if not shared.damaged:
                return shared.value
            time.sleep(POLL_SECONDS / 10)
        return {}
    except OSError:
        return {}
    finally:
        os.close(descriptor)


def _open_folder(folder: Path, mode: int) -> int:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        # The mode of mkdir is cut by the umask.
        folder.chmod(mode)
    except FileExistsError:
        pass
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    facts = os.fstat(place)
    if facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX and facts.st_uid == os.geteuid():
        # Its maker was interrupted between the two steps above, or has another idea of a shared folder.
        os.fchmod(place, mode)
    elif facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX:
        os.close(place)
        raise CannotWrite(
            f"{folder} may be written by everybody and lacks the sticky bit, so anybody could exchange its files.",
            remedy=f"Run `chmod 1777 {folder}` as its owner, or name another folder with ohforge.lease_dir.",
        )
    return place


def _open_locked(folder: Path, place: int, name: str) -> int:
    import fcntl

    deadline = Deadline.after(LOCK_SECONDS, f"the lock of {folder / name}")
    for _ in range(ATTEMPTS):
        descriptor = _open_or_make(place, name)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if deadline.expired:
                        raise Busy(
                            f"Another process has held {folder / name} for {LOCK_SECONDS:g} s, which should take "
                            "milliseconds.",
                            remedy=f"A stopped process holds it: `fuser {folder / name}` names it; end that one.",
                        ) from None
                    time.sleep(POLL_SECONDS)
            if _is_this(place, name, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # Something that tidies up has removed the file in the meantime.
        os.close(descriptor)
    raise CannotWrite(f"{folder / name} is removed again and again, or has a second name.")


def _open_or_make(place: int, name: str) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(FileNotFoundError):
        return os.open(name, flags, dir_fd=place)
    # Made under another name first: nobody may see it without its mode and its blocks.
    spare = f".{secrets.token_hex(8)}"
    descriptor = os.open(spare, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=place)
    try:
        os.fchmod(descriptor, 0o666)
        os.pwrite(descriptor, encode({}), 0)
        os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):
            os.link(spare, name, src_dir_fd=place, dst_dir_fd=place, follow_symlinks=False)
    finally:
        os.close(descriptor)
        os.unlink(spare, dir_fd=place)
    return os.open(name, flags, dir_fd=place)


def _is_this(place: int, name: str, descriptor: int) -> bool:
    """Whether the open file is the plain file of that name, and has no other: a second name could be anybody's file."""
    mine = os.fstat(descriptor)
    if not stat.S_ISREG(mine.st_mode):
        raise OSError(errno.EINVAL, "it is no plain file")
    try:
        named = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if mine.st_nlink != 1:
        time.sleep(POLL_SECONDS)  # Its maker has two names for it for a moment.
        return False
    return (named.st_dev, named.st_ino) == (mine.st_dev, mine.st_ino)


def encode(value: dict[str, Any]) -> bytes:
    """The bytes of a file that holds `value`. Raises OSError when they are too many."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
    data = hashlib.sha256(text).hexdigest().encode() + b" " + text
    if len(data) >= FILE_BYTES:
        raise OSError(errno.EFBIG, f"{len(data)} bytes are too many")
    return data.ljust(FILE_BYTES - 1) + b"\n"


def decode(data: bytes) -> SharedFile:
    """What the bytes of a file stand for."""
    digest, text = data[:DIGEST_LENGTH], data[DIGEST_LENGTH + 1 :].rstrip()
    if hashlib.sha256(text).hexdigest().encode() != digest:
        return SharedFile(damaged=True)
    try:
        value = json.loads(text)
        # What cannot be written again would stop whoever changes something else in it.
        encode(value)
    except (ValueError, RecursionError, OSError):
        return SharedFile(damaged=True)
    return SharedFile(value=value) if isinstance(value, dict) else SharedFile(damaged=True)


@contextlib.contextmanager
def _as_ours(folder: Path, name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NotEnoughSpace(f"There is no room for {folder / name}: {error.strerror}.") from error
        if error.errno == errno.ELOOP:
            why = "it is a link, which is not followed"
        elif error.errno == errno.ENOTDIR:
            why = f"{folder} is a link or no folder"
        else:
            why = error.strerror or str(error)
        raise CannotWrite(
            f"{folder / name} cannot be used: {why}.",
            remedy="Remove it, or name another folder with ohforge.lease_dir.",
        ) from error
