"""What an hdc server remembers between commands: connected TCP boards, lost ones, forwarded ports.

A real server is a process; here it is a file in the temporary folder, one for each port, as there can be one
server for each port and temporary folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.emulator.stand_in.arguments import BadArgument

PORT = "OHOS_HDC_SERVER_PORT"
DEFAULT_PORT = 8710
PORT_DIGITS = 5
LONGEST_OPTION = 45
LARGEST_PORT = 65535


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
    forward_ip: str = "127.0.0.1"
    """Where forwarded ports are listened at."""
    stuck_on: str = ""
    process: int = 0
    """Process that serves other clients over TCP; 0: none."""
    born: str = ""
    """Made up when the server was started, so that another one on the same port is told apart."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server of one port and one temporary folder."""

    port: int
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / f".ohforge-hdc-{self.port}.json"

    @property
    def owner_file(self) -> Path:
        """The port of the only server of this temporary folder."""
        return self.folder / ".ohforge-hdc-owner"

    @property
    def pid_file(self) -> Path:
        """hdc's own file: the number of the server's process. It is there while a process serves other clients."""
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
            other = int(self.owner_file.read_text())
            if other != self.port and Server(port=other, folder=self.folder).runs:
                raise NoServer("Connect server failed\n", wait=True)
        # First, and in one piece: a `kill` finds the server by this file, and may come as soon as there is one.
        temporary = self.owner_file.with_suffix(f".{os.getpid()}")
        temporary.write_text(f"{self.port}\n")
        temporary.replace(self.owner_file)
        with self.change() as state:
            state.born = state.born or os.urandom(8).hex()

    def kill(self) -> State:
        """Ends the server of this temporary folder, whatever port it serves; returns what it still held."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            other = Server(port=int(self.owner_file.read_text()), folder=self.folder)
            state = other.read()
            for file in (other.file, self.owner_file, self.pid_file):
                file.unlink(missing_ok=True)
            return state
        return State()


def find_server(option: str) -> Server:
    """The server that a call means, from ``-s [IP:]PORT`` or the variable.

    Raises NoServer for a bad port in the variable, BadArgument for a bad option.
    """
    port = _port_of_option(option) if option else _port_of_variable(os.environ.get(PORT, ""))
    return Server(port=port, folder=temporary_folder())


def _port_of_variable(given: str) -> int:
    if not given:
        return DEFAULT_PORT
    if len(given) <= PORT_DIGITS and not given.isdigit():
        raise NoServer(f"{PORT} {given} is not digit\n")
    if len(given) > PORT_DIGITS or not 0 < int(given) <= LARGEST_PORT:
        raise NoServer(f"{PORT} {given} is not in (0, 65535] range\n")
    return int(given)


def _port_of_option(given: str) -> int:
    address, colon, port = given.rpartition(":")
    if len(given) > LONGEST_OPTION:
        raise BadArgument("Unknown content of parament '-s'\n")
    if not colon and len(port) > PORT_DIGITS:
        raise BadArgument("The port-string's length must < 5\n")
    if not (port or "0").isdigit():
        raise BadArgument(f"The port must be digit {'str' if colon else 'buf'}:{port}\n")
    if not 0 < int(port or 0) <= LARGEST_PORT:
        raise BadArgument("-s content port incorrect.\n" if colon else "Port range incorrect\n")
    try:
        if colon:
            ipaddress.ip_address(address)
    except ValueError:
        raise BadArgument("-s content IP incorrect.\n") from None
    return int(port)


def temporary_folder() -> Path:
    """Where a server keeps its files."""
    return Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108
