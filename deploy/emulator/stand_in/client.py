"""One call of the hdc stand-in: what every command needs to answer it."""

from __future__ import annotations

import os
import threading
import time
from functools import cached_property

from deploy.emulator.protocol.releases import Release, find_release
from deploy.emulator.protocol.wire import Command, Level
from deploy.emulator.stand_in.arguments import Call
from deploy.emulator.stand_in.connect import open_session
from deploy.emulator.stand_in.session import Session
from deploy.emulator.stand_in.state import Server
from deploy.emulator.stand_in.targets import Target, Targets

LEVELS = {Level.FAIL: b"[Fail]", Level.INFO: b"[Info]", Level.PLAIN: b""}
WATCH_SECONDS = 0.1


class Client:
    """One call: what it asks for, what it knows of boards, and where its answer goes."""

    columns = b"\thdc"
    """What the client puts before every line end of the long list of targets."""

    def __init__(self, *, call: Call, server: Server) -> None:
        self.call = call
        self.server = server

    def open(self, target: Target) -> Session:
        """A session with the board, which ends when the server is killed. Raises LinkEnded."""
        session = open_session(target, self.release.version)
        threading.Thread(target=self._end_with_server, args=(session, self.server.read().born), daemon=True).start()
        return session

    @cached_property
    def release(self) -> Release:
        return find_release()

    @cached_property
    def targets(self) -> Targets:
        return Targets(server=self.server, release=self.release)

    def show(self, command: int, data: bytes) -> None:
        """Prints what a daemon sent: raw output as it is, a message with its mark and line end."""
        if command in (Command.ECHO_RAW, Command.BUGREPORT_DATA):
            self.write(data)
        elif command == Command.ECHO and data:
            self.say(LEVELS.get(Level(data[0]), b"") + data[1:].replace(b"%%", b"%"))

    def say(self, text: str | bytes) -> None:
        """A message of a server or a daemon: it ends in CR LF unless it has a line end already."""
        data = text.encode() if isinstance(text, str) else text
        self.write(data if data.endswith(b"\n") else data + b"\r\n")

    def choose(self) -> Target:
        """The board that the command means. Raises NoTarget."""
        return self.targets.choose(self.call.key)

    def log(self, level: str, text: bytes) -> None:
        """A line of the client's own log, which goes to standard output too."""
        self.write(f"[{level}][{time.strftime('%Y-%m-%d %H:%M:%S')}] ".encode() + text + b"\n")

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def _end_with_server(self, session: Session, born: str) -> None:
        while session.is_open:
            time.sleep(WATCH_SECONDS)
            if self.server.read().born != born:
                session.break_off()
                return
