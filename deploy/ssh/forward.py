"""A port of an SSH board at a port of this computer, by channels of the board's connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from core.errors import Failure

if TYPE_CHECKING:
    from deploy.ssh.link import SshLink

CHUNK = 65_536
LOOPBACK = "127.0.0.1"


class _Stream(Protocol):
    """What a socket and a channel have in common."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> object: ...
    def shutdown(self, how: int, /) -> object: ...
    def close(self) -> object: ...


class SshForward:
    """A port of the board's loopback that can be connected to on this computer's, at the port `local`."""

    def __init__(self, link: SshLink, remote: int) -> None:
        self._link = link
        self._listener = socket.create_server((LOOPBACK, 0))
        self._open: set[_Stream] = set()
        self._lock = threading.Lock()
        self.remote = remote
        self.local = int(self._listener.getsockname()[1])

    def serve(self) -> None:
        """Takes connections until `close`; one that the board refuses is closed at once."""
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            try:
                there = self._link.open_port(self.remote)
            except Failure:
                here.close()
                continue
            self._join(here, there)

    def is_open(self) -> bool:
        """Whether the connection to the board still stands."""
        return self._link.is_open

    def close(self) -> None:
        """Listens no more, and ends all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            streams = list(self._open)
        for stream in streams:
            with contextlib.suppress(OSError, EOFError):
                stream.shutdown(socket.SHUT_RDWR)

    def _join(self, here: _Stream, there: _Stream) -> None:
        both = (here, there)
        with self._lock:
            self._open.update(both)
        pumps = [
            threading.Thread(target=_pump, args=pair, name="ssh forward", daemon=True) for pair in (both, both[::-1])
        ]
        for pump in pumps:
            pump.start()

        def end() -> None:
            for pump in pumps:
                pump.join()
            with self._lock:
                self._open.difference_update(both)
            for stream in both:
                stream.close()

        threading.Thread(target=end, name="ssh forward", daemon=True).start()


def _pump(source: _Stream, target: _Stream) -> None:
    """Hands on what comes until its end, and then the end."""
    with contextlib.suppress(OSError, EOFError):
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
    with contextlib.suppress(OSError, EOFError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def forward_ssh_port(link: SshLink, remote: int) -> Iterator[SshForward]:
    """Forwards a TCP port of the board's loopback to a free one of this computer's while the block runs."""
    forward = SshForward(link, remote)
    thread = threading.Thread(target=forward.serve, name="ssh forward", daemon=True)
    thread.start()
    try:
        yield forward
    finally:
        forward.close()
        thread.join()
