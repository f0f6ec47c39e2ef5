"""The commands of the hdc stand-in: what the real client and server print, and when."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from deploy.emulator.arguments import Call
from deploy.emulator.disk import DEFAULT, PREFIX, EmulatedBoard, boards_home, connect, create_board, list_emulated
from deploy.emulator.link import Link
from deploy.emulator.state import Server
from deploy.emulator.wire import Command, Level, LinkEnded

NEWEST = "3.2.0f"
LEVELS = {Level.FAIL: b"[Fail]", Level.INFO: b"[Info]", Level.PLAIN: b""}
NEED_KEY = "[Fail]ExecuteCommand need connect-key? please confirm a device by help info"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A board as the server lists it."""

    key: str
    kind: str
    status: str
    name: str
    board: EmulatedBoard | None


@dataclass(frozen=True, kw_only=True)
class Client:
    """One call of hdc."""

    call: Call
    server: Server

    def run(self) -> None:
        """Answers the call."""
        call = self.call
        if "v" in call.flags or call.words == "version":
            write(f"Ver: {self.version}\n".encode())
        elif call.words == "kill":
            self.server.kill()
            if os.isatty(1):
                write(b"Kill server finish")
        elif call.words in _LOCAL:
            self.server.start()
            _LOCAL[call.words](self)
        else:
            self.server.start()
            self._run_on_board()

    @property
    def version(self) -> str:
        return os.environ.get("OHFORGE_EMULATOR_HDC_VERSION", NEWEST)

    def targets(self) -> list[Target]:
        """All boards that the server knows, sorted by key."""
        if not list_emulated():
            create_board(DEFAULT)
        found = []
        known = self.server.read().keys
        for board in list_emulated():
            status = known.get(board.key, {}).get("status", "Connected" if not board.port else "Unknown")
            found.append(
                Target(key=board.key, kind="TCP" if board.port else "USB", status=status, name="localhost", board=board)
            )
        return sorted((target for target in found if target.status != "Unknown"), key=lambda target: target.key)

    def target(self) -> Target | None:
        """The board that the call means; None after having said why there is none."""
        key = self.call.key
        name = key.removeprefix(PREFIX)
        if (
            key.startswith(PREFIX)
            and not (boards_home() / key).exists()
            and name in ("dayu200", "dayu200-arm64", "generic")
        ):
            create_board(key)
        targets = self.targets()
        if not key:
            usable = [target for target in targets if target.status == "Connected"]
            if len(usable) != 1:
                say(NEED_KEY)
                return None
            return usable[0]
        for target in targets:
            if target.key == key:
                if target.status != "Connected":
                    say("[Fail][E001005] Device not found or connected")
                    return None
                return target
        say("[Fail]Not match target founded, check connect-key please")
        return None

    def link(self, target: Target) -> Link:
        assert target.board is not None
        return Link(connect(target.board), target.key, f"Ver: {self.version}")

    def _run_on_board(self) -> None:
        from deploy.emulator import hdc_files

        handlers: dict[str, Callable[[Client], None]] = {
            "shell": run_shell,
            "file send": hdc_files.send_files,
            "file recv": hdc_files.receive_files,
        }
        handler = handlers.get(self.call.words)
        if handler is None:
            write(b"Unknown operation command...\n")
            return
        # A link that is cut ends the command in silence.
        with contextlib.suppress(LinkEnded):
            handler(self)


def run_shell(client: Client) -> None:
    """``shell TEXT``: raw output as it comes."""
    target = client.target()
    if target is None:
        return
    link = client.link(target)
    link.send(Command.EXECUTE, client.call.rest.strip(b" \t\r\n"))
    for command, data in link.answers():
        show(command, data)


def list_targets(client: Client) -> None:
    """``list targets [-v]``"""
    targets = client.targets()
    if "-v" in client.call.arguments:
        if not targets:
            write(b"[Empty]\r\thdc\n")
        for target in targets:
            write(f"{target.key}\t\t{target.kind}\t{target.status}\t{target.name}\thdc\n".encode())
        return
    listed = [target for target in targets if target.status == "Connected"]
    if not listed:
        say("[Empty]")
    for target in listed:
        write(f"{target.key}\n".encode())


def check_server(client: Client) -> None:
    write(f"Client version:Ver: {client.version}, server version:Ver: {client.version}\n".encode())


def nothing(client: Client) -> None:
    """Commands that print nothing."""


_LOCAL: dict[str, Callable[[Client], None]] = {
    "list targets": list_targets,
    "checkserver": check_server,
    "start": nothing,
}


def show(command: int, data: bytes) -> None:
    """Prints what a daemon sent: raw output as it is, a message with its mark and line end."""
    if command == Command.ECHO_RAW:
        write(data)
    elif command == Command.ECHO and data:
        say_bytes(LEVELS.get(Level(data[0]), b"") + data[1:].replace(b"%%", b"%"))


def say(text: str) -> None:
    say_bytes(text.encode())


def say_bytes(text: bytes) -> None:
    """A message of a server or a daemon: it ends in CR LF unless it has a line end already."""
    write(text if text.endswith(b"\n") else text + b"\r\n")


def log_line(level: str, text: bytes) -> None:
    """A line of the client's own log, which goes to standard output too."""
    write(f"[{level}][{time.strftime('%Y-%m-%d %H:%M:%S')}] ".encode() + text + b"\n")


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
