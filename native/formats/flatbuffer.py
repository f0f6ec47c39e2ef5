"""Reading FlatBuffers by hand, from files that nobody vouches for.

A table begins with the distance back to its vtable; the vtable holds the sizes of both and, for each slot, where
in the table its field lies (0: absent). Strings, vectors and tables are 32-bit offsets from the field that holds
them. The format: https://flatbuffers.dev/internals/. Every offset is checked before it is followed, and the number of
items that may be read in all is bounded, because a small file can refer to one long vector a million times.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.budget import Budget, Overdrawn

TABLE_ITEMS = 16
"""What a table counts as: it takes as much memory as so many items."""
TEXT_LIMIT = 1024
"""Longer names are cut: they are only shown."""
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_SCALARS = {code: struct.Struct("<" + code) for code in "?bBhHiIqQfd"}


class Damaged(ValueError):
    """An offset or a length leads out of the file, or the file asks for too much work."""


@dataclass
class FlatBuffer:
    """The bytes of one file. `size` is their number; nothing is copied but the fields that are asked for."""

    data: mmap.mmap | bytes
    size: int
    budget: Budget = field(default_factory=Budget)
    field_lists: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The slots of each vtable, which many tables share."""

    def root(self) -> Table:
        return self.table(self.u32(0, "the root offset"), "the root table")

    def u32(self, at: int, what: str) -> int:
        self.require(at, 4, what)
        return int(_U32.unpack_from(self.data, at)[0])

    def require(self, at: int, count: int, what: str) -> None:
        """Raises Damaged unless the bytes `at` to `at + count` are in the file."""
        if at < 0 or at + count > self.size:
            raise Damaged(f"{what} would end at byte {at + count}, but the file has {self.size} bytes")

    def spend(self, items: int, what: str) -> None:
        """Charges items that are about to be read. Raises Damaged when the budget is spent."""
        try:
            self.budget.spend(items, what)
        except Overdrawn as error:
            raise Damaged(str(error)) from error

    def table(self, at: int, what: str) -> Table:
        self.require(at, 4, what)
        vtable = at - int(_I32.unpack_from(self.data, at)[0])
        self.require(vtable, 4, f"the field list of {what}")
        length = int(_U16.unpack_from(self.data, vtable)[0])
        table_length = int(_U16.unpack_from(self.data, vtable + 2)[0])
        if length < 4 or length % 2:
            raise Damaged(f"the field list of {what} has the impossible length {length}")
        self.require(vtable, length, f"the field list of {what}")
        self.require(at, table_length, what)
        self.spend(TABLE_ITEMS, what)
        slots = self.field_lists.get(vtable)
        if slots is None:
            self.spend(length // 2, f"the field list of {what}")
            slots = self.field_lists[vtable] = struct.unpack_from(f"<{(length - 4) // 2}H", self.data, vtable + 4)
        return Table(buffer=self, at=at, length=table_length, slots=slots, what=what)


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table. `what` names it in messages."""

    buffer: FlatBuffer
    at: int
    length: int
    slots: tuple[int, ...]
    what: str

    def scalar(self, slot: int, code: str, default: float = 0) -> int | float:
        """The number in `slot`; `code` is that of the module `struct`."""
        packer = _SCALARS[code]
        at = self._field(slot, packer.size)
        return packer.unpack_from(self.buffer.data, at)[0] if at else default

    def integer(self, slot: int, code: str = "i", default: int = 0) -> int:
        return int(self.scalar(slot, code, default))

    def text(self, slot: int) -> str:
        """The string in `slot`, made safe to print; empty when there is none."""
        at, count = self._vector(slot, 1)
        raw = self.buffer.data[at : at + min(count, TEXT_LIMIT)]
        return printable(raw.decode("utf-8", "replace"))

    def numbers(self, slot: int, code: str) -> tuple[int, ...]:
        """The vector of numbers in `slot`; empty when there is none."""
        at, count = self._vector(slot, _SCALARS[code].size)
        self.buffer.spend(count, f"a list in {self.what}")
        return struct.unpack_from(f"<{count}{code}", self.buffer.data, at) if count else ()

    def byte_count(self, slot: int) -> int:
        """The length of the vector of bytes in `slot`; the bytes themselves are not touched."""
        return self._vector(slot, 1)[1]

    def table(self, slot: int, what: str) -> Table | None:
        at = self._field(slot, 4)
        return self.buffer.table(at + self.buffer.u32(at, what), what) if at else None

    def tables(self, slot: int, what: str) -> Iterator[Table]:
        """The tables of a vector, one after the other, each named `what` and its number."""
        at, count = self._vector(slot, 4)
        self.buffer.spend(count, f"the list of each {what}")
        for index in range(count):
            here = at + 4 * index
            yield self.buffer.table(here + int(_U32.unpack_from(self.buffer.data, here)[0]), f"{what} {index}")

    def _field(self, slot: int, size: int) -> int:
        """Where the field of `slot` lies; 0 when it is absent."""
        offset = self.slots[slot] if slot < len(self.slots) else 0
        if offset and (offset < 4 or offset + size > self.length):
            raise Damaged(f"field {slot} of {self.what} lies outside of it")
        return self.at + offset if offset else 0

    def _vector(self, slot: int, item_size: int) -> tuple[int, int]:
        """Where the items of the vector (or string) in `slot` begin, and how many there are."""
        at = self._field(slot, 4)
        if not at:
            return 0, 0
        start = at + self.buffer.u32(at, self.what)
        count = self.buffer.u32(start, f"the length of field {slot} of {self.what}")
        self.buffer.require(start + 4, count * item_size, f"field {slot} of {self.what}")
        return start + 4, count


def printable(text: str) -> str:
    """`text` without control characters, so that a file's name cannot steer the terminal that shows it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
