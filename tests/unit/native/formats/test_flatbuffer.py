"""What a hostile file may cost: memory and work are bounded by what is charged before it is done."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from native.formats.flatbuffer import Damaged, FlatBuffer

SLOTS = 30_000


def with_tables(count: int, vtables: int) -> bytes:
    """A root with one list of `count` tables, which share `vtables` field lists of `SLOTS` slots that overlap."""
    list_at, root_vtable, root = 20, 4, 12
    tables_at = list_at + 4 + 4 * count
    field_lists_at = tables_at + 4 * count
    out = bytearray(struct.pack("<I3H2x", root, 6, 8, 4))
    out += struct.pack("<iI", root - root_vtable, list_at - (root + 4))
    out += struct.pack("<I", count) + struct.pack("<I", 4 * count) * count  # each table is as far from its pointer
    for number in range(count):
        at = tables_at + 4 * number
        out += struct.pack("<i", at - (field_lists_at + 4 * (number % vtables)))
    out += struct.pack("<HH", 4 + 2 * SLOTS, 4) * vtables
    return bytes(out) + bytes(2 * SLOTS)


def read_tables(content: bytes) -> int:
    return len(list(FlatBuffer(content, len(content)).root().tables(0, "node")))


def test_many_tables_with_one_huge_field_list_share_it() -> None:
    content = with_tables(500, 1)
    tracemalloc.start()
    try:
        assert read_tables(content) == 500
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_huge_field_lists_that_overlap_are_refused() -> None:
    with pytest.raises(Damaged, match="more than 4000000"):
        read_tables(with_tables(500, 500))
