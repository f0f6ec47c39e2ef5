"""What hdcd does on behalf of one command: run a shell, take a file, give a file."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from deploy.emulator.files import Incoming, Outgoing, TaskFailed, list_folders, list_sources, parse_arguments, reason
from deploy.emulator.wire import BEGIN_FEATURES, Command, pack

if TYPE_CHECKING:
    from deploy.emulator.daemon import Session

LARGEST_ECHO = 73_728
"""Bytes that one ECHO_RAW frame holds at most."""


class Task(Protocol):
    """A command that runs on a channel."""

    def start(self) -> None: ...

    def handle(self, command: int, data: bytes) -> None:
        """A frame for this task."""

    def stop(self) -> None:
        """The other side is gone or has had enough."""


class ShellTask:
    """``/bin/sh -c TEXT``, with the read end of its own output pipe as standard input, as hdcd does it."""

    def __init__(self, session: Session, channel: int, line: bytes) -> None:
        self._session = session
        self._channel = channel
        self._line = shell_text(line)
        self._wake_reader, self._wake_writer = os.pipe()
        self._shell: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        reader, writer = os.pipe()
        try:
            self._shell = subprocess.Popen(
                [b"/bin/sh", b"-c", self._line],
                stdin=reader,
                stdout=writer,
                stderr=writer,
                cwd="/",
                env=self._session.board.environment(),
                start_new_session=True,
            )
        except OSError as error:
            os.close(reader)
            os.close(writer)
            text = f"start shell failed -1: {os.strerror(error.errno or 0)}\n"
            self._session.send(self._channel, Command.ECHO_RAW, text.encode())
            self._session.end(self._channel)
            return
        os.close(writer)
        threading.Thread(target=self._pump, args=(reader,), daemon=True).start()
        threading.Thread(target=self._shell.wait, daemon=True).start()

    def handle(self, command: int, data: bytes) -> None:
        """Nothing reaches a shell command after its start."""

    def stop(self) -> None:
        """Only sh is told, and only by SIGTERM; what it started goes on."""
        if self._shell is not None and self._shell.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._shell.pid, signal.SIGTERM)
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b"x")

    def _pump(self, reader: int) -> None:
        try:
            while True:
                ready, _, _ = select.select([reader, self._wake_reader], [], [])
                if self._wake_reader in ready:
                    return
                chunk = os.read(reader, LARGEST_ECHO)
                if not chunk:
                    self._session.end(self._channel)
                    return
                self._session.send(self._channel, Command.ECHO_RAW, chunk)
        except OSError:
            self.stop()
        finally:
            os.close(reader)
            os.close(self._wake_reader)
            os.close(self._wake_writer)


def shell_text(line: bytes) -> bytes:
    """What sh gets: blanks trimmed, and one outer pair of double quotes removed."""
    line = line.rstrip(b"\0").strip(b" \t\r\n")
    if len(line) >= 2 and line.startswith(b'"') and line.endswith(b'"'):
        return line[1:-1]
    return line


class FileReceiveTask:
    """The board's end of ``file send``."""

    def __init__(self, session: Session, channel: int) -> None:
        from deploy.emulator.daemon import is_running_program, to_host

        self._session = session
        self._channel = channel
        self._incoming = Incoming(to_host=to_host, is_busy=is_running_program, base="/")

    def start(self) -> None:
        """The host speaks first."""

    def handle(self, command: int, data: bytes) -> None:
        try:
            self._handle(command, data)
        except TaskFailed as failed:
            self._incoming.close()
            self._session.end(self._channel, fail=str(failed))

    def stop(self) -> None:
        self._incoming.close()

    def _handle(self, command: int, data: bytes) -> None:
        if command in (Command.FILE_MODE, Command.DIR_MODE):
            self._incoming.take_mode(data, folder=command == Command.DIR_MODE)
            self._session.send(self._channel, Command.FILE_MODE, b"")
        elif command == Command.FILE_CHECK:
            self._incoming.open(data)
            self._session.send(self._channel, Command.FILE_BEGIN, BEGIN_FEATURES)
        elif command == Command.FILE_DATA:
            if self._incoming.take(data):
                self._session.send(self._channel, Command.FILE_FINISH, b"\x01")
        elif command == Command.FILE_FINISH:
            self._session.end(self._channel, say=self._incoming.summary())


class FileSendTask:
    """The board's end of ``file recv``."""

    def __init__(self, session: Session, channel: int, line: bytes) -> None:
        self._session = session
        self._channel = channel
        self._line = line.rstrip(b"\0")
        self._answers: list[tuple[int, bytes]] = []
        self._changed = threading.Condition()
        self._stopped = False

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def handle(self, command: int, data: bytes) -> None:
        with self._changed:
            self._answers.append((command, data))
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            self._session.send(self._channel, Command.WAKEUP)
            self._send_all()
        except TaskFailed as failed:
            self._session.end(self._channel, fail=str(failed))
        except (OSError, _Stopped):
            pass

    def _send_all(self) -> None:
        from deploy.emulator.daemon import to_host

        options, paths = parse_arguments(self._line)
        if not paths:
            raise TaskFailed("There is no local and remote path")
        remote, local = paths[-2:] if len(paths) > 1 else (paths[-1], ".")
        place = to_host(remote if remote.startswith("/") else f"/{remote}")
        try:
            sources = list_sources(place)
        except OSError as error:
            raise TaskFailed(f"Error opening file: {reason(error)}, path:{remote}") from error
        if options.modes and place.is_dir():
            self._send_folder_modes(place)
        for source in sources:
            try:
                outgoing = Outgoing(source, local, options)
            except OSError as error:
                raise TaskFailed(f"Error opening file: {reason(error)}, path:{remote}") from error
            with contextlib.closing(outgoing):
                self._send_one(outgoing, modes=options.modes)
        self._session.send(self._channel, Command.FILE_FINISH, b"\x00")

    def _send_folder_modes(self, place: Path) -> None:
        for name, state in list_folders(place):
            self._session.send(
                self._channel, Command.DIR_MODE, pack(state.st_mode, state.st_uid, state.st_gid, b"", os.fsencode(name))
            )
            self._wait_for(Command.FILE_MODE)

    def _send_one(self, outgoing: Outgoing, *, modes: bool) -> None:
        if modes:
            self._session.send(self._channel, Command.FILE_MODE, outgoing.mode_message())
            self._wait_for(Command.FILE_MODE)
        self._session.send(self._channel, Command.FILE_CHECK, outgoing.check_message())
        self._wait_for(Command.FILE_BEGIN)
        for prefix, payload in outgoing.blocks():
            if self._stopped:
                raise _Stopped
            self._session.send(self._channel, Command.FILE_DATA, prefix, payload)
        self._wait_for(Command.FILE_FINISH)

    def _wait_for(self, wanted: int) -> None:
        with self._changed:
            while not self._stopped:
                while self._answers:
                    command, _ = self._answers.pop(0)
                    if command == wanted:
                        return
                self._changed.wait()
        raise _Stopped


class _Stopped(Exception):
    """The host has closed the channel."""
