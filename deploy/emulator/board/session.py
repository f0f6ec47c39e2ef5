"""The daemon's end of a session: what its commands use to talk to the host."""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import socket
import threading
from typing import Protocol

from deploy.emulator.board.injector import Injector, LinkCut, Restart
from deploy.emulator.board.running import RunningBoard
from deploy.emulator.protocol.wire import Command, Level, frame_start

RESTART_EXIT = 43
REBOOT_EXIT = 44
"""Exit statuses by which hdcd tells init to start it again, or to end all programs before."""


class Task(Protocol):
    """A command that runs on a channel."""

    def start(self) -> None: ...

    def handle(self, command: int, data: bytes) -> None:
        """A frame for this task."""

    def stop(self) -> None:
        """The other side is gone or has had enough."""


class Session:
    """One connection of an hdc server; many commands may run in it, each on a channel of its own."""

    def __init__(self, link: socket.socket, board: RunningBoard) -> None:
        self.board = board
        self.link = link
        self.refusal = ""
        """What every command of a host is answered with that may not use the board."""
        self._lock = threading.Lock()
        self.tasks: dict[int, Task] = {}

    def injector(self) -> Injector:
        """The faults that are on for the command that starts now."""
        return Injector(self.board.faults, self.is_gone)

    def send(self, channel: int, command: int, *parts: bytes | memoryview) -> None:
        """Sends one frame whose data is given in parts. Raises OSError when the link is gone."""
        data = b"".join(parts) if len(parts) != 1 else parts[0]
        with self._lock:
            self.link.sendall(frame_start(channel, command, len(data)))
            self.link.sendall(data)

    def echo(self, channel: int, level: Level, message: str) -> None:
        """A line for the user. The server passes it through printf, so every % is doubled."""
        self.send(channel, Command.ECHO, bytes([level]) + os.fsencode(message.replace("%", "%%")))

    def complain(self, channel: int, message: str) -> None:
        """A failure that does not end the command. Raises OSError."""
        self.echo(channel, Level.FAIL, _through_printf(message))

    def end(self, channel: int, *, fail: str = "", say: str = "") -> None:
        """Ends a command, with a message when one is given."""
        self.tasks.pop(channel, None)
        with contextlib.suppress(OSError):
            if fail:
                self.complain(channel, fail)
            if say:
                self.echo(channel, Level.PLAIN, say)
            self.send(channel, Command.CHANNEL_CLOSE, b"\x01")

    def break_off(self, channel: int, fault: LinkCut | Restart) -> None:
        """Sends the rest that the fault still lets through, then cuts the link or ends the daemon."""
        with contextlib.suppress(OSError):
            if fault.args and fault.args[0]:
                self.send(channel, Command.ECHO_RAW, fault.args[0])
            self.link.shutdown(socket.SHUT_RDWR)
        if isinstance(fault, Restart):
            os._exit(RESTART_EXIT)

    def is_gone(self) -> bool:
        """Whether the host has hung up."""
        if self.link.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self.link, select.POLLRDHUP)
        return any(event & (select.POLLRDHUP | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))


def _through_printf(message: str) -> str:
    """hdcd uses a message that holds a path as a printf format: what looks like a conversion comes back as memory."""
    return re.sub(r"%[dixuX]", lambda match: str(random.randrange(2**31)), message)  # noqa: S311
