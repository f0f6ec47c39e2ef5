"""Unpacking archives that nobody vouches for: nothing leaves the folder, and a folder is whole or not there."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import IO, TYPE_CHECKING, cast

from core.errors import DamagedArchive, HostileArchive
from core.files import CHUNK, atomic_folder, human_bytes
from core.tree import Entry, Limits, Parts, Tree, Unpacked

if TYPE_CHECKING:
    from typing_extensions import Buffer

OnBytes = Callable[[int], None]
LONGEST_LINK = 4096
"""Bytes of where a link leads to: PATH_MAX."""
XZ_MEMORY = 256 * 1024 * 1024
"""Bytes; `xz -9` makes files that take 65 MiB."""


def unpack_tar(
    archive: Path,
    target: Path,
    *,
    subfolder: str = "",
    exclude: Sequence[str] = (),
    limits: Limits | None = None,
    on_bytes: OnBytes | None = None,
) -> Unpacked:
    """Unpacks a tar (plain, gzip or xz) in one pass into the new folder `target`, which appears when all is well.

    `subfolder` keeps only what lies below that folder and puts it at the top; its first part may be ``*`` for the
    single top folder that source archives have. `exclude` are shell patterns of names below it; a pattern that fits
    a folder leaves out all in it. `on_bytes` is told how many bytes of the archive were read since the last time.

    Raises HostileArchive, DamagedArchive, or OSError of the disk; then `target` is as before.
    """
    with atomic_folder(target) as folder, _damage(archive):
        tree = Tree(folder, archive.stat().st_size, limits or Limits())
        with io.BufferedReader(_Counted(archive, on_bytes), CHUNK) as file:
            stream = _decompressed(file, archive)
            with stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=_header_class(tree.limits)) as tar:
                for member in tar:
                    tree.expect(tar.offset)  # up to there `tarfile` passes over piece by piece, as if it were there
                    parts = _selected(tree.parts(member.name), subfolder, exclude)
                    if parts is not None:
                        _add_tar_member(tree, tar, member, parts, subfolder)
                while stream.read(CHUNK):  # the checksum of the compression stands at its end
                    pass
        done = tree.finish()
        if not done.files:
            raise DamagedArchive(f"{archive.name} holds no files{f' below {subfolder}' if subfolder else ''}.")
        return done


def unpack_zip(
    archive: Path,
    target: Path,
    *,
    subfolder: str = "",
    exclude: Sequence[str] = (),
    limits: Limits | None = None,
    on_bytes: OnBytes | None = None,
    workers: int = 0,
) -> Unpacked:
    """Unpacks a zip into the new folder `target` as `unpack_tar` does; `on_bytes` is told unpacked bytes."""
    with atomic_folder(target) as folder:
        return unpack_zip_into(
            archive, folder, subfolder=subfolder, exclude=exclude, limits=limits, on_bytes=on_bytes, workers=workers
        )


def unpack_zip_into(
    archive: Path,
    folder: Path,
    *,
    subfolder: str = "",
    exclude: Sequence[str] = (),
    limits: Limits | None = None,
    on_bytes: OnBytes | None = None,
    workers: int = 0,
) -> Unpacked:
    """Unpacks a zip into an existing folder of the caller's, who makes it appear or removes it.

    Mode bits and symbolic links come from the Unix half of the external attributes (APPNOTE 4.4.15), which may lack
    the file type: then the entry is a plain file.
    """
    with _damage(archive), zipfile.ZipFile(archive) as file:
        tree = Tree(folder, archive.stat().st_size, limits or Limits())
        chosen: list[tuple[zipfile.ZipInfo, Path]] = []
        entries: list[Entry] = []
        for info in file.infolist():
            parts = _selected(tree.parts(info.filename), subfolder, exclude)
            if parts is None:
                continue
            kind = stat.S_IFMT(_known_compression(archive, info).external_attr >> 16)
            if info.is_dir():
                tree.folder(parts)
            elif kind == stat.S_IFLNK:
                text = _link_text(file, info)
                tree.link(parts, text)
                entries.append(Entry(name="/".join(parts), link=text))
            elif kind in (0, stat.S_IFREG):
                chosen.append((info, tree.file(parts, info.file_size)))
                entries.append(Entry(name="/".join(parts), size=info.file_size, mode=_mode(info), crc32=info.CRC))
            else:
                raise HostileArchive(f"{archive.name}: {info.filename!r} is neither a file, a folder nor a link.")
        _write_all(file, chosen, on_bytes, workers or min(4, os.cpu_count() or 1))
        done = tree.finish()
        if not done.files:
            raise DamagedArchive(f"{archive.name} holds no files{f' below {subfolder}' if subfolder else ''}.")
        return replace(done, entries=tuple(entries))


def read_zip_member(archive: Path, member: str) -> Iterator[bytes]:
    """The content of one file in a zip, piece by piece. Raises DamagedArchive, also when it is not there."""
    with _damage(archive), zipfile.ZipFile(archive) as file:
        info = _known_compression(archive, file.getinfo(member))
        with file.open(info) as content:
            while chunk := content.read(CHUNK):
                yield chunk


def unpacked_bytes(archive: Path, limits: Limits | None = None) -> int:
    """What the directory of a zip says that it unpacks to. Raises DamagedArchive, HostileArchive."""
    with _damage(archive), zipfile.ZipFile(archive) as file:
        total = sum(info.file_size for info in file.infolist())
    if total > (limits or Limits()).total_bytes:
        raise HostileArchive(f"{archive.name} says that it unpacks to {human_bytes(total)}: it would fill the disk.")
    return total


def _known_compression(archive: Path, info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """`info` if it is packed in one of the ways that everybody uses: others may ask for any amount of memory."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DamagedArchive(f"{archive.name} cannot be read: compression {info.compress_type} is unknown.")
    return info


def _selected(parts: Parts, subfolder: str, exclude: Sequence[str]) -> Parts | None:
    """The parts below `subfolder`, or None when the member is not wanted (or is the folder itself)."""
    wanted = tuple(part for part in subfolder.split("/") if part)
    head, rest = parts[: len(wanted)], parts[len(wanted) :]
    if not rest or len(head) < len(wanted):
        return None
    if any(
        have != want and not (want == "*" and i == 0) for i, (have, want) in enumerate(zip(head, wanted, strict=True))
    ):
        return None
    for pattern in exclude:
        if any(fnmatch.fnmatchcase("/".join(rest[:n]), pattern.rstrip("/")) for n in range(1, len(rest) + 1)):
            return None
    return rest


def _add_tar_member(tree: Tree, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: Parts, subfolder: str) -> None:
    if member.isdir():
        tree.folder(parts)
    elif member.issym():
        tree.link(parts, member.linkname)
    elif member.islnk():
        of = _selected(tree.parts(member.linkname), subfolder, ())
        tree.copy(parts, of or (member.linkname,))
    elif member.isfile():
        content = tar.extractfile(member)
        assert content is not None
        with content, tree.file(parts, member.size).open("wb") as out:
            while chunk := content.read(CHUNK):
                out.write(chunk)
            os.fchmod(out.fileno(), 0o755 if member.mode & 0o111 else 0o644)
    else:
        raise HostileArchive(f"The archive holds {member.name!r}, which is neither a file, a folder nor a link.")


def _link_text(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    if info.file_size > LONGEST_LINK:
        raise HostileArchive(f"The archive holds the link {info.filename!r} with a target of {info.file_size} bytes.")
    try:
        with file.open(info) as content:  # not `file.read`: it makes room for what the entry claims to have packed
            return content.read(LONGEST_LINK).decode()
    except UnicodeDecodeError as error:
        raise HostileArchive(f"The link {info.filename!r} leads to a name that is not text.") from error


def _write_all(
    file: zipfile.ZipFile, chosen: Iterable[tuple[zipfile.ZipInfo, Path]], on_bytes: OnBytes | None, workers: int
) -> None:
    """Writes entries in several threads: decompression and checksums run outside Python's lock."""
    lock = Lock()

    def tell(count: int) -> None:
        if on_bytes is not None:
            with lock:
                on_bytes(count)

    with ThreadPoolExecutor(max_workers=workers) as pool:
        jobs: list[Future[None]] = [pool.submit(_write_one, file, info, path, tell) for info, path in chosen]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _write_one(file: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, tell: OnBytes) -> None:
    with file.open(info) as content, path.open("wb", buffering=0) as out:
        left = info.file_size
        while chunk := content.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise HostileArchive(f"{info.filename!r} is larger than the archive's directory says.")
            out.write(chunk)
            tell(len(chunk))
        os.fchmod(out.fileno(), _mode(info))


def _mode(info: zipfile.ZipInfo) -> int:
    """The mode bits that a file gets: its own, but writable by its owner and by nobody else."""
    return ((info.external_attr >> 16) & 0o777 & ~0o022) | 0o600 if info.external_attr >> 16 else 0o644


class _Counted(io.FileIO):
    """A file that tells how far it was read."""

    def __init__(self, path: Path, on_bytes: OnBytes | None) -> None:
        super().__init__(path, "rb")
        self._on_bytes = on_bytes

    def readinto(self, buffer: Buffer, /) -> int | None:
        count = super().readinto(buffer)
        if self._on_bytes is not None and count:
            self._on_bytes(count)
        return count


def _decompressed(file: io.BufferedReader[_Counted], archive: Path) -> IO[bytes]:
    """The tar inside the compression that the first bytes tell of, whatever the name says."""
    magic = file.peek(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="rb"))
    if magic.startswith(b"\xfd7zXZ"):
        return io.BufferedReader(_Unxz(file))
    if magic.startswith(b"PK"):
        raise DamagedArchive(f"{archive.name} is a zip file, not a tar archive.")
    return file


class _Unxz(io.RawIOBase):
    """The plain bytes of an xz file, of one stream or several. A file says itself how much memory it takes: bounded."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream = self._new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        while True:
            if self._stream.eof and not self._begin_next():
                return 0
            data = b""
            if self._stream.needs_input and not (data := self._file.read(CHUNK)):
                raise EOFError("the compressed data ends too early")
            try:
                plain = self._stream.decompress(data, len(view))
            except lzma.LZMAError as error:
                if "limit" in str(error):
                    raise HostileArchive(
                        f"The archive asks for more than {human_bytes(XZ_MEMORY)} of memory to be unpacked."
                    ) from error
                raise
            if plain:
                view[: len(plain)] = plain
                return len(plain)

    def _begin_next(self) -> bool:
        """Begins the stream that follows; False when nothing but padding does (xz file format, 2.2)."""
        rest = self._stream.unused_data
        while not (rest := rest.lstrip(b"\0")):
            if not (rest := self._file.read(CHUNK)):
                return False
        self._stream = self._new()
        self._stream.decompress(rest, 0)
        return True

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)


def _header_class(limits: Limits) -> type[tarfile.TarInfo]:
    """A TarInfo that refuses header extensions which would be read into memory as a whole."""
    extensions = (
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    )

    class Header(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> tarfile.TarInfo:  # type: ignore[override]
            try:
                header = super().frombuf(buf, encoding, errors)
            except tarfile.HeaderError as error:
                if any(buf):  # `tarfile` takes it for the archive's end, and what follows would be lost unsaid
                    raise DamagedArchive(f"The archive is damaged: {error}.") from error
                raise
            if header.size < 0:  # GNU's binary numbers have a sign
                raise DamagedArchive(f"The archive is damaged: a member has {header.size} bytes.")
            if header.type in extensions and header.size > limits.header_bytes:
                raise HostileArchive(f"The archive has a header extension of {human_bytes(header.size)}.")
            return header

    return Header


@contextlib.contextmanager
def _damage(archive: Path) -> Iterator[None]:
    """Turns what the decompressors raise for broken input into DamagedArchive."""
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile) as error:
        raise DamagedArchive(f"{archive} is damaged or cut short: {error}.") from error
    except (ValueError, LookupError, ArithmeticError, struct.error) as error:  # numbers and texts that are none
        raise DamagedArchive(f"{archive} is damaged: {error}.") from error
    except (NotImplementedError, RuntimeError) as error:  # zipfile: unknown version, encrypted entry
        raise DamagedArchive(f"{archive} cannot be read: {error}.") from error
    except FileNotFoundError as error:
        if error.filename is not None and PurePosixPath(error.filename) == PurePosixPath(archive):
            raise DamagedArchive(f"There is no archive {archive}.") from error
        raise
    except OSError as error:
        if error.errno in (None, errno.EINVAL, errno.EMLINK):  # seeking before the begin; a file with 65,000 names
            raise DamagedArchive(f"{archive} is damaged: {error}.") from error
        raise
