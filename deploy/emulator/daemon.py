"""hdcd: the daemon on the emulated board, which speaks the real one's protocol over a local or a TCP socket."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.board.profiles import Emulation
from deploy.emulator.disk import EmulatedBoard
from deploy.emulator.faults import PROGRAM_FAULTS, FaultFile
from deploy.emulator.greeting import greet
from deploy.emulator.injector import Injector, LinkCut, Restart
from deploy.emulator.memory import Memory
from deploy.emulator.rootfs import BOARD_LOG, PROGRAM_FAULTS_FILE
from deploy.emulator.tasks import FileReceiveTask, FileSendTask, ForwardTask, ShellTask, Task, TerminalTask
from deploy.emulator.versions import Words, words_of
from deploy.emulator.wire import Command, Level, LinkEnded, frame_start, pack, read_frame

if TYPE_CHECKING:
    from deploy.emulator.views import Started, View

IDLE_EXIT = 42
RESTART_EXIT = 43
REBOOT_EXIT = 44
"""Exit statuses by which hdcd tells init what is to happen next."""
HEARTBEAT_SECONDS = 5.0
LONGEST_LIFE = 4 * 3600.0
"""Seconds without any command after which even a program that still runs does not keep the board up."""


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """The daemon of one board; `listening` are bound sockets, `view` is how the sandbox shows the board."""

    board: EmulatedBoard
    shown: Emulation
    listening: list[socket.socket]
    folder: Path
    """The board's folder under a name that is also valid inside the sandbox."""
    view: View

    @property
    def words(self) -> Words:
        return words_of(self.board.version)

    @property
    def faults(self) -> FaultFile:
        return FaultFile(folder=self.folder)

    def serve(self, ready: Callable[[], None]) -> int:
        """Serves until the board has been idle for its time; returns IDLE_EXIT."""
        (self.folder / "run/generation").write_text(f"{os.urandom(8).hex()}\n")
        memory = self.shown.memory_kib
        Memory(view=self.view, total=memory["total"], available=memory["available"], swap=memory["swap"]).watch()
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
            if not (self.folder / "board.json").exists():
                return IDLE_EXIT  # Somebody has removed the board.
            if idle > self.board.idle_seconds and (idle > LONGEST_LIFE or not self.view.programs()):
                return IDLE_EXIT

    def run_shell(self, line: bytes) -> Started:
        """Starts ``/bin/sh -c LINE`` on the board. Raises OSError."""
        return self.view.run_shell(line, self._environment)

    def run_terminal(self, end: int) -> subprocess.Popen[bytes]:
        """Starts an interactive shell on a terminal of the board. Raises OSError."""
        return self.view.run_terminal(end, self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.shown.environment, "COLUMNS": "80", "OHFORGE_BOARD_LOG": BOARD_LOG}

    def spoil_programs(self, faults: Injector) -> None:
        """Gives the programs of a command their faults, which the scripts that start qemu read from a file."""
        used = {name: fault for name in PROGRAM_FAULTS if (fault := faults.use(name)) is not None}
        lines = [f"_{name.replace('-', '_')}={fault.get('bytes', 1):.0f}\n" for name, fault in used.items()]
        file = self.to_host(PROGRAM_FAULTS_FILE)
        with contextlib.suppress(OSError):
            if lines:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("".join(lines))
            else:
                file.unlink(missing_ok=True)

    def to_host(self, path: str) -> Path:
        """Where a path of the board lies for this process."""
        return self.view.to_host(path)

    def is_running_program(self, state: os.stat_result) -> bool:
        """Whether a file is the program of a process on the board, which makes it "busy"."""
        return self.view.is_running_program(state)


class Session(threading.Thread):
    """One connection of an hdc server; many commands may run in it, each on a channel of its own."""

    def __init__(self, link: socket.socket, daemon: Daemon) -> None:
        super().__init__(daemon=True)
        self.board = daemon
        self.link = link
        self.refusal = ""
        """What every command of a host is answered with that may not use the board."""
        self._lock = threading.Lock()
        self._tasks: dict[int, Task] = {}

    def run(self) -> None:
        try:
            secure = self.board.board.secure and self.board.words.authorises
            greet(self, secure=secure and self.link.family == socket.AF_INET)
            if self.link.family == socket.AF_INET and self.board.words.heartbeat:
                threading.Thread(target=self._beat, daemon=True).start()
            self.board.view.set_read_only("read-only" in self.board.faults.active())
            while True:
                channel, command, data = read_frame(self.link)
                self._handle(channel, command, data)
        except (LinkEnded, LinkCut, OSError):
            pass
        finally:
            for task in list(self._tasks.values()):
                task.stop()
            self.link.close()

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
        self._tasks.pop(channel, None)
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
        poll = select.poll()
        poll.register(self.link, select.POLLRDHUP)
        return any(event & (select.POLLRDHUP | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))

    def _beat(self) -> None:
        """Counts for the host every few seconds; nobody answers, and nobody notices when it ends."""
        with contextlib.suppress(OSError):
            for counter in itertools.count():
                self.send(0, Command.HEARTBEAT, pack(counter, b""))
                time.sleep(HEARTBEAT_SECONDS)

    def _handle(self, channel: int, command: int, data: bytes) -> None:
        if command == Command.CHANNEL_CLOSE:
            self._close_channel(channel, data)
        elif command == Command.HEARTBEAT:
            pass
        elif self.refusal:
            self.end(channel, fail=self.refusal)
        elif command == Command.EXECUTE:
            self._start(channel, ShellTask(self, channel, data))
        elif command == Command.SHELL_START:
            self._start(channel, TerminalTask(self, channel))
        elif command == Command.WAKEUP:
            self._start(channel, FileReceiveTask(self, channel))
        elif command == Command.FILE_INIT:
            self._start(channel, FileSendTask(self, channel, data))
        elif command in (Command.FORWARD_CHECK, Command.FORWARD_INIT) and channel not in self._tasks:
            self._start(channel, ForwardTask(self, channel))
            self._tasks[channel].handle(command, data)
        elif channel in self._tasks:
            self._tasks[channel].handle(command, data)
        else:
            self._handle_simple(channel, command, data)

    def _handle_simple(self, channel: int, command: int, data: bytes) -> None:
        if command == Command.REMOUNT:
            locked = self.board.words.tells_debug_mode and not self._is_debuggable
            self.end(channel, fail="[E007100] Operate need running under debug mode" if locked else "Mount failed")
        elif command == Command.JDWP_LIST:
            self.end(channel, say="[Empty]")
        elif command == Command.RUNMODE and data.startswith(b"usb"):
            self.end(channel, fail="[E001000]For USB debugging, please set it on the device's Settings UI")
        elif command == Command.RUNMODE:
            self._set_port(channel, data.split()[1:])
        elif command == Command.HILOG:
            self._start(channel, ShellTask(self, channel, b"hilog -h" if data.startswith(b"h") else b"hilog"))
        elif command == Command.ROOTRUN:
            self._change_user(channel)
        elif command == Command.REBOOT:
            os._exit(REBOOT_EXIT)
        elif command == Command.EXECUTE_EX:
            self._refuse_bundle(channel, data)
        elif command in (Command.FILE_DATA, Command.FILE_FINISH, Command.FILE_BEGIN, Command.FILE_CHECK):
            pass  # What was in flight when the transfer failed.
        else:
            self.end(channel, fail="Unknown command...")

    @property
    def _is_debuggable(self) -> bool:
        return self.board.shown.parameters.get("const.debuggable") == "1"

    def _set_port(self, channel: int, words: list[bytes]) -> None:
        """``tmode port [N]`` and ``tmode port close``: answered, and nothing changed."""
        if words and words[0] != b"close" and not words[0].isdigit():
            self.end(channel, fail="[E001100]Invalid port")
        else:
            self.end(channel, say="" if words[:1] == [b"close"] else "Set device run mode successful.")

    def _change_user(self, channel: int) -> None:
        if self._is_debuggable:
            os._exit(RESTART_EXIT)
        self.end(channel, fail="Cannot set root run mode in undebuggable version.")

    def _refuse_bundle(self, channel: int, data: bytes) -> None:
        """The board has no applications. Records: tag (0 command, 1 bundle) and length as u32, then the bytes."""
        at, bundle = 0, b""
        while at + 8 <= len(data):
            tag, length = int.from_bytes(data[at : at + 4], "little"), int.from_bytes(data[at + 4 : at + 8], "little")
            if tag == 1:
                bundle = data[at + 8 : at + 8 + length]
            at += 8 + length
        self.end(channel, fail=f"[E003001] Invalid bundle name: {os.fsdecode(bundle)}")

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


def _through_printf(message: str) -> str:
    """hdcd uses a message that holds a path as a printf format: what looks like a conversion comes back as memory."""
    return re.sub(r"%[dixuX]", lambda match: str(random.randrange(2**31)), message)  # noqa: S311
