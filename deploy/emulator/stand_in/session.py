"""The host's end of a session with a board's daemon: handshake, one command, its answers."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator

from deploy.emulator.protocol.wire import (
    BANNER,
    Auth,
    Command,
    LinkEnded,
    frame_start,
    number,
    pack,
    pack_tags,
    read_frame,
    text,
    unpack,
    unpack_tags,
)


class Session:
    """A session with a daemon. Raises LinkEnded whenever the connection is gone."""

    def __init__(self, connection: socket.socket, key: str, version: str) -> None:
        self._socket = connection
        self._sending = threading.Lock()
        """The connections of a forwarded port send from threads of their own."""
        self.channel = int.from_bytes(os.urandom(4), "little") or 1
        self.tags = self._greet(key, version)

    def send(self, command: int, *parts: bytes) -> None:
        """Sends one frame on this session's channel."""
        data = b"".join(parts) if len(parts) != 1 else parts[0]
        try:
            with self._sending:
                self._socket.sendall(frame_start(self.channel, command, len(data)))
                self._socket.sendall(data)
        except OSError as error:
            raise LinkEnded(str(error)) from error

    def send_patiently(self, command: int, data: bytes, *, patience: float, on_stuck: Callable[[], None]) -> None:
        """Sends one frame; `on_stuck` is told when the board has not read for `patience` seconds."""
        left = memoryview(frame_start(self.channel, command, len(data)) + data)
        while left:
            if not select.select([], [self._socket], [], patience)[1]:
                on_stuck()
                select.select([], [self._socket], [])
            try:
                left = left[self._socket.send(left, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise LinkEnded(str(error)) from error

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._socket.fileno() >= 0

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Frames of this session's channel up to the one that closes it."""
        while True:
            channel, command, data = read_frame(self._socket)
            if channel != self.channel:
                continue
            if command == Command.CHANNEL_CLOSE:
                self.close_channel(data)
                return
            yield command, data

    def close_channel(self, data: bytes = b"\x01") -> None:
        """Answers a close, and says once more that the client is gone, as the server does."""
        with contextlib.suppress(LinkEnded):
            if data and data[0] > 0:
                self.send(Command.CHANNEL_CLOSE, bytes([data[0] - 1]))
            self.send(Command.CHANNEL_CLOSE, b"\x00")

    def break_off(self) -> None:
        """Ends the connection under a thread that reads from it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _greet(self, key: str, version: str) -> dict[str, str]:
        session = int.from_bytes(os.urandom(4), "little")
        asked = pack_tags({"authtype": "1", "supportfeatures": f"{version},TCP,linux,heartbeat"})
        hello = pack(BANNER, 0, session, key.encode(), asked, f"{version}{os.urandom(8).hex()}".encode())
        self._send_on(0, Command.HANDSHAKE, hello)
        tags: dict[str, str] = {}
        while True:
            channel, command, data = read_frame(self._socket)
            if channel == 0 and command == Command.HANDSHAKE:
                answer = unpack(data)
                if number(answer, 2) == Auth.OK:
                    # To an old host the board tells its name alone.
                    tags = unpack_tags(text(answer, 5)) or {"devname": text(answer, 5).decode("utf-8", "replace")}
                elif number(answer, 2) in (Auth.PUBLIC_KEY, Auth.SIGNATURE):
                    self._identify(number(answer, 2), text(answer, 5), session, key, version)
                else:
                    raise LinkEnded("the board refuses this host's key")
            elif channel == 0 and command == Command.CHANNEL_CLOSE:
                self._send_on(0, Command.CHANNEL_CLOSE, b"\x00")
                return tags

    def _identify(self, kind: int, asked: bytes, session: int, key: str, version: str) -> None:
        from deploy.emulator.protocol import auth

        own = auth.host_key()
        reply = auth.introduction(own) if kind == Auth.PUBLIC_KEY else auth.sign(own, asked)
        self._send_on(0, Command.HANDSHAKE, pack(BANNER, kind, session, key.encode(), reply, version.encode()))

    def _send_on(self, channel: int, command: int, data: bytes) -> None:
        try:
            self._socket.sendall(frame_start(channel, command, len(data)) + data)
        except OSError as error:
            raise LinkEnded(str(error)) from error
