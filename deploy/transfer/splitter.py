"""Cuts a large file into chunks, each a file of its own because hdc sends whole files only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from core.files import CHUNK
from deploy.transfer.store import StoredFile, file_changed


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A part of a local file, copied to `path`; sizes in bytes."""

    offset: int
    size: int
    hash: str
    path: Path

    @property
    def end(self) -> int:
        return self.offset + self.size


class Splitter:
    """Cuts a file into chunks, and watches whether they make up, in order, what the file was taken for."""

    def __init__(self, file: StoredFile, tool: str) -> None:
        self._file = file
        self._algorithm = "md5" if tool == "md5sum" else "sha256"
        self._whole = hashlib.sha256()
        self._read = 0
        self._in_order = True

    @property
    def proven(self) -> bool:
        return self._in_order and self._read == self._file.size and not self.differs

    @property
    def differs(self) -> bool:
        complete = self._in_order and self._read == self._file.size
        return complete and self._whole.hexdigest() != self._file.sha256

    def cut(self, at: int, size: int, path: Path) -> Chunk:
        """Copies `size` bytes from offset `at` to `path`."""
        self._in_order = self._in_order and at == self._read
        digest = hashlib.new(self._algorithm, usedforsecurity=False)
        left = size
        with self._file.local.open("rb") as source, path.open("wb") as target:
            source.seek(at)
            while left and (block := source.read(min(CHUNK, left))):
                digest.update(block)
                if self._in_order:
                    self._whole.update(block)
                target.write(block)
                left -= len(block)
        if left or self._file.has_changed:
            raise file_changed(self._file.local)
        self._read = at + size
        return Chunk(offset=at, size=size, hash=digest.hexdigest(), path=path)
