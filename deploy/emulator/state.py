"""What an hdc server remembers between commands: connected TCP boards, lost ones, forwarded ports.

A real server is a process; here it is a file in the temporary folder, one for each port, as there can be one
server for each port and temporary folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PORT = "OHOS_HDC_SERVER_PORT"
DEFAULT_PORT = 8710


WAIT_SECONDS = 12.0
"""How long a client looks for a server before it gives up."""


class NoServer(Exception):
    """There is no server to be had; the text goes to standard error, at once or after the usual wait."""

    def __init__(self, text: str, *, wait: bool = False) -> None:
        super().__init__(text)
        self.wait = wait


@dataclass
class State:
    """A server's memory. `keys` holds what is known of each key: ``status``, ``type``."""

    keys: dict[str, dict[str, Any]] = field(default_factory=dict)
    forwards: list[dict[str, Any]] = field(default_factory=list)
    stuck_on: str = ""
    process: int = 0
    """Process that serves other clients over TCP; 0: none."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server of one port and one temporary folder."""

    port: int
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / f".ohforge-hdc-{self.port}.json"

    @property
    def pid_file(self) -> Path:
        """hdc's own lock file: whoever holds it is the only server of this temporary folder."""
        return self.folder / ".HDCServer.pid"

    @property
    def runs(self) -> bool:
        return self.file.exists()

    @contextlib.contextmanager
    def change(self) -> Iterator[State]:
        """Reads the memory, and writes it when the block has changed it; one process at a time."""
        with (self.folder / f".ohforge-hdc-{self.port}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.read()
            before = json.dumps(vars(state))
            yield state
            after = json.dumps(vars(state))
            if after != before or not self.file.exists():
                temporary = self.file.with_suffix(f".{os.getpid()}")
                temporary.write_text(after)
                temporary.replace(self.file)

    def read(self) -> State:
        try:
            return State(**json.loads(self.file.read_text()))
        except FileNotFoundError:
            return State()

    def start(self) -> None:
        """Makes the server exist. Raises NoServer when another port's server holds the temporary folder."""
        if self.runs:
            return
        with contextlib.suppress(FileNotFoundError, ValueError):
            other = int(self.pid_file.read_text().split()[0])
            if other != self.port and Server(port=other, folder=self.folder).runs:
                raise NoServer("Connect server failed\n", wait=True)
        with self.change():
            pass
        self.pid_file.write_text(f"{self.port}\n")

    def kill(self) -> State:
        """Ends the server of this temporary folder, whatever port it serves; returns what it still held."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            other = Server(port=int(self.pid_file.read_text().split()[0]), folder=self.folder)
            state = other.read()
            other.file.unlink(missing_ok=True)
            self.pid_file.unlink(missing_ok=True)
            return state
        return State()


def find_server(option: str) -> Server:
    """The server that a call means, from ``-s [IP:]PORT`` or the variable. Raises NoServer for a bad port."""
    given = option.rpartition(":")[2] if option else os.environ.get(PORT, "")
    port = DEFAULT_PORT
    if given:
        if not given.isdigit():
            raise NoServer(f"OHOS_HDC_SERVER_PORT {given} is not digit\n")
        port = int(given)
        if not 0 < port <= 65535:
            raise NoServer(f"OHOS_HDC_SERVER_PORT {given} is not in (0, 65535] range\n")
    return Server(port=port, folder=temporary_folder())


def temporary_folder() -> Path:
    """Where a server keeps its files."""
    return Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108
