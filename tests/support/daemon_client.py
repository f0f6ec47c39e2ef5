"""A client that speaks to the daemon of an emulated board in frames, as an hdc server does."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

from deploy.emulator.protocol.wire import (
    Auth,
    Command,
    frame,
    number,
    pack,
    pack_tags,
    read_frame,
    text,
    unpack,
)

LONGEST_ANSWER = 60.0
"""Seconds; no answer takes nearly as long, on a busy machine included."""


def connect(port: int) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), timeout=30)
    link.sendall(frame(0, Command.HANDSHAKE, shake(Auth.NONE, pack_tags({"authtype": "1"}))))
    return link


def shake(kind: int, message: bytes) -> bytes:
    return pack(b"OHOS HDC", kind, 4242, b"127.0.0.1:1", message, b"Ver: 3.2.0f0123456789abcdef")


def answer(link: socket.socket) -> tuple[int, bytes]:
    """Kind and message of the next handshake frame."""
    while True:
        channel, command, data = read_frame(link)
        if command == Command.HANDSHAKE:
            assert channel == 0
            fields = unpack(data)
            assert (text(fields, 1), number(fields, 3), text(fields, 4)) == (b"OHOS HDC", 0, b"")
            return number(fields, 2), text(fields, 5)


def next_frame(link: socket.socket) -> tuple[int, int, bytes]:
    """The next frame that is no heartbeat. Raises TimeoutError when heartbeats are all that comes."""
    until = time.monotonic() + LONGEST_ANSWER
    while time.monotonic() < until:
        channel, command, data = read_frame(link)
        if command != Command.HEARTBEAT:
            return channel, command, data
    raise TimeoutError(f"the daemon did not answer within {LONGEST_ANSWER:g} s")


def output_of(link: socket.socket, channel: int, line: bytes) -> bytes:
    """What a command line prints, in however many frames it comes."""
    link.sendall(frame(channel, Command.EXECUTE, line))
    output = b""
    while (got := next_frame(link))[:2] == (channel, Command.ECHO_RAW):
        output += got[2]
    assert got == (channel, Command.CHANNEL_CLOSE, b"\1")
    return output


@contextlib.contextmanager
def agreed(port: int) -> Iterator[socket.socket]:
    """A connection to an open board, after both have shaken hands."""
    with connect(port) as link:
        answer(link)
        next_frame(link)
        yield link
