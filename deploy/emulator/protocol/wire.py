"""Frames and messages between an hdc server and the daemon on a board.

A frame is an 11-byte header, a head (channel, command) and the command's data; head and messages are
protobuf-compatible lists of varints and byte strings in which every field is written, in number order.
"""

from __future__ import annotations

import socket
import struct
from enum import IntEnum

MAGIC = b"HW"
PROTOCOL_VERSION = 1
V_CODE = 9
HEADER = struct.Struct(">2sHBHI")
LONGEST_BODY = 2**31 - 1
OLD_BLOCK = 49_152
"""Payload of a FILE_DATA frame for a peer that names no features in its FILE_BEGIN."""
PREFIX_BYTES = 64
BANNER = b"OHOS HDC"
BEGIN_FEATURES = b"\x05" + bytes(7)


class Command(IntEnum):
    """Command numbers as they stand in a frame's head."""

    HANDSHAKE = 1
    CHANNEL_CLOSE = 2
    ECHO = 9
    ECHO_RAW = 10
    WAKEUP = 12
    EXECUTE = 1001
    REMOUNT = 1002
    REBOOT = 1003
    RUNMODE = 1004
    HILOG = 1005
    ROOTRUN = 1007
    JDWP_LIST = 1008
    JDWP_TRACK = 1009
    BUGREPORT = 1011
    BUGREPORT_DATA = 1012
    EXECUTE_EX = 1200
    SHELL_START = 2000
    SHELL_DATA = 2001
    FORWARD_INIT = 2500
    FORWARD_CHECK = 2501
    FORWARD_CHECK_RESULT = 2502
    FORWARD_ACTIVE_SLAVE = 2503
    FORWARD_ACTIVE_MASTER = 2504
    FORWARD_DATA = 2505
    FORWARD_FREE = 2506
    FORWARD_SUCCESS = 2509
    FILE_INIT = 3000
    FILE_CHECK = 3001
    FILE_BEGIN = 3002
    FILE_DATA = 3003
    FILE_FINISH = 3004
    FILE_MODE = 3006
    DIR_MODE = 3007
    APP_CHECK = 3501
    APP_BEGIN = 3502
    APP_DATA = 3503
    APP_FINISH = 3504
    APP_UNINSTALL = 3505
    HEARTBEAT = 5000


class Level(IntEnum):
    """First byte of an ECHO: what the server puts before the text."""

    FAIL = 0
    INFO = 1
    PLAIN = 2


class Auth(IntEnum):
    """Kinds of handshake message."""

    NONE = 0
    SIGNATURE = 2
    PUBLIC_KEY = 3
    OK = 4
    FAIL = 5


class LinkEnded(Exception):
    """The other side closed the connection, or sent what is no frame."""


Field = int | bytes


def pack(*fields: Field) -> bytes:
    """A message whose fields are numbered 1, 2, 3 …"""
    out = bytearray()
    for number, field in enumerate(fields, 1):
        if isinstance(field, int):
            out += _varint(number << 3) + _varint(field)
        else:
            out += _varint(number << 3 | 2) + _varint(len(field)) + field
    return bytes(out)


def unpack(data: bytes) -> dict[int, Field]:
    """The fields of a message by number. Raises LinkEnded when it is none."""
    fields: dict[int, Field] = {}
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        if tag & 7 == 0:
            fields[tag >> 3] = value
        elif tag & 7 == 2 and at + value <= len(data):
            fields[tag >> 3] = bytes(data[at : at + value])
            at += value
        else:
            raise LinkEnded(f"a message with wire type {tag & 7}")
    return fields


def number(fields: dict[int, Field], index: int) -> int:
    value = fields.get(index, 0)
    return value if isinstance(value, int) else 0


def text(fields: dict[int, Field], index: int) -> bytes:
    value = fields.get(index, b"")
    return value if isinstance(value, bytes) else b""


def frame(channel: int, command: int, data: bytes = b"") -> bytes:
    """One whole frame."""
    return frame_start(channel, command, len(data)) + data


def frame_start(channel: int, command: int, size: int) -> bytes:
    """Header and head of a frame whose data of `size` bytes follows."""
    head = pack(channel, command, 0, V_CODE)
    return HEADER.pack(MAGIC, 0, PROTOCOL_VERSION, len(head), size) + head


def data_prefix(offset: int, size: int, *, compress: int = 0, unpacked: int | None = None) -> bytes:
    """The 64 bytes that stand before the bytes of a FILE_DATA frame."""
    return pack(offset, compress, size, size if unpacked is None else unpacked).ljust(PREFIX_BYTES, b"\0")


def parse_prefix(data: bytes) -> tuple[int, int, int, int]:
    """Offset, compression, size and unpacked size of a FILE_DATA frame."""
    values = []
    at = 0
    for _ in range(4):
        _, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        values.append(value)
    return values[0], values[1], values[2], values[3]


def read_frame(link: socket.socket) -> tuple[int, int, bytes]:
    """The next frame as (channel, command, data). Raises LinkEnded at the end of the connection."""
    magic, _, _, head_size, data_size = HEADER.unpack(read_exactly(link, HEADER.size))
    if magic != MAGIC or not 0 < head_size + data_size <= LONGEST_BODY:
        raise LinkEnded("what came is no hdc frame")
    head = unpack(read_exactly(link, head_size))
    if number(head, 4) != V_CODE:
        raise LinkEnded(f"vCode {number(head, 4)}")
    return number(head, 1), number(head, 2), read_exactly(link, data_size)


def read_exactly(link: socket.socket, size: int) -> bytes:
    """`size` bytes from a socket. Raises LinkEnded when they do not come."""
    data = bytearray()
    while len(data) < size:
        try:
            # Memory is taken for what has come, not for what was announced.
            chunk = link.recv(min(size - len(data), 1024 * 1024))
        except OSError as error:
            raise LinkEnded(str(error)) from error
        if not chunk:
            raise LinkEnded("closed")
        data += chunk
    return bytes(data)


def pack_tags(tags: dict[str, str]) -> bytes:
    """The ``buf`` of a handshake: tag and decimal length, each padded to 16 bytes, then the value; back to back."""
    return b"".join(f"{tag:<16}{len(value.encode()):<16}{value}".encode() for tag, value in tags.items())


def unpack_tags(data: bytes) -> dict[str, str]:
    """The tags of a handshake's ``buf``; empty when it has another form (hosts before 3.0)."""
    tags = {}
    at = 0
    while at + 32 <= len(data):
        length = data[at + 16 : at + 32].strip()
        if not length.isdigit():
            return {}
        end = at + 32 + int(length)
        tags[data[at : at + 16].decode("utf-8", "replace").strip()] = data[at + 32 : end].decode("utf-8", "replace")
        at = end
    return tags


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise LinkEnded("a number that does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
