"""A tar archive that is pushed in piece by piece, and whose place can be saved in the middle of a member."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from core.errors import DamagedArchive, HostileArchive

BLOCK = tarfile.BLOCKSIZE
LONGEST_EXTENSION = 1_000_000
LONG_NAMES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
PAX_HEADERS = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)


class Sink(Protocol):
    """Takes the content of one member."""

    def write(self, data: memoryview) -> None: ...

    def close(self) -> None:
        """Is told that the member is complete."""


OpenMember = Callable[[str, int], Sink | None]
"""Asked with the name and size of each plain file; None passes over it."""


@dataclass(kw_only=True)
class TarPlace:
    """How far a tar was read. `member` is the plain file that is being read, if any."""

    left: int = 0
    """Bytes of the member's content that are still to come."""
    padding: int = 0
    """Bytes after it, up to the next block."""
    member: str = ""
    size: int = 0
    held: bytes = b""
    """Begin of a header, or of a header extension, that has not come whole."""
    next_name: str = ""
    next_size: int | None = None
    extension: str = ""
    """Type of the header extension whose content is being read into `held`."""
    ended: bool = False
    seen: list[str] = field(default_factory=list)
    """Names of the plain files so far, for error messages."""


class TarStream:
    """Reads headers and hands the content of chosen members on. Raises DamagedArchive and HostileArchive."""

    def __init__(self, open_member: OpenMember, place: TarPlace | None = None) -> None:
        self.place = place or TarPlace()
        self._open_member = open_member
        self._sink = open_member(self.place.member, self.place.size) if self.place.member else None

    def feed(self, data: bytes) -> None:
        view = memoryview(data)
        place = self.place
        while view and not place.ended:
            if place.left:
                view = self._content(view)
            elif place.padding:
                skipped = min(place.padding, len(view))
                place.padding -= skipped
                view = view[skipped:]
            else:
                view = self._header(view)

    def finish(self) -> None:
        """Says that the stream ended. An archive without end blocks is taken when it ends between members."""
        if self.place.left or self.place.held:
            raise DamagedArchive(f"The archive ends in the middle of {self.place.member or 'a header'}.")

    def _content(self, view: memoryview) -> memoryview:
        place = self.place
        taken = view[: place.left]
        if place.extension:
            place.held += bytes(taken)
        elif self._sink is not None:
            self._sink.write(taken)
        place.left -= len(taken)
        if not place.left:
            if place.extension:
                self._use_extension()
            elif place.member:
                self._end_member()
        return view[len(taken) :]

    def _header(self, view: memoryview) -> memoryview:
        place = self.place
        taken = view[: BLOCK - len(place.held)]
        place.held += bytes(taken)
        if len(place.held) == BLOCK:
            block, place.held = place.held, b""
            self._read_header(block)
        return view[len(taken) :]

    def _read_header(self, block: bytes) -> None:
        place = self.place
        if not block.strip(b"\0"):
            place.ended = True
            return
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise DamagedArchive(f"The archive is damaged: {error}.") from error
        if header.size < 0:  # GNU's binary numbers have a sign
            raise DamagedArchive(f"The archive is damaged: a member has {header.size} bytes.")
        place.left = header.size
        if header.type in LONG_NAMES or header.type in PAX_HEADERS:
            if header.size > LONGEST_EXTENSION:
                raise HostileArchive(f"The archive has a header extension of {header.size} bytes.")
            place.extension = header.type.decode()
        elif header.type in tarfile.REGULAR_TYPES:
            self._begin_member(header)
        elif header.type != tarfile.XGLTYPE and not header.isreg():
            place.left = 0  # folders, links and the like have no content
            place.next_name, place.next_size = "", None
        place.padding = -place.left % BLOCK
        if not place.left:
            if place.extension:
                self._use_extension()
            elif place.member:
                self._end_member()

    def _begin_member(self, header: tarfile.TarInfo) -> None:
        place = self.place
        name = place.next_name or header.name
        place.left = place.size = header.size if place.next_size is None else place.next_size
        place.member = name
        place.next_name, place.next_size = "", None
        if len(place.seen) < 1000:
            place.seen.append(name)
        self._sink = self._open_member(name, place.size)

    def _end_member(self) -> None:
        if self._sink is not None:
            self._sink.close()
        self._sink = None
        self.place.member = ""

    def _use_extension(self) -> None:
        place = self.place
        content, kind = place.held, place.extension.encode()
        place.held, place.extension = b"", ""
        if kind == tarfile.GNUTYPE_LONGNAME:
            place.next_name = content.rstrip(b"\0").decode("utf-8", "surrogateescape")
        elif kind in PAX_HEADERS:
            records = _pax_records(content)
            place.next_name = records.get("path", place.next_name)
            if "size" in records:
                place.next_size = _number(records["size"].encode("utf-8", "surrogateescape"))


def _pax_records(content: bytes) -> dict[str, str]:
    """The records of an extended header: ``<length> <key>=<value>`` and a newline each (POSIX pax)."""
    records: dict[str, str] = {}
    while content:
        length_text, _, _ = content.partition(b" ")
        length = _number(length_text)
        if not len(length_text) + 2 < length <= len(content):
            raise DamagedArchive("The archive has a damaged header extension.")
        record = content[len(length_text) + 1 : length - 1]
        key, _, value = record.partition(b"=")
        records[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        content = content[length:]
    return records


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise DamagedArchive(f"The archive has a damaged header extension: {text[:40]!r} is no number.")
    return int(text)
