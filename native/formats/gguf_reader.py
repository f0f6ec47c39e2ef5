"""A cursor over a GGUF file: numbers, texts and arrays, each compared with what is left of the file before it is read."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.budget import Budget, Overdrawn
from core.errors import ModelError
from core.files import human_bytes

MAX_DEPTH = 4
"""Arrays within arrays; none are known to exist."""
KEPT_ELEMENTS = 4096
"""Longer arrays (vocabularies) are not kept, only counted."""
TEXT_BYTES = 16
"""Bytes of a text that count as one item."""
SMALLEST_ENTRY = {"metadata": 8 + 4 + 1, "tensors": 8 + 4 + 4 + 8}
"""Bytes that one entry takes at least."""
SCALARS: dict[int, struct.Struct] = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
STRING, ARRAY = 8, 9


@dataclass(frozen=True, kw_only=True)
class LongArray:
    """An array of the metadata that was only counted."""

    count: int


class GgufReader:
    """A cursor over the file that never passes its end."""

    def __init__(self, content: mmap.mmap, path: Path) -> None:
        self.content = content
        self.path = path
        self.size = len(content)
        self.position = 0
        self.budget = Budget()

    def spend(self, items: int) -> None:
        """Charges items that are about to be read. A sparse file of a few kilobytes can claim more than memory holds."""
        try:
            self.budget.spend(items, f"byte {self.position}")
        except Overdrawn as error:
            raise self.error(f"has too much in its header: {error}") from error

    def error(self, what: str) -> ModelError:
        return ModelError(f"{self.path} {what}: it is damaged or not what it claims to be.")

    def scalar(self, kind: int) -> Any:
        form = SCALARS[kind]
        self._need(form.size)
        (value,) = form.unpack_from(self.content, self.position)
        self.position += form.size
        return value

    def count(self, what: str) -> int:
        """A number of entries, refused when the rest of the file cannot hold so many."""
        value = int(self.scalar(10))
        if value * SMALLEST_ENTRY[what] > self.size:
            raise self.error(f"claims to have {value} {what}, more than {human_bytes(self.size)} can hold")
        self.spend(TEXT_BYTES * value)
        return value

    def text(self) -> str:
        length = int(self.scalar(10))
        self._need(length)
        self.spend(1 + length // TEXT_BYTES)
        raw = self.content[self.position : self.position + length]
        self.position += length
        return raw.decode("utf-8", "replace")

    def value(self, depth: int = 0) -> Any:
        kind = int(self.scalar(4))
        if kind in SCALARS:
            return self.scalar(kind)
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            return self._array(depth)
        raise self.error(f"has a value of the unknown kind {kind}")

    def _array(self, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            raise self.error("nests arrays beyond all measure")
        kind, count = int(self.scalar(4)), int(self.scalar(10))
        if kind in SCALARS:
            return self._scalars(SCALARS[kind], count)
        if kind not in (STRING, ARRAY):
            raise self.error(f"has an array of the unknown kind {kind}")
        self.spend(count)
        self._need(count * 8)  # each text and each array begins with at least so many bytes
        if kind == STRING:
            return self._texts(count)
        items = tuple(self._array(depth + 1) for _ in range(count))
        return items if count <= KEPT_ELEMENTS else LongArray(count=count)

    def _scalars(self, form: struct.Struct, count: int) -> Any:
        self._need(count * form.size)
        begin = self.position
        self.position += count * form.size
        if count > KEPT_ELEMENTS:
            return LongArray(count=count)
        self.spend(count)
        return tuple(value for (value,) in form.iter_unpack(self.content[begin : self.position]))

    def _texts(self, count: int) -> Any:
        if count <= KEPT_ELEMENTS:
            return tuple(self.text() for _ in range(count))
        # A vocabulary has up to some hundred thousand texts: this loop is what the time goes into.
        content, size, position, unpack = self.content, self.size, self.position, SCALARS[10].unpack_from
        for _ in range(count):
            if position + 8 > size:
                raise self._cut()
            position += 8 + unpack(content, position)[0]
        self.position = position
        self._need(0)
        return LongArray(count=count)

    def _need(self, count: int) -> None:
        if self.position + count > self.size:
            raise self._cut()

    def _cut(self) -> ModelError:
        return ModelError(
            f"{self.path} is cut short or damaged: its header goes on behind the end of the file "
            f"({human_bytes(self.size)})."
        )
