"""The folder that an archive is unpacked into, guarded against archives that nobody vouches for.

Links are made last, after all files, so that no file can be written through one. What is refused: absolute
names, ``..``, links out of the tree, device nodes, pipes, and archives that grow beyond all measure.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from core.errors import DamagedArchive, HostileArchive
from core.files import human_bytes

Parts = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an archive may become: far above all that is known to be wanted, far below what fills a disk."""

    entries: int = 400_000
    total_bytes: int = 32_000_000_000
    ratio: float = 200.0
    """Unpacked bytes for each packed one, looked at once `ratio_from` bytes are unpacked."""
    ratio_from: int = 256_000_000
    header_bytes: int = 1_000_000
    """A tar header extension is never longer."""
    name_bytes: int = 1024
    """A name, or where a link leads to."""
    part_bytes: int = 255
    """One part of a name: no file system here takes more."""
    depth: int = 100


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file or link as it was unpacked; a link has a target and nothing else."""

    name: str
    size: int = 0
    mode: int = 0
    crc32: int = 0
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    files: int
    links: int
    total_bytes: int
    entries: tuple[Entry, ...] = ()
    """Of a zip, whose directory has a checksum for each file."""


class Tree:
    """The folder that an archive is unpacked into. Every name passes through here before it touches the disk."""

    def __init__(self, root: Path, packed_bytes: int, limits: Limits) -> None:
        self.root = root
        self.limits = limits
        self._packed_bytes = packed_bytes
        self._folders: set[Parts] = {()}
        self._files: dict[Parts, Path] = {}
        self._links: dict[Parts, str] = {}
        self._copies: list[tuple[Parts, Parts]] = []
        self._total = self._entries = 0

    def parts(self, name: str) -> Parts:
        """The parts of a member's name; raises HostileArchive for one that could lead out of the folder."""
        self._entries += 1
        if self._entries > self.limits.entries:
            raise HostileArchive(f"The archive has more than {self.limits.entries} entries.")
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        long = len(parts) > self.limits.depth or any(len(_encoded(part)) > self.limits.part_bytes for part in parts)
        if long or not self._is_text(name):
            raise HostileArchive(f"The archive holds the name {name[:80]!r}, which no source tree or SDK has.")
        if name.startswith("/") or ".." in parts or (parts and parts[0].endswith(":")):
            raise HostileArchive(f"The archive holds {name!r}, which would be written outside its folder.")
        return parts

    def folder(self, parts: Parts) -> None:
        for length in range(1, len(parts) + 1):
            head = parts[:length]
            if head in self._folders:
                continue
            if head in self._files or head in self._links:
                raise HostileArchive(f"The archive uses {'/'.join(head)!r} both as a folder and as a file or link.")
            self.root.joinpath(*head).mkdir(exist_ok=True)
            self._folders.add(head)

    def file(self, parts: Parts, size: int) -> Path:
        """Where a plain file is to be written; `size` is what it says it has, and is counted."""
        path = self._claim(parts)
        self.count(size)
        self._files[parts] = path
        return path

    def link(self, parts: Parts, text: str) -> None:
        """Notes a symbolic link, to be made when all files are there."""
        if not self._is_text(text) or _resolved(parts[:-1], text) is None:
            raise HostileArchive(
                f"The archive holds the link {'/'.join(parts)!r} to {text[:80]!r}, outside its folder."
            )
        self._claim(parts)
        self._links[parts] = text

    def copy(self, parts: Parts, of: Parts) -> None:
        """Notes a hard link to a file of the same archive."""
        if of not in self._files:
            raise DamagedArchive(f"The archive links {'/'.join(parts)!r} to {'/'.join(of)!r}, which is not in it.")
        self._copies.append((parts, of))
        self._files[parts] = self._claim(parts)

    def count(self, size: int) -> None:
        self._total += size
        self.expect(self._total)

    def expect(self, size: int) -> None:
        """Raises HostileArchive when so many bytes cannot be in the archive, whether they are wanted or passed over."""
        allowed = max(self.limits.ratio_from, self.limits.ratio * self._packed_bytes)
        if size > min(allowed, self.limits.total_bytes):
            raise HostileArchive(
                f"The archive of {human_bytes(self._packed_bytes)} unpacks to more than {human_bytes(size)}: "
                "it would fill the disk."
            )

    def finish(self) -> Unpacked:
        """Makes the links and looks where each really leads."""
        for parts, of in self._copies:
            os.link(self._files[of], self._files[parts])
        for parts, text in self._links.items():
            self.root.joinpath(*parts).symlink_to(text)
        root = self.root.resolve()
        for parts, text in self._links.items():
            try:
                inside = self.root.joinpath(*parts).resolve().is_relative_to(root)
            except (OSError, RuntimeError):  # links in a circle
                inside = False
            if not inside:
                raise HostileArchive(
                    f"The archive holds the link {'/'.join(parts)!r} to {text[:80]!r}, outside its folder."
                )
        return Unpacked(files=len(self._files), links=len(self._links), total_bytes=self._total)

    def _is_text(self, name: str) -> bool:
        """Whether a name can be written and shown: UTF-8, of bearable length, without control characters."""
        unseen = "\\" in name or any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in name)
        return not unseen and len(_encoded(name)) <= self.limits.name_bytes

    def _claim(self, parts: Parts) -> Path:
        if not parts or parts in self._folders or parts in self._files or parts in self._links:
            raise HostileArchive(f"The archive holds {'/'.join(parts) or '.'!r} more than once.")
        self.folder(parts[:-1])
        return self.root.joinpath(*parts)


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _resolved(folder: Parts, text: str) -> Parts | None:
    """Where a link in `folder` points to, by its text alone; None when that is outside."""
    if not text or text.startswith("/"):
        return None
    at = list(folder)
    for part in text.split("/"):
        if part == "..":
            if not at:
                return None
            at.pop()
        elif part not in ("", "."):
            at.append(part)
    return tuple(at)
