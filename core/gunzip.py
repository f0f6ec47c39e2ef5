"""Gzip decompression of a stream that can go on in another process, in the middle of the stream.

Deflate's state cannot be saved as such. But data that is compressed already, such as zip files inside a tar.gz, is
kept by deflate in *stored* blocks (RFC 1951, 3.2.4), and these begin at a byte with their length and its complement.
From there, a fresh decompressor that is given the last 32 KiB of output goes on as the first one would. Such a place
is searched by its pattern, and believed only after a second decompressor has given the same output for a while.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from core.errors import DamagedArchive

MAGIC = b"\x1f\x8b"
WINDOW = 32768
LONGEST_HEADER = 1_000_000
STORED_BLOCK = b"\x00"
"""Header of a stored block that is not the last: three zero bits, padded to a byte."""
TRIAL_BYTES = 128 * 1024
"""Output for which the second decompressor must agree."""
TRAILER_BYTES = 8
SLICE = 64 * 1024
"""Input that is decompressed at once: deflate makes at most 1032 times as much of it."""


@dataclass(frozen=True, kw_only=True)
class GunzipState:
    """Where decompression can go on: `window` is the output just before that place."""

    window: bytes
    crc: int
    length: int
    """Bytes of output of the current gzip member, modulo 2^32."""


class Gunzip:
    """Takes compressed bytes and gives the plain ones; raises DamagedArchive for what is not gzip.

    Members may follow one another, as `gzip` allows; zero bytes at the end are padding.
    """

    def __init__(self, state: GunzipState | None = None) -> None:
        self._body: zlib._Decompress | None = None
        """The decompressor within a member; None between members."""
        self._held = b""
        """Begin of a header or trailer that has not come whole."""
        self._window = b""
        self._crc = self._length = 0
        self._trial: _Trial | None = None
        self._begun = state is not None
        if state is not None:
            self._body = _decoder_from(state)
            self._window, self._crc, self._length = state.window, state.crc, state.length

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Plain bytes of `data`, piece by piece."""
        data, self._held = self._held + data if self._held else data, b""
        while data:
            if self._body is None:
                rest = self._begin_member(data)
            elif self._body.eof:
                rest = self._end_member(data)
            else:
                at = 0
                while at < len(data) and not self._body.eof:
                    yield from self._inflate(self._body, data[at : at + SLICE])
                    at += SLICE
                rest = self._body.unused_data + data[at:]
            if rest is None:
                self._held = data
                return
            data = rest

    def finish(self) -> None:
        """Says that the stream ended; raises DamagedArchive when it may not end here."""
        if self._body is not None or self._held or not self._begun:
            raise DamagedArchive("The compressed data ends too early.")

    def save(self) -> GunzipState | None:
        """The state, to be taken exactly before a place that `find_stored_block` names; None when there is none."""
        if self._body is None or self._body.eof or len(self._window) < WINDOW:
            return None
        return GunzipState(window=self._window, crc=self._crc, length=self._length)

    def try_out(self, state: GunzipState) -> None:
        """Begins to compare a decompressor made of `state` with this one; `trial` tells how that goes."""
        self._trial = _Trial(_decoder_from(state))

    @property
    def trial(self) -> bool | None:
        """True when the state that is tried out has proved right, False when wrong, None while it is not known."""
        return self._trial.verdict if self._trial is not None else False

    def _inflate(self, body: zlib._Decompress, data: bytes) -> Iterator[bytes]:
        try:
            plain = body.decompress(data)
        except zlib.error as error:
            raise DamagedArchive(f"The compressed data is damaged: {error}.") from error
        if self._trial is not None:
            self._trial.compare(data, plain, body.eof)
        if plain:
            self._crc = zlib.crc32(plain, self._crc)
            self._length = (self._length + len(plain)) & 0xFFFFFFFF
            self._window = plain[-WINDOW:] if len(plain) >= WINDOW else (self._window + plain)[-WINDOW:]
            yield plain

    def _begin_member(self, data: bytes) -> bytes | None:
        """What follows a member's header; None when more bytes are needed."""
        if self._begun and not data.strip(b"\0"):
            return b""
        if not MAGIC.startswith(data[: len(MAGIC)]) and not data.startswith(MAGIC):
            raise DamagedArchive("The data is not gzip-compressed: it does not begin as gzip does.")
        length = _header_length(data)
        if length is None:
            return None
        self._body = zlib.decompressobj(-zlib.MAX_WBITS)
        self._begun = True
        self._window, self._crc, self._length = b"", 0, 0
        return data[length:]

    def _end_member(self, data: bytes) -> bytes | None:
        if len(data) < TRAILER_BYTES:
            return None
        if data[:TRAILER_BYTES] != struct.pack("<II", self._crc, self._length):
            raise DamagedArchive("The compressed data is damaged: its checksum differs.")
        self._body = None
        return data[TRAILER_BYTES:]


class _Trial:
    """A decompressor that was begun in the middle, beside the one that began at the beginning."""

    def __init__(self, decoder: zlib._Decompress) -> None:
        self.verdict: bool | None = None
        self._decoder = decoder
        self._left = TRIAL_BYTES

    def compare(self, data: bytes, plain: bytes, ended: bool) -> None:
        if self.verdict is not None:
            return
        try:
            same = self._decoder.decompress(data, len(plain) + 1) == plain and not self._decoder.eof
        except zlib.error:
            same = False
        self._left -= len(plain)
        if not same or ended:
            self.verdict = False
        elif self._left <= 0:
            self.verdict = True


def find_stored_block(data: bytes, start: int = 0) -> int:
    """Index of the length field of what looks like a stored block followed by another, or -1."""
    if len(data) - start < 16:
        return -1
    view = memoryview(data)[start:]
    # Where a length is followed by its complement, both bytes of this are 255.
    pattern = (int.from_bytes(view[2:], "little") ^ int.from_bytes(view[:-2], "little")).to_bytes(
        len(view) - 2, "little"
    )
    at = pattern.find(b"\xff\xff")
    while at >= 0:
        following = at + 4 + int.from_bytes(view[at : at + 2], "little")
        if (
            following > at + 4
            and view[following : following + 1] == STORED_BLOCK
            and pattern[following + 1 : following + 3] == b"\xff\xff"
        ):
            return start + at
        at = pattern.find(b"\xff\xff", at + 1)
    return -1


def _decoder_from(state: GunzipState) -> zlib._Decompress:
    decoder = zlib.decompressobj(-zlib.MAX_WBITS, zdict=state.window)
    decoder.decompress(STORED_BLOCK)
    return decoder


def _header_length(data: bytes) -> int | None:
    """Bytes of a member's header (RFC 1952, 2.3); None when more are needed to tell."""
    if len(data) < 10:
        return None
    if data[2] != 8 or data[3] & 0xE0:
        raise DamagedArchive("The data is compressed in a way that gzip does not know.")
    flags, at = data[3], 10
    if flags & 4:
        if len(data) < at + 2:
            return None
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (8, 16):  # name, comment
        if flags & flag:
            end = data.find(b"\0", at)
            if end < 0:
                if len(data) > LONGEST_HEADER:
                    raise DamagedArchive("The data begins with a gzip header without end.")
                return None
            at = end + 1
    at += 2 if flags & 2 else 0
    return at if len(data) >= at else None
