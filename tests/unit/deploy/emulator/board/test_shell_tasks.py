"""A command of one session keeps its hands off what belongs to another, also once it has ended."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from deploy.emulator.board.faults import FaultFile
from deploy.emulator.board.injector import Injector
from deploy.emulator.board.session import Session, Task
from deploy.emulator.board.shell_tasks import ShellTask, TerminalTask
from deploy.emulator.protocol.wire import Command
from deploy.emulator.sandbox.views import Started


class QuietSession:
    """A session whose host listens to nothing; its board is this computer."""

    def __init__(self, folder: Path) -> None:
        self.board = self.view = self
        self._faults = FaultFile(folder=folder)
        self.has_ended = False

    def injector(self) -> Injector:
        return Injector(self._faults, lambda: False)

    def spoil_programs(self, faults: Injector) -> None: ...

    def send(self, channel: int, command: int, data: bytes) -> None: ...

    def end(self, channel: int) -> None:
        self.has_ended = True

    def terminate(self, shell: subprocess.Popen[bytes], number: int) -> None: ...

    def run_shell(self, line: bytes) -> Started:
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as output:
            return Started(process=subprocess.Popen(["/bin/sh", "-c", line], stdout=output), output=reader)

    def run_terminal(self, end: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/bin/true"], stdin=end, stdout=end, stderr=end)


def test_a_command_that_is_stopped_after_its_end_writes_into_no_other_session(tmp_path: Path) -> None:
    with written_after_end(QuietSession(tmp_path), lambda session: ShellTask(session, 1, b"true")) as (task, written):
        task.stop()
        assert written() == []


def test_keys_for_a_terminal_that_has_ended_reach_no_other_session(tmp_path: Path) -> None:
    with written_after_end(QuietSession(tmp_path), lambda session: TerminalTask(session, 1)) as (task, written):
        task.handle(Command.SHELL_DATA, b"keys")
        assert written() == []


@contextlib.contextmanager
def written_after_end(
    session: QuietSession, make: Callable[[Session], Task]
) -> Iterator[tuple[Task, Callable[[], list[socket.socket]]]]:
    """A task that has ended, and what tells into which links of others, opened since, something was written."""
    before = set(threading.enumerate())
    task = make(cast("Session", session))
    task.start()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=60)  # The one that hands the output on closes what was open for the command.
    assert session.has_ended
    with contextlib.ExitStack() as closing:
        links = [closing.enter_context(end) for _ in range(8) for end in socket.socketpair()]
        yield task, lambda: select.select(links, [], [], 0)[0]
