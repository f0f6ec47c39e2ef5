"""Frames of the hdc protocol, against bytes that were recorded from the real hdc and hdcd 3.2.0f."""

from __future__ import annotations

import socket
import tracemalloc

import pytest

from deploy.emulator.protocol.lz4_block import NotLz4, decompress
from deploy.emulator.protocol.wire import (
    BEGIN_FEATURES,
    Command,
    LinkEnded,
    data_prefix,
    frame,
    pack,
    pack_tags,
    parse_prefix,
    read_exactly,
    read_frame,
    unpack,
    unpack_tags,
)


def recorded(text: str) -> bytes:
    return bytes.fromhex(text)


EXECUTE = recorded(
    "48 57 00 00 01 00 0d 00 00 00 19 08 af 9d c4 8c 06 10 e9 07 18 00 20 09 22 65 63 68 6f 20 68 69 3b 20 65 63 68 6f"
    "20 74 68 65 72 65 20 3e 26 32 22"
)
FILE_CHECK = recorded(
    "48 57 00 00 01 00 0d 00 00 00 35 08 eb d4 84 cb 05 10 b9 17 18 00 20 09 08 1b 10 00 18 00 22 00 2a 12 2f 64 61 74"
    "61 2f 6c 6f 63 61 6c 2f 74 6d 70 2f 7a 31 32 06 65 78 65 2e 73 68 38 00 40 00 48 00 52 00 5a 03 2f 77 2f 62 00 6a 00"
)
HANDSHAKE = recorded(
    "48 57 00 00 01 00 08 00 00 00 a2 08 00 10 01 18 00 20 09 0a 08 4f 48 4f 53 20 48 44 43 10 00 18 c2 9d ef d9 0f"
    "22 0f 31 32 37 2e 30 2e 30 2e 31 3a 31 38 37 31 34 2a 60 61 75 74 68 74 79 70 65 20 20 20 20 20 20 20 20 31 20 20 20 20"
    "20 20 20 20 20 20 20 20 20 20 20 31 73 75 70 70 6f 72 74 66 65 61 74 75 72 65 73 20 33 31 20 20 20 20 20 20 20 20 20 20 20"
    "20 20 20 56 65 72 3a 20 33 2e 32 2e 30 66 2c 54 43 50 2c 6c 69 6e 75 78 2c 68 65 61 72 74 62 65 61 74"
    "32 1b 56 65 72 3a 20 33 2e 32 2e 30 66 37 33 63 34 38 37 66 38 62 33 34 61 32 62 61 35"
)


def test_an_execute_frame_has_the_recorded_bytes() -> None:
    channel = 0x2F | 0x1D << 7 | 0x44 << 14 | 0x0C << 21 | 0x06 << 28
    assert frame(channel, Command.EXECUTE, b'"echo hi; echo there >&2"') == EXECUTE


def test_a_file_check_has_the_recorded_bytes() -> None:
    channel = 0x6B | 0x54 << 7 | 0x04 << 14 | 0x4B << 21 | 0x05 << 28
    message = pack(27, 0, 0, b"", b"/data/local/tmp/z1", b"exe.sh", 0, 0, 0, b"", b"/w/", b"", b"")
    assert frame(channel, Command.FILE_CHECK, message) == FILE_CHECK


def test_a_handshake_has_the_recorded_bytes() -> None:
    session = 0x42 | 0x1D << 7 | 0x6F << 14 | 0x59 << 21 | 0x0F << 28
    tags = pack_tags({"authtype": "1", "supportfeatures": "Ver: 3.2.0f,TCP,linux,heartbeat"})
    message = pack(b"OHOS HDC", 0, session, b"127.0.0.1:18714", tags, b"Ver: 3.2.0f73c487f8b34a2ba5")
    assert frame(0, Command.HANDSHAKE, message) == HANDSHAKE


def test_the_tags_of_a_handshake_are_read_back() -> None:
    fields = unpack(HANDSHAKE[19:])
    buffer = fields[5]
    assert isinstance(buffer, bytes)
    assert unpack_tags(buffer) == {"authtype": "1", "supportfeatures": "Ver: 3.2.0f,TCP,linux,heartbeat"}


def test_text_of_an_old_host_holds_no_tags() -> None:
    assert unpack_tags(b"hostname") == {}
    assert unpack_tags(b"x" * 40) == {}


def test_the_prefix_of_file_data_has_the_recorded_bytes() -> None:
    assert data_prefix(0, 27) == recorded("08 00 10 00 18 1b 20 1b").ljust(64, b"\0")
    packed = data_prefix(0, 484, compress=1, unpacked=120_000)
    assert packed == recorded("08 00 10 01 18 e4 03 20 c0 a9 07").ljust(64, b"\0")
    assert parse_prefix(packed) == (0, 1, 484, 120_000)


def test_small_frames_have_the_recorded_bytes() -> None:
    channel = 0x6B | 0x54 << 7 | 0x04 << 14 | 0x4B << 21 | 0x05 << 28
    begin = recorded("48 57 00 00 01 00 0d 00 00 00 08 08 eb d4 84 cb 05 10 ba 17 18 00 20 09 05 00 00 00 00 00 00 00")
    assert frame(channel, Command.FILE_BEGIN, BEGIN_FEATURES) == begin
    heartbeat = recorded("48 57 00 00 01 00 09 00 00 00 04 08 00 10 88 27 18 00 20 09 08 00 12 00")
    assert frame(0, Command.HEARTBEAT, pack(0, b"")) == heartbeat
    mode = recorded(
        "08 e1 b5 80 90 0e 10 bf 17 18 00 20 09 08 ed 83 01 10 00 18 00 22 00 2a 08 74 72 65 65 2f 73 75 62"
    )
    channel = 0x61 | 0x35 << 7 | 0x00 << 14 | 0x10 << 21 | 0x0E << 28
    folder = pack(0o40755, 0, 0, b"", b"tree/sub")
    assert frame(channel, Command.DIR_MODE, folder)[11:] == mode


def test_a_frame_that_comes_byte_by_byte_is_read_whole() -> None:
    here, there = socket.socketpair()
    with here, there:
        for byte in EXECUTE + FILE_CHECK:
            there.send(bytes([byte]))
        assert read_frame(here)[1:] == (Command.EXECUTE, b'"echo hi; echo there >&2"')
        assert read_frame(here)[1] == Command.FILE_CHECK


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        EXECUTE[:30],
        b"HW" + EXECUTE[2:7] + b"\xff\xff\xff\xff" + EXECUTE[11:],
        EXECUTE[:23] + b"\x08" + EXECUTE[24:],
        b"",
    ],
    ids=["no frame", "cut", "too long", "another vCode", "nothing"],
)
def test_what_is_no_frame_ends_the_link(data: bytes) -> None:
    here, there = socket.socketpair()
    with here:
        with there:
            there.sendall(data)
        with pytest.raises(LinkEnded):
            read_frame(here)


@pytest.mark.parametrize("data", [b"\x08\xff", b"\x0d\x00\x00\x00\x00", b"\x0a\x05ab", b"\xff" * 12])
def test_a_hostile_message_is_refused(data: bytes) -> None:
    with pytest.raises(LinkEnded):
        unpack(data)


def test_an_lz4_block_is_unpacked() -> None:
    # By hand from the format: 4 literals "abcd", a copy of 8 from 4 back (overlapping), 1 literal "e".
    block = bytes([4 << 4 | 4]) + b"abcd" + b"\x04\x00" + bytes([1 << 4]) + b"e"
    assert decompress(block, 13) == b"abcdabcdabcde"


def test_long_lz4_lengths_are_added_up() -> None:
    literals = bytes(range(256)) + b"x" * 30
    block = b"\xf0" + bytes([255, 286 - 15 - 255]) + literals
    assert decompress(block, 286) == literals


@pytest.mark.parametrize(
    ("block", "size"),
    [(b"", 1), (b"\x50ab", 5), (b"\x10a\x05\x00\x10b", 9), (b"\x1fa\x01\x00\xff\xff\xff\x00\x10b", 10), (b"\x10a", 2)],
    ids=["empty", "literals missing", "copy from before the start", "larger than announced", "smaller than announced"],
)
def test_a_hostile_lz4_block_is_refused(block: bytes, size: int) -> None:
    with pytest.raises(NotLz4):
        decompress(block, size)


def test_a_frame_takes_no_memory_before_it_comes() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"few")
        there.shutdown(socket.SHUT_WR)
        tracemalloc.start()
        try:
            with pytest.raises(LinkEnded):
                read_exactly(here, 2**31 - 1)
            assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
        finally:
            tracemalloc.stop()
