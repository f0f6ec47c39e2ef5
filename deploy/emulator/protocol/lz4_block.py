"""Unpacking of LZ4 blocks, the form in which hdc sends files with ``-z``."""

from __future__ import annotations


class NotLz4(ValueError):
    """The bytes are no LZ4 block of the size that was announced."""


def decompress(block: bytes, size: int) -> bytes:
    """The `size` bytes that an LZ4 block stands for. Raises NotLz4. Format: LZ4 block format description 1.6."""
    out = bytearray()
    at = 0
    try:
        while True:
            token = block[at]
            count, at = _length(block, at + 1, token >> 4)
            if at + count > len(block):
                raise NotLz4("literals beyond the end")
            out += block[at : at + count]
            at += count
            if at == len(block):
                break
            distance = int.from_bytes(block[at : at + 2], "little")
            count, at = _length(block, at + 2, token & 15)
            _repeat(out, distance, count + 4, size)
    except IndexError as error:
        raise NotLz4("ends early") from error
    if len(out) != size:
        raise NotLz4(f"{len(out)} bytes in place of {size}")
    return bytes(out)


def _length(block: bytes, at: int, nibble: int) -> tuple[int, int]:
    count = nibble
    if nibble == 15:
        while True:
            byte = block[at]
            at += 1
            count += byte
            if byte != 255:
                break
    return count, at


def _repeat(out: bytearray, distance: int, count: int, size: int) -> None:
    if not 0 < distance <= len(out) or len(out) + count > size:
        raise NotLz4("a copy from outside")
    start = len(out) - distance
    pattern = out[start:]
    whole, part = divmod(count, distance)
    out += pattern * whole + pattern[:part]
