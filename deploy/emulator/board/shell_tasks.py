"""What hdcd does for ``shell``: a command line, or a terminal."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import threading
from typing import BinaryIO

from deploy.emulator.board.injector import FREEZE, LinkCut, Restart
from deploy.emulator.board.session import Session
from deploy.emulator.protocol.wire import Command

LARGEST_ECHO = 73_728
"""Bytes that one ECHO_RAW frame holds at most."""


class ShellTask:
    """``/bin/sh -c TEXT``, with the read end of its own output pipe as standard input, as hdcd does it."""

    def __init__(self, session: Session, channel: int, line: bytes, *, echo: Command = Command.ECHO_RAW) -> None:
        self._session = session
        self._channel = channel
        self._line = shell_text(line)
        self._echo = echo
        self._faults = session.injector()
        self._shell: subprocess.Popen[bytes] | None = None
        self._until_stopped: BinaryIO | None = None

    def start(self) -> None:
        if self._faults.use("drop-command"):
            self._session.end(self._channel)
            return
        self._session.board.spoil_programs(self._faults)
        try:
            started = self._session.board.run_shell(self._line)
        except OSError as error:
            text = f"start shell failed -1: {os.strerror(error.errno or 0)}\n"
            self._session.send(self._channel, self._echo, text.encode())
            self._session.end(self._channel)
            return
        self._shell = started.process
        stopped, writer = os.pipe()
        # A file is closed once, whoever closes it; the number of a closed descriptor may be another session's by now.
        self._until_stopped = os.fdopen(writer, "wb", buffering=0)
        args = (started.output, stopped, self._until_stopped)
        threading.Thread(target=self._pump, args=args, daemon=True).start()
        threading.Thread(target=self._shell.wait, daemon=True).start()

    def handle(self, command: int, data: bytes) -> None:
        """Nothing reaches a shell command after its start."""

    def stop(self) -> None:
        """Only sh is told, and only by SIGTERM; what it started goes on."""
        if self._shell is not None and self._shell.poll() is None:
            self._session.board.view.terminate(self._shell, signal.SIGTERM)
        if self._until_stopped is not None:
            self._until_stopped.close()

    def _pump(self, reader: int, stopped: int, until_stopped: BinaryIO) -> None:
        try:
            self._faults.freeze("freeze")
            while True:
                ready, _, _ = select.select([reader, stopped], [], [])
                if stopped in ready:
                    return
                chunk = os.read(reader, LARGEST_ECHO)
                if not chunk:
                    self._faults.end_of_output()
                    self._session.end(self._channel)
                    return
                for part in self._faults.output(chunk):
                    if part is FREEZE:
                        self._faults.freeze("freeze-output")
                    else:
                        self._session.send(self._channel, self._echo, part)
        except (LinkCut, Restart) as fault:
            self._session.break_off(self._channel, fault)
        except OSError:
            self.stop()
        finally:
            until_stopped.close()
            os.close(reader)
            os.close(stopped)


def shell_text(line: bytes) -> bytes:
    """What sh gets: blanks trimmed, and one outer pair of double quotes removed."""
    line = line.rstrip(b"\0").strip(b" \t\r\n")
    if len(line) >= 2 and line.startswith(b'"') and line.endswith(b'"'):
        return line[1:-1]
    return line


class TerminalTask:
    """``shell`` without a command: sh on a terminal of its own."""

    def __init__(self, session: Session, channel: int) -> None:
        self._session = session
        self._channel = channel
        self._terminal: BinaryIO | None = None
        self._shell: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        terminal, end = os.openpty()
        self._shell = self._session.board.run_terminal(end)
        os.close(end)
        self._terminal = os.fdopen(terminal, "r+b", buffering=0)
        threading.Thread(target=self._pump, args=(self._terminal,), daemon=True).start()
        threading.Thread(target=self._shell.wait, daemon=True).start()

    def handle(self, command: int, data: bytes) -> None:
        if command == Command.SHELL_DATA and self._terminal is not None:
            with contextlib.suppress(OSError, ValueError):  # ValueError: closed.
                self._terminal.write(data)

    def stop(self) -> None:
        if self._shell is not None and self._shell.poll() is None:
            self._session.board.view.terminate(self._shell, signal.SIGHUP)

    def _pump(self, terminal: BinaryIO) -> None:
        try:
            while chunk := terminal.read(LARGEST_ECHO):
                self._session.send(self._channel, Command.ECHO_RAW, chunk)
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: all who had the terminal open are gone.
                self.stop()
        self._session.end(self._channel)
        terminal.close()
