"""One call of the hdc stand-in: who answers it, and how the answer is printed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING

from deploy.emulator.arguments import Call
from deploy.emulator.state import NoServer, Server
from deploy.emulator.targets import Targets
from deploy.emulator.versions import Words, words_of
from deploy.emulator.wire import Command, Level

if TYPE_CHECKING:
    from deploy.emulator.link import Link
    from deploy.emulator.targets import NoTarget, Target

LEVELS = {Level.FAIL: b"[Fail]", Level.INFO: b"[Info]", Level.PLAIN: b""}
WATCH_SECONDS = 0.1
USAGE = """\
hdc stand-in for emulated OpenHarmony boards

hdc [-t KEY] [-s [IP:]PORT] COMMAND
  list targets [-v]                     boards
  wait                                  until a board is connected
  tconn KEY [-remove]                   connect a board over TCP
  shell [COMMAND]                       run a command on the board
  file send|recv [-a|-z|-m|-sync] FROM TO
  fport LOCAL REMOTE, rport REMOTE LOCAL, fport ls, fport rm LOCAL REMOTE
  hilog                                 the board's log
  target mount, target boot, smode, tmode usb|port [N]
  start, kill, checkserver, version
"""
"""The real hdc prints a text of its own here."""


class Client:
    """State of one call."""

    columns = b"\thdc"
    """What the client puts before every line end of the long list of targets."""

    def __init__(self, *, call: Call, server: Server) -> None:
        self.call = call
        self.server = server

    def run(self) -> None:
        """Answers the call."""
        call = self.call
        if "v" in call.flags or call.words == "version":
            self.write(f"Ver: {self.words.version}\n".encode())
        elif "h" in call.flags:
            sys.stderr.write(USAGE)
        elif call.words == "help":
            self.write(USAGE.encode())
        elif call.words == "kill":
            self._kill_server()
        elif "m" in call.flags:
            self._become_server()
        else:
            self._reach_server()
            if not self.dispatch():
                self.write(b"Unknown operation command...\n")
                sys.stderr.write(USAGE)

    def dispatch(self) -> bool:
        """Runs the command; False when there is none of that name."""
        from deploy.emulator.board_commands import BOARD_COMMANDS
        from deploy.emulator.host_commands import HOST_COMMANDS

        words = "wait" if self.call.words.startswith("wait") else self.call.words
        if words in ("fport", "rport"):
            from deploy.emulator.forward_commands import run_forward

            run_forward(self)
        elif words in HOST_COMMANDS:
            HOST_COMMANDS[words](self)
        elif words in BOARD_COMMANDS:
            BOARD_COMMANDS[words](self)
        else:
            return False
        return True

    def open(self, target: Target) -> Link:
        """A session with the board, which ends when the server is killed. Raises LinkEnded."""
        from deploy.emulator.connect import open_link

        link = open_link(target, self.words.version)
        threading.Thread(target=self._end_with_server, args=(link, self.server.read().born), daemon=True).start()
        return link

    @cached_property
    def words(self) -> Words:
        return words_of()

    @cached_property
    def targets(self) -> Targets:
        return Targets(server=self.server, words=self.words)

    def show(self, command: int, data: bytes) -> None:
        """Prints what a daemon sent: raw output as it is, a message with its mark and line end."""
        if command == Command.ECHO_RAW:
            self.write(data)
        elif command == Command.ECHO and data:
            self.say(LEVELS.get(Level(data[0]), b"") + data[1:].replace(b"%%", b"%"))

    def say(self, text: str | bytes) -> None:
        """A message of a server or a daemon: it ends in CR LF unless it has a line end already."""
        data = text.encode() if isinstance(text, str) else text
        self.write(data if data.endswith(b"\n") else data + b"\r\n")

    def refuse(self, error: NoTarget) -> None:
        """Says why there is no board for the command."""
        self.say(str(error))

    def log(self, level: str, text: bytes) -> None:
        """A line of the client's own log, which goes to standard output too."""
        self.write(f"[{level}][{time.strftime('%Y-%m-%d %H:%M:%S')}] ".encode() + text + b"\n")

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def _kill_server(self) -> None:
        from deploy.emulator.forward import end_forward

        state = self.server.kill()
        for forward in state.forwards:
            end_forward(forward)
        if state.process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(state.process, signal.SIGTERM)
        if "-r" in self.call.arguments:
            self.server.start()
        if os.isatty(1):
            self.write(b"Kill server finish")

    def _end_with_server(self, link: Link, born: str) -> None:
        while link.is_open:
            time.sleep(WATCH_SECONDS)
            if self.server.read().born != born:
                link.break_off()
                return

    def _become_server(self) -> None:
        from deploy.emulator.server import serve

        serve(self.server)

    def _reach_server(self) -> None:
        down = self.targets.server_fault("server-down")
        if down is None and not self.server.runs:
            down = self.targets.server_fault("port-taken")
        if down is not None:
            time.sleep(down["seconds"])
            raise NoServer("Connect server failed\n")
        if "p" not in self.call.flags:
            self.server.start()
        if not self.server.runs:
            raise NoServer("Connect server failed\n", wait=True)
        if self.server.read().stuck_on:
            # The server writes to a board that does not read; nobody else is served, until it is killed.
            while self.server.read().stuck_on:
                time.sleep(0.05)
        if self.targets.server_fault("log-lines"):
            self.log("I", b"client log line")
