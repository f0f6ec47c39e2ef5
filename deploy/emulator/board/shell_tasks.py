"""What hdcd does for ``shell``: a command line, or a terminal."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import threading

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
        self._wake_reader, self._wake_writer = os.pipe()
        self._shell: subprocess.Popen[bytes] | None = None

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
        threading.Thread(target=self._pump, args=(started.output,), daemon=True).start()
        threading.Thread(target=self._shell.wait, daemon=True).start()

    def handle(self, command: int, data: bytes) -> None:
        """Nothing reaches a shell command after its start."""

    def stop(self) -> None:
        """Only sh is told, and only by SIGTERM; what it started goes on."""
        if self._shell is not None and self._shell.poll() is None:
            self._session.board.view.terminate(self._shell, signal.SIGTERM)
        with contextlib.suppress(OSError):
            os.write(self._wake_writer, b"x")

    def _pump(self, reader: int) -> None:
        try:
            self._faults.freeze("freeze")
            while True:
                ready, _, _ = select.select([reader, self._wake_reader], [], [])
                if self._wake_reader in ready:
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
            os.close(reader)
            os.close(self._wake_reader)
            os.close(self._wake_writer)


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
        self._terminal = -1
        self._shell: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._terminal, end = os.openpty()
        self._shell = self._session.board.run_terminal(end)
        os.close(end)
        threading.Thread(target=self._pump, daemon=True).start()
        threading.Thread(target=self._shell.wait, daemon=True).start()

    def handle(self, command: int, data: bytes) -> None:
        if command == Command.SHELL_DATA:
            with contextlib.suppress(OSError):
                os.write(self._terminal, data)

    def stop(self) -> None:
        if self._shell is not None and self._shell.poll() is None:
            self._session.board.view.terminate(self._shell, signal.SIGHUP)

    def _pump(self) -> None:
        try:
            while chunk := os.read(self._terminal, LARGEST_ECHO):
                self._session.send(self._channel, Command.ECHO_RAW, chunk)
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: all who had the terminal open are gone.
                self.stop()
        self._session.end(self._channel)
        os.close(self._terminal)
