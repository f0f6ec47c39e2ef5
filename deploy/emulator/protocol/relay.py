"""Forwarded ports: what both ends of a forward do with connections, whichever of them listens."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from deploy.emulator.protocol.wire import Command

ID_BYTES = 4
PARAMETER = bytes(8)
FIRST_ID = bytes(3) + b"\x01"
"""Number under which the end that listens asks the other whether it knows its node."""
CHUNK = 65_536
LOOPBACK = "127.0.0.1"
KINDS = ("tcp", "localabstract", "localreserved", "localfilesystem", "dev", "jdwp", "ark")
"""With one of these hdc begins to read a node; the emulated board has the first, the second and the fourth."""
Send = Callable[[int, bytes], None]


class BadNode(Exception):
    """A node is none of ``tcp:PORT``, ``localfilesystem:PATH``, ``localabstract:NAME``; or cannot be listened at."""


def check_node(node: str) -> None:
    """Raises BadNode unless the node can be forwarded."""
    kind, _, value = node.partition(":")
    if kind == "tcp" and value.isdigit() and 0 < int(value) < 65536:
        return
    if kind in ("localfilesystem", "localabstract") and value:
        return
    raise BadNode("Forward parament failed")


def listen_at(node: str, to_host: Callable[[str], Path] = Path, ip: str = LOOPBACK) -> socket.socket:
    """A listening socket; `ip` is the address of a port. Raises BadNode with hdc's words when it cannot be had."""
    check_node(node)
    kind, _, value = node.partition(":")
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    listener = socket.socket(family if kind == "tcp" else socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if kind == "tcp":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(_address(node, to_host, ip))
        listener.listen(16)
    except OSError as error:
        listener.close()
        reason = f"TCP Port listen failed at {value}" if kind == "tcp" else f"Unix pipe listen failed at {value}"
        raise BadNode(reason) from error
    return listener


def _address(node: str, to_host: Callable[[str], Path], ip: str = LOOPBACK) -> tuple[str, int] | str:
    kind, _, value = node.partition(":")
    if kind == "tcp":
        return (ip, int(value))
    return f"\0{value}" if kind == "localabstract" else str(to_host(value))


class Relay:
    """The connections of one forward at one end; `send` passes a frame to the other end."""

    def __init__(self, send: Send, to_host: Callable[[str], Path] = Path) -> None:
        self._send = send
        self._to_host = to_host
        self._open: dict[bytes, socket.socket] = {}
        self._ids = itertools.count(int.from_bytes(FIRST_ID, "big") + 1)
        self._listener: socket.socket | None = None

    def serve(self, listener: socket.socket, node: str) -> None:
        """Takes connections, each of which the other end is to connect to its `node`."""
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener, node), daemon=True).start()

    def handle(self, command: int, data: bytes) -> None:
        """A forward frame of the other end."""
        number, rest = data[:ID_BYTES], data[ID_BYTES:]
        if command == Command.FORWARD_ACTIVE_SLAVE:
            self._connect(number, rest[len(PARAMETER) :].rstrip(b"\0").decode("utf-8", "replace"))
        elif command == Command.FORWARD_ACTIVE_MASTER:
            self._start(number)
        elif command == Command.FORWARD_DATA:
            # Looked up once: the thread of that connection may close it at any moment.
            if (connection := self._open.get(number)) is not None:
                with contextlib.suppress(OSError):
                    connection.sendall(rest)
        elif command == Command.FORWARD_FREE:
            self._close(number)

    def close(self) -> None:
        """Ends all connections and listens no more."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for number in list(self._open):
            self._close(number)

    def _accept(self, listener: socket.socket, node: str) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            number = next(self._ids).to_bytes(ID_BYTES, "big")
            self._open[number] = connection
            with contextlib.suppress(OSError):
                self._send(Command.FORWARD_ACTIVE_SLAVE, number + PARAMETER + node.encode() + b"\0")

    def _connect(self, number: bytes, node: str) -> None:
        kind = socket.AF_INET if node.startswith("tcp:") else socket.AF_UNIX
        connection = socket.socket(kind, socket.SOCK_STREAM)
        try:
            check_node(node)
            connection.connect(_address(node, self._to_host))
        except (OSError, BadNode):
            connection.close()
            self._send(Command.FORWARD_FREE, number)
            return
        self._open[number] = connection
        self._send(Command.FORWARD_ACTIVE_MASTER, number)
        self._start(number)

    def _start(self, number: bytes) -> None:
        if (connection := self._open.get(number)) is not None:
            threading.Thread(target=self._pump, args=(number, connection), daemon=True).start()

    def _pump(self, number: bytes, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := connection.recv(CHUNK):
                self._send(Command.FORWARD_DATA, number + chunk)
        with contextlib.suppress(OSError):
            if number in self._open:
                self._send(Command.FORWARD_FREE, number)
        self._close(number)

    def _close(self, number: bytes) -> None:
        connection = self._open.pop(number, None)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
