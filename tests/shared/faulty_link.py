"""A TCP link to a server on loopback, which breaks in ways that are asked for by name."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

CHUNK = 16_384


@dataclass(kw_only=True)
class FaultyLink:
    """Links from a port of its own to `target`. A fault comes once, to the link by which `after` bytes have passed since it was set."""

    target: int
    listener: socket.socket
    rate: float = 0.0
    """Bytes a second of each link and direction; 0: as fast as it goes."""
    on_fault: Callable[[], object] = lambda: None
    """Is called when the fault comes."""
    _fault: str = ""
    _left: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def fault(self, name: str, after: int) -> None:
        """``cut``: both ends are closed; ``freeze``: nothing passes any more; ``flip``: one bit is changed; ``none``: nothing is."""
        assert name in ("cut", "freeze", "flip", "none")
        with self._lock:
            self._fault, self._left = name, after

    def serve(self) -> None:
        """Takes connections until the listener is closed."""
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(here,), daemon=True).start()

    def _join(self, here: socket.socket) -> None:
        frozen = threading.Event()
        with here, socket.create_connection(("127.0.0.1", self.target), timeout=60) as there:
            there.settimeout(None)
            pumps = [
                threading.Thread(target=self._pump, args=(*ends, frozen), daemon=True)
                for ends in ((here, there), (there, here))
            ]
            for pump in pumps:
                pump.start()
            for pump in pumps:
                pump.join()

    def _pump(self, source: socket.socket, sink: socket.socket, frozen: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK):
                name = self._take(len(chunk))
                if name == "cut":
                    break
                if name == "freeze":
                    frozen.set()
                if name == "flip":
                    chunk = chunk[:-1] + bytes([chunk[-1] ^ 1])
                if frozen.is_set():
                    self._over.wait()
                    break
                if self.rate:
                    time.sleep(len(chunk) / self.rate)
                sink.sendall(chunk)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _take(self, count: int) -> str:
        """The fault that comes with so many more bytes; empty for none."""
        with self._lock:
            if not self._fault:
                return ""
            self._left -= count
            if self._left > 0:
                return ""
            name, self._fault = self._fault, ""
        self.on_fault()
        return name

    def end(self) -> None:
        """Lets go what is frozen."""
        self._over.set()


@contextlib.contextmanager
def faulty_link(target: int) -> Iterator[FaultyLink]:
    """A link to the port `target` of loopback while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = FaultyLink(target=target, listener=listener)
        thread = threading.Thread(target=link.serve, daemon=True)
        thread.start()
        try:
            yield link
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=30)
            link.end()
