"""hdcd: the daemon on the emulated board, which speaks the real one's protocol over a local or a TCP socket."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deploy.emulator.disk import EmulatedBoard
from deploy.emulator.tasks import FileReceiveTask, FileSendTask, ShellTask, Task
from deploy.emulator.wire import (
    BANNER,
    Command,
    Level,
    LinkEnded,
    frame_start,
    pack,
    pack_tags,
    read_frame,
    text,
    unpack,
)
from deploy.profiles import Emulation

IDLE_EXIT = 42
"""Exit status by which hdcd tells init that nobody needs the board any more."""
LONGEST_LIFE = 4 * 3600.0
"""Seconds without any command after which even a program that still runs does not keep the board up."""
AUTH_OK = 4


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """The daemon of one board; `listening` are bound sockets."""

    board: EmulatedBoard
    shown: Emulation
    listening: list[socket.socket]

    def serve(self, ready: Callable[[], None]) -> int:
        """Serves until the board has been idle for its time; returns IDLE_EXIT."""
        threads: list[Session] = []
        ready()
        last = time.monotonic()
        while True:
            readable, _, _ = select.select(self.listening, [], [], 1.0)
            for server in readable:
                link, _ = server.accept()
                session = Session(link, self)
                session.start()
                threads.append(session)
            threads = [session for session in threads if session.is_alive()]
            if threads:
                last = time.monotonic()
            idle = time.monotonic() - last
            if idle > self.board.idle_seconds and (idle > LONGEST_LIFE or not _programs()):
                return IDLE_EXIT

    def environment(self) -> dict[str, str]:
        """What a command on the board finds in its environment."""
        return {**self.shown.environment, "COLUMNS": "80"}


def _programs() -> list[int]:
    """Processes on the board besides init and this one."""
    return [number for number in _processes() if number not in (1, os.getpid())]


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


class Session(threading.Thread):
    """One connection of an hdc server; many commands may run in it, each on a channel of its own."""

    def __init__(self, link: socket.socket, daemon: Daemon) -> None:
        super().__init__(daemon=True)
        self.board = daemon
        self._link = link
        self._lock = threading.Lock()
        self._tasks: dict[int, Task] = {}

    def run(self) -> None:
        try:
            self._greet()
            while True:
                channel, command, data = read_frame(self._link)
                self._handle(channel, command, data)
        except (LinkEnded, OSError):
            pass
        finally:
            for task in list(self._tasks.values()):
                task.stop()
            self._link.close()

    def send(self, channel: int, command: int, *parts: bytes | memoryview) -> None:
        """Sends one frame whose data is given in parts. Raises OSError when the link is gone."""
        data = b"".join(parts) if len(parts) != 1 else parts[0]
        with self._lock:
            self._link.sendall(frame_start(channel, command, len(data)))
            self._link.sendall(data)

    def echo(self, channel: int, level: Level, message: str) -> None:
        """A line for the user. The server passes it through printf, so every % is doubled."""
        self.send(channel, Command.ECHO, bytes([level]) + os.fsencode(message.replace("%", "%%")))

    def end(self, channel: int, *, fail: str = "", say: str = "") -> None:
        """Ends a command, with a message when one is given."""
        self._tasks.pop(channel, None)
        with contextlib.suppress(OSError):
            if fail:
                self.echo(channel, Level.FAIL, fail)
            if say:
                self.echo(channel, Level.PLAIN, say)
            self.send(channel, Command.CHANNEL_CLOSE, b"\x01")

    def _greet(self) -> None:
        _, command, data = read_frame(self._link)
        hello = unpack(data)
        if command != Command.HANDSHAKE or text(hello, 1) != BANNER:
            raise LinkEnded("no handshake")
        tags = {
            "emgmsg": "",
            "devname": self.board.shown.host_name,
            "daemonauthstatus": "SUCCESS",
            "1200": "enable",
            "supportfeatures": "heartbeat",
        }
        self.send(0, Command.HANDSHAKE, pack(BANNER, AUTH_OK, 0, b"", pack_tags(tags), text(hello, 6)))
        self.send(0, Command.CHANNEL_CLOSE, b"\x01")

    def _handle(self, channel: int, command: int, data: bytes) -> None:
        if command == Command.CHANNEL_CLOSE:
            self._close_channel(channel, data)
        elif command == Command.HEARTBEAT:
            pass
        elif command == Command.EXECUTE:
            self._start(channel, ShellTask(self, channel, data))
        elif command == Command.WAKEUP:
            self._start(channel, FileReceiveTask(self, channel))
        elif command == Command.FILE_INIT:
            self._start(channel, FileSendTask(self, channel, data))
        elif channel in self._tasks:
            self._tasks[channel].handle(command, data)
        else:
            self._handle_simple(channel, command, data)

    def _handle_simple(self, channel: int, command: int, data: bytes) -> None:
        if command == Command.REMOUNT:
            self.end(channel, fail="Mount failed")
        elif command == Command.JDWP_LIST:
            self.end(channel, say="[Empty]")
        elif command == Command.RUNMODE and data.startswith(b"usb"):
            self.end(channel, fail="[E001000]For USB debugging, please set it on the device's Settings UI")
        elif command == Command.RUNMODE:
            self.end(channel, say="Set device run mode successful." if b"close" not in data else "")
        elif command == Command.HILOG:
            self._start(channel, ShellTask(self, channel, b"hilog -h" if data else b"hilog"))
        elif command in (Command.FILE_DATA, Command.FILE_FINISH, Command.FILE_BEGIN, Command.FILE_CHECK):
            pass  # What was in flight when the transfer failed.
        else:
            self.end(channel, fail="Unknown command...")

    def _start(self, channel: int, task: Task) -> None:
        self._tasks[channel] = task
        task.start()

    def _close_channel(self, channel: int, data: bytes) -> None:
        count = data[0] if data else 0
        closing = list(self._tasks) if channel == 0 else [channel]
        for each in closing:
            task = self._tasks.pop(each, None)
            if task is not None:
                task.stop()
        if count > 0:
            self.send(channel, Command.CHANNEL_CLOSE, bytes([count - 1]))


def to_host(path: str) -> Path:
    """In namespaces the daemon sees the board's own paths."""
    return Path(path)


def is_running_program(state: os.stat_result) -> bool:
    """Whether a file is the program of a process, which makes it "busy"; qemu hides that from the kernel."""
    for number in _processes():
        folder = Path("/proc") / str(number)
        with contextlib.suppress(OSError, IndexError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            emulated = words[0].startswith(b"/system/emulator/qemu-")
            program = Path(os.fsdecode(words[7])) if emulated else folder / "exe"
            found = program.stat()
            if (found.st_dev, found.st_ino) == (state.st_dev, state.st_ino):
                return True
    return False
