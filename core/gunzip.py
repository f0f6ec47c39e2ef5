"""Gzip decompression of a stream that can go on in another process, in the middle of the stream.

At the border of two deflate blocks the state of decompression is small: the last 32 KiB of output, and up to 7 bits of
the last byte (zlib's own examples/zran.c). Python's `zlib` does not tell where the borders are, so the same library is
called without it.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

from core.errors import DamagedArchive, HostToolMissing

MAGIC = 0x1F
"""The first byte of a member (RFC 1952, 2.3.1)."""
WINDOW = 32768
SLICE = 64 * 1024
"""Output that is given at once."""
TRAILER_BYTES = 8
GZIP, RAW = 31, -15
"""Window bits of zlib: with gzip's header and trailer, or without."""
STOP_AT_BORDERS, OK, STREAM_END, NO_PROGRESS = 5, 0, 1, -5
"""Z_BLOCK, Z_OK, Z_STREAM_END, Z_BUF_ERROR of zlib.h."""
AT_BORDER, IN_LAST_BLOCK = 128, 64
"""Bits of data_type, see inflate in zlib.h."""


@dataclass(frozen=True, kw_only=True)
class GunzipState:
    """Where decompression can go on."""

    window: bytes
    """The output just before that place."""
    bits: int
    """How many bits of `last_byte` are not used yet."""
    last_byte: int
    skip: int
    """Bytes between the begin of the piece of input in which the place lies and the place."""


class Gunzip:
    """Takes compressed bytes and gives the plain ones; raises DamagedArchive for what is not gzip.

    Members may follow one another, as `gzip` allows; zero bytes at the end are padding. After a `state` the checksum
    at the member's end is not compared: who saves states has a hash of the whole.
    """

    def __init__(self, state: GunzipState | None = None) -> None:
        self._zlib = _library()
        self._stream = _Stream()
        self._output = ctypes.create_string_buffer(SLICE)
        self._piece = b""
        self._last_byte = 0
        self._skip = state.skip if state is not None else 0
        self._raw = self._within = self._begun = state is not None
        bits = ctypes.c_int(RAW if state is not None else GZIP)
        version = ctypes.c_char_p(self._zlib.zlibVersion())
        self._must("inflateInit2_", bits, version, ctypes.c_int(ctypes.sizeof(_Stream)))
        weakref.finalize(self, self._zlib.inflateEnd, ctypes.byref(self._stream))
        if state is not None:
            self._must("inflatePrime", ctypes.c_int(state.bits), ctypes.c_int(state.last_byte >> (8 - state.bits)))
            self._must("inflateSetDictionary", state.window, ctypes.c_uint(len(state.window)))

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Plain bytes of `data`, piece by piece."""
        stream, output = self._stream, self._output
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        self._last_byte = self._piece[-1] if self._piece else self._last_byte
        self._piece = data
        stream.next_in, stream.avail_in = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0, len(data)
        self._pass_over(skipped)
        progress = True
        while progress and (stream.avail_in or self._within):
            if not self._within and not self._begin_member():
                return
            stream.next_out, stream.avail_out = ctypes.addressof(output), SLICE
            code = self._zlib.inflate(ctypes.byref(stream), STOP_AT_BORDERS)
            if code not in (OK, STREAM_END, NO_PROGRESS):
                raise DamagedArchive(f"The compressed data is damaged: {(stream.msg or b'').decode()}.")
            if stream.avail_out < SLICE:
                yield ctypes.string_at(output, SLICE - stream.avail_out)
            progress = code != NO_PROGRESS
            if code == STREAM_END:
                self._end_member()

    def finish(self) -> None:
        """Says that the stream ended; raises DamagedArchive when it may not end here."""
        if self._within or self._skip or not self._begun:
            raise DamagedArchive("The compressed data ends too early.")

    def save(self) -> GunzipState | None:
        """The state after what `feed` has just given; None when that is not the end of a block."""
        kind = self._stream.data_type
        if not self._within or not kind & AT_BORDER or kind & IN_LAST_BLOCK:
            return None
        window, length = ctypes.create_string_buffer(WINDOW), ctypes.c_uint()
        self._must("inflateGetDictionary", window, ctypes.byref(length))
        used = len(self._piece) - self._stream.avail_in
        last_byte = self._piece[used - 1] if used else self._last_byte
        return GunzipState(window=window.raw[: length.value], bits=kind & 7, last_byte=last_byte, skip=used)

    def _begin_member(self) -> bool:
        """False when nothing but padding follows."""
        at = len(self._piece) - self._stream.avail_in
        if self._begun and self._piece[at] == 0 and not self._piece[at:].strip(b"\0"):
            return False
        if self._piece[at] != MAGIC:
            raise DamagedArchive("The data is not gzip-compressed: it does not begin as gzip does.")
        self._must("inflateReset2", ctypes.c_int(GZIP))
        self._raw, self._within, self._begun = False, True, True
        return True

    def _end_member(self) -> None:
        self._within = False
        if self._raw:
            skipped = min(TRAILER_BYTES, self._stream.avail_in)
            self._pass_over(skipped)
            self._skip = TRAILER_BYTES - skipped

    def _pass_over(self, count: int) -> None:
        self._stream.next_in += count
        self._stream.avail_in -= count

    def _must(self, function: str, *arguments: object) -> None:
        code = getattr(self._zlib, function)(ctypes.byref(self._stream), *arguments)
        if code != OK:
            raise DamagedArchive(f"The decompression cannot go on: {function} of zlib says {code}.")


class _Stream(ctypes.Structure):
    """z_stream of zlib.h. zlib itself compares its size."""

    _fields_ = (
        ("next_in", ctypes.c_size_t),
        ("avail_in", ctypes.c_uint),
        ("total_in", ctypes.c_ulong),
        ("next_out", ctypes.c_size_t),
        ("avail_out", ctypes.c_uint),
        ("total_out", ctypes.c_ulong),
        ("msg", ctypes.c_char_p),
        ("state", ctypes.c_void_p),
        ("zalloc", ctypes.c_void_p),
        ("zfree", ctypes.c_void_p),
        ("opaque", ctypes.c_void_p),
        ("data_type", ctypes.c_int),
        ("adler", ctypes.c_ulong),
        ("reserved", ctypes.c_ulong),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    name = "libz.1.dylib" if sys.platform == "darwin" else "libz.so.1"
    try:
        library = ctypes.CDLL(name)
        library.zlibVersion.restype = ctypes.c_char_p
        return library
    except OSError as error:
        raise HostToolMissing(f"The library zlib ({name}) is not on this machine.", remedy="Install zlib1g.") from error
