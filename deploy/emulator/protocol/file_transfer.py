"""File transfers, both ends of them: the same rules hold on the board and on the host."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from deploy.emulator.protocol.file_arguments import NotOpened, Options, TaskFailed, check_allowed, refuse_bundle
from deploy.emulator.protocol.lz4_block import decompress
from deploy.emulator.protocol.releases import Release, find_release
from deploy.emulator.protocol.wire import PREFIX_BYTES, data_prefix, number, pack, parse_prefix, text, unpack

REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EROFS: "read-only file system",
    errno.ETXTBSY: "text file is busy",
    errno.ENOSPC: "no space left on device",
    errno.EISDIR: "illegal operation on a directory",
    errno.ENOTDIR: "not a directory",
    errno.EEXIST: "file already exists",
    errno.ENAMETOOLONG: "name too long",
    errno.ELOOP: "too many symbolic links encountered",
    errno.EIO: "i/o error",
    errno.EFBIG: "file too large",
    errno.EDQUOT: "disk quota exceeded",
    errno.EINVAL: "invalid argument",
}


def reason(error: OSError) -> str:
    """An error in the words that hdc uses."""
    return REASONS.get(error.errno or 0, os.strerror(error.errno or 0).lower())


class OutOfSpace(OSError):
    """What the file system says of a full disk; `kept` is the part that still found room."""

    def __init__(self, kept: bytes | memoryview) -> None:
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.kept = kept


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file to be sent: where it lies and the name under which the other side gets it."""

    path: Path
    name: str


def list_sources(path: Path) -> list[Source]:
    """The files of a path: itself, or those of a tree in the order in which hdc sends them.

    Raises OSError when it cannot be read, TaskFailed for an empty tree.
    """
    path.stat()
    if not path.is_dir():
        return [Source(path=path, name=path.name)]
    found = [Source(path=file, name=f"{path.name}/{file.relative_to(path)}") for file in _walk(path)]
    if not found:
        raise TaskFailed("Operation failed, because the source folder is empty.")
    return found[::-1]


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        # A link to a folder is taken for a file, which ends the whole transfer when it is read.
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)
        else:
            yield entry


def list_folders(path: Path) -> list[tuple[str, os.stat_result]]:
    """Folders of a tree with their names for the other side, children before parents."""
    folders = [path, *(below for below in path.rglob("*") if below.is_dir() and not below.is_symlink())]
    names = {path.name if folder == path else f"{path.name}/{folder.relative_to(path)}": folder for folder in folders}
    return [(name, names[name].stat()) for name in sorted(names, reverse=True)]


class Outgoing:
    """One file on its way out."""

    def __init__(self, source: Source, destination: str, options: Options) -> None:
        self.source = source
        self._options = options
        self._destination = destination
        # os.open also opens a folder, which then cannot be read: that is how a link to a folder ends a transfer.
        self._descriptor = os.open(source.path, os.O_RDONLY)
        self.stat = os.fstat(self._descriptor)

    def mode_message(self) -> bytes:
        return pack(self.stat.st_mode, self.stat.st_uid, self.stat.st_gid, b"", b"")

    def check_message(self) -> bytes:
        """FILE_CHECK: size, times, where to, and how."""
        options = self._options
        keep = options.keep_times
        return pack(
            self.stat.st_size,
            self.stat.st_atime_ns // 1000 * 1000 if keep else 0,
            self.stat.st_mtime_ns // 1000 * 1000 if keep else 0,
            b"",
            os.fsencode(self._destination),
            os.fsencode(self.source.name),
            int(options.newer_only),
            int(options.compress),
            int(keep),
            b"",
            os.fsencode(options.cwd),
            options.bundle.encode(),
            b"",
        )

    def blocks(self, size: int) -> Iterator[tuple[bytes, bytes]]:
        """FILE_DATA as (prefix, payload of `size` bytes); one empty block for an empty file. Raises TaskFailed when
        reading fails."""
        offset = 0
        while True:
            try:
                payload = os.read(self._descriptor, size)
            except OSError as error:
                stop = f"Transfer Stop at:{offset}/{self.stat.st_size}(Bytes), Reason: {reason(error)}"
                raise TaskFailed(stop) from error
            if not payload and offset:
                return
            yield self._block(offset, payload)
            offset += len(payload)
            if offset >= self.stat.st_size:
                return

    def _block(self, offset: int, payload: bytes) -> tuple[bytes, bytes]:
        # With -z a block that does not get smaller travels as it is; here that is every block.
        return data_prefix(offset, len(payload)), payload

    def close(self) -> None:
        os.close(self._descriptor)


@dataclass
class Incoming:
    """The receiving end of one file command, which may bring many files."""

    to_host: Callable[[str], Path] = Path
    """Where a path of this side lies on the machine (the board without namespaces is a folder)."""
    is_busy: Callable[[os.stat_result], bool] = lambda stat: False
    refuses: Callable[[Path], OSError | None] = lambda place: None
    """What is answered in place of the file system: for faults, and where the machine would allow what a board forbids."""
    change: Callable[[bytes | memoryview, int], bytes | memoryview] = lambda payload, offset: payload
    """Sees all data before it is written, for faults."""
    release: Release = field(default_factory=find_release)
    base: str = ""
    """Folder to which a relative destination belongs."""
    files: int = 0
    bytes_received: int = 0
    started: float = field(default_factory=time.monotonic)
    _descriptor: int = -1
    path: str = ""
    """Where the present file goes."""
    _size: int = 0
    _here: int = 0
    _times: tuple[int, int] | None = None
    _strip: bool | None = None
    _mode: tuple[int, int, int] | None = None
    _folder_modes: dict[str, int] = field(default_factory=dict)

    @property
    def is_tree(self) -> bool:
        """Whether the files belong to a tree."""
        return self._strip is not None

    def take_mode(self, data: bytes, *, folder: bool) -> None:
        """FILE_MODE or DIR_MODE, which come before the FILE_CHECK that they belong to."""
        fields = unpack(data)
        if folder:
            self._folder_modes[os.fsdecode(text(fields, 5))] = number(fields, 1) & 0o7777
        else:
            self._mode = (number(fields, 1) & 0o7777, number(fields, 2), number(fields, 3))

    def open(self, data: bytes) -> None:
        """FILE_CHECK: opens the destination. Raises TaskFailed with hdc's words."""
        fields = unpack(data)
        name = os.fsdecode(text(fields, 6)).replace("\\", "/")
        typed = os.fsdecode(text(fields, 5))
        refuse_bundle(os.fsdecode(text(fields, 12)))
        check_allowed(typed, self.release)
        destination = typed if typed.startswith("/") else self.base + typed
        self._size, self._here = number(fields, 1), 0
        self._times = (number(fields, 2), number(fields, 3)) if number(fields, 9) else None
        self.path = self._tree_path(destination, name) if "/" in name else self._single_path(destination, name)
        if number(fields, 7):
            self._refuse_older(number(fields, 3))
        self._descriptor = self._open()

    def take(self, data: bytes) -> bool:
        """FILE_DATA: writes it; True when the file is complete. Raises TaskFailed when it cannot be written."""
        offset, compress, size, unpacked = parse_prefix(data[:PREFIX_BYTES])
        payload: bytes | memoryview = memoryview(data)[PREFIX_BYTES : PREFIX_BYTES + size]
        if compress:
            payload = decompress(bytes(payload), unpacked)
        try:
            self._write(self.change(payload, offset), offset)
        except OSError as error:
            if isinstance(error, OutOfSpace):
                self._write(error.kept, offset)
            self.close()
            stop = f"Transfer Stop at:{self._here}/{self._size}(Bytes), Reason: {reason(error)}"
            raise TaskFailed(stop) from error
        self._here += len(payload)
        self.bytes_received += len(payload)
        if self._here < self._size:
            return False
        self._complete()
        return True

    def _write(self, payload: bytes | memoryview, at: int) -> None:
        view = memoryview(payload)
        while view:
            count = os.pwrite(self._descriptor, view, at)
            at, view = at + count, view[count:]

    def summary(self) -> str:
        """The line that tells of a finished transfer; the rate may be ``inf`` or ``nan`` as hdc's own."""
        milliseconds = int((time.monotonic() - self.started) * 1000)
        rate = self.bytes_received / milliseconds if milliseconds else float("inf" if self.bytes_received else "nan")
        count = f"Size:{self.bytes_received}, File count = {self.files}"
        return f"FileTransfer finish, {count}, time:{milliseconds}ms rate:{rate:.2f}kB/s"

    def close(self) -> None:
        """Closes what is open; an unfinished file stays as it is, under its final name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _single_path(self, destination: str, name: str) -> str:
        if self.to_host(destination).is_dir():
            return f"{destination.rstrip('/')}/{name}"
        return destination + name if destination.endswith("/") else destination

    def _tree_path(self, destination: str, name: str) -> str:
        here = self.to_host(destination)
        if self._strip is None:
            if here.exists() and not here.is_dir():
                raise TaskFailed(f"Not a directory, path:{destination}")
            self._strip = not here.is_dir()
        if self._strip:
            name = name.partition("/")[2]
        path = f"{destination.rstrip('/')}/{name}"
        self._make_folders(path.rpartition("/")[0])
        if not self._strip:
            self._set_folder_modes(destination.rstrip("/"), name)
        return path

    def _set_folder_modes(self, destination: str, name: str) -> None:
        """With ``-m``, the folders on the way to a file get their modes; in a tree that is a copy they have no names."""
        names = name.split("/")[:-1]
        for count in range(1, len(names) + 1):
            folder = "/".join(names[:count])
            if folder in self._folder_modes:
                self.to_host(f"{destination}/{folder}").chmod(self._folder_modes[folder])

    def _make_folders(self, folder: str) -> None:
        missing = []
        while folder and not self.to_host(folder).is_dir():
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        for path in reversed(missing):
            place = self.to_host(path)
            try:
                if refusal := self.refuses(place):
                    raise refusal
                place.mkdir(mode=0o750)
            except FileExistsError:
                if place.is_dir():
                    continue
                raise TaskFailed(f"File exists, path:{path}") from None
            except OSError as error:
                told = path if path.startswith("/") else f"./{path}"
                raise TaskFailed(self.release.no_folder.format(reason=reason(error), path=told)) from error

    def _refuse_older(self, mtime_ns: int) -> None:
        # hdc compares seconds with nanoseconds, which makes the option useless; so it is.
        try:
            stat = self.to_host(self.path).stat()
        except OSError:
            return
        if int(stat.st_mtime) >= mtime_ns:
            raise TaskFailed(f"Target file is the same date or newer,path: {self.path}")

    def _open(self) -> int:
        place = self.to_host(self.path)
        try:
            # Where the folder is missing nobody gets as far as to be refused.
            if place.parent.is_dir() and (refusal := self.refuses(place)):
                raise refusal
            if place.is_file() and self.is_busy(place.stat()):
                raise OSError(errno.ETXTBSY, "busy")
            return os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            raise NotOpened(f"Error opening file: {reason(error)}, path:{self.path}") from error

    def _complete(self) -> None:
        if S_ISREG(os.fstat(self._descriptor).st_mode):
            os.fsync(self._descriptor)
        if self._mode is not None:
            with contextlib.suppress(OSError):  # Not every user may give files away.
                os.fchown(self._descriptor, self._mode[1], self._mode[2])
            os.fchmod(self._descriptor, self._mode[0])
        if self._times is not None:
            os.utime(self._descriptor, ns=self._times)
        self.close()
        self.files += 1
