"""What hdcd does with the frames of a session: which of them starts a command, and which belongs to one."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import ClassVar

from deploy.emulator.board.file_tasks import FileReceiveTask, FileSendTask
from deploy.emulator.board.forward_task import ForwardTask, ReverseTask
from deploy.emulator.board.greeting import greet
from deploy.emulator.board.injector import LinkCut
from deploy.emulator.board.package_tasks import InstallTask, UninstallTask
from deploy.emulator.board.session import REBOOT_EXIT, RESTART_EXIT, Session, Task
from deploy.emulator.board.shell_tasks import ShellTask, TerminalTask
from deploy.emulator.protocol.wire import Command, Level, LinkEnded, pack, read_frame

HEARTBEAT_SECONDS = 5.0
CONTROLLED = {
    "shell": (Command.EXECUTE, Command.SHELL_DATA),
    "fport": (Command.FORWARD_INIT, Command.FORWARD_SUCCESS),
    "file": (Command.FILE_INIT, Command.APP_UNINSTALL),
}
"""Commands, first and last, that a parameter ``persist.hdc.control.KIND`` allows or not."""


def serve_session(session: Session) -> None:
    """Serves a host until it hangs up."""
    over_tcp = session.link.family == socket.AF_INET
    release = session.board.release
    try:
        greet(session, secure=session.board.settings.secure and release.authorises and over_tcp)
        if over_tcp and release.heartbeat:
            threading.Thread(target=_beat, args=(session,), daemon=True).start()
        session.board.view.set_read_only("read-only" in session.board.faults.active())
        while True:
            channel, command, data = read_frame(session.link)
            _handle(session, channel, command, data)
    except (LinkEnded, LinkCut, OSError):
        pass
    finally:
        for task in list(session.tasks.values()):
            task.stop()
        session.link.close()


def _beat(session: Session) -> None:
    """Counts for the host every few seconds; nobody answers, and nobody notices when it ends."""
    with contextlib.suppress(OSError):
        for counter in itertools.count():
            session.send(0, Command.HEARTBEAT, pack(counter, b""))
            time.sleep(HEARTBEAT_SECONDS)


def _handle(session: Session, channel: int, command: int, data: bytes) -> None:
    if command == Command.CHANNEL_CLOSE:
        _close_channel(session, channel, data)
    elif command == Command.HEARTBEAT:
        pass
    elif session.refusal:
        session.end(channel, fail=session.refusal)
    elif _is_forbidden(session, channel, command):
        session.end(channel, fail="debugging is not allowed")
    elif command == Command.EXECUTE:
        _start(session, channel, ShellTask(session, channel, data))
    elif command == Command.SHELL_START:
        _start(session, channel, TerminalTask(session, channel))
    elif command == Command.WAKEUP:
        _start(session, channel, _Woken(session, channel))
    elif command == Command.FILE_INIT:
        _start(session, channel, FileSendTask(session, channel, data))
    elif command == Command.APP_UNINSTALL and channel not in session.tasks:
        _start(session, channel, UninstallTask(session, channel))
        session.tasks[channel].handle(command, data)
    elif command == Command.FORWARD_INIT:
        _start(session, channel, ReverseTask(session, channel, data))
    elif channel in session.tasks:
        session.tasks[channel].handle(command, data)
    else:
        _handle_simple(session, channel, command, data)


def _handle_simple(session: Session, channel: int, command: int, data: bytes) -> None:
    if command == Command.REMOUNT:
        locked = session.board.release.tells_debug_mode and not _is_debuggable(session)
        session.end(channel, fail="[E007100] Operate need running under debug mode" if locked else "Mount failed")
    elif command == Command.JDWP_LIST:
        session.end(channel, say="[Empty]")
    elif command == Command.JDWP_TRACK:
        session.echo(channel, Level.PLAIN, "0000\n")
    elif command == Command.BUGREPORT:
        _start(session, channel, ShellTask(session, channel, b"hidumper", echo=Command.BUGREPORT_DATA))
    elif command == Command.RUNMODE and data.startswith(b"usb"):
        session.end(channel, fail="[E001000]For USB debugging, please set it on the device's Settings UI")
    elif command == Command.RUNMODE:
        _set_port(session, channel, data.split()[1:])
    elif command == Command.HILOG:
        _start(session, channel, ShellTask(session, channel, b"hilog -h" if data.startswith(b"h") else b"hilog"))
    elif command == Command.ROOTRUN:
        _change_user(session, channel)
    elif command == Command.REBOOT:
        os._exit(REBOOT_EXIT)
    elif command == Command.EXECUTE_EX:
        _refuse_bundle(session, channel, data)
    elif command in (Command.FILE_DATA, Command.FILE_FINISH, Command.FILE_BEGIN, Command.FILE_CHECK):
        pass  # What was in flight when the transfer failed.
    else:
        session.end(channel, fail="Unknown command...")


def _is_forbidden(session: Session, channel: int, command: int) -> bool:
    """Whether a system parameter keeps hosts from what a frame begins."""
    if not isinstance(session.tasks.get(channel), _Woken | None):
        return False
    kinds = [kind for kind, (first, last) in CONTROLLED.items() if first <= command <= last]
    return any(session.board.parameter(f"persist.hdc.control.{kind}") not in ("", "true") for kind in kinds)


class _Woken:
    """A task that the host leads: it is woken before it is told what it is, which its first frame does."""

    kinds: ClassVar[dict[int, Callable[[Session, int], Task]]] = {
        Command.FILE_CHECK: FileReceiveTask,
        Command.FILE_MODE: FileReceiveTask,
        Command.DIR_MODE: FileReceiveTask,
        Command.FORWARD_CHECK: ForwardTask,
        Command.APP_CHECK: InstallTask,
        Command.APP_UNINSTALL: UninstallTask,
    }

    def __init__(self, session: Session, channel: int) -> None:
        self._session = session
        self._channel = channel

    def start(self) -> None:
        """The host speaks first."""

    def handle(self, command: int, data: bytes) -> None:
        if command in self.kinds:
            _start(self._session, self._channel, self.kinds[command](self._session, self._channel))
            self._session.tasks[self._channel].handle(command, data)

    def stop(self) -> None:
        """Nothing has begun."""


def _is_debuggable(session: Session) -> bool:
    return session.board.shown.parameters.get("const.debuggable") == "1"


def _set_port(session: Session, channel: int, words: list[bytes]) -> None:
    """``tmode port [N]`` and ``tmode port close``: answered, and nothing changed."""
    if words and words[0] != b"close" and not words[0].isdigit():
        session.end(channel, fail="[E001100]Invalid port")
    else:
        session.end(channel, say="" if words[:1] == [b"close"] else "Set device run mode successful.")


def _change_user(session: Session, channel: int) -> None:
    if _is_debuggable(session):
        os._exit(RESTART_EXIT)
    session.end(channel, fail="Cannot set root run mode in undebuggable version.")


def _refuse_bundle(session: Session, channel: int, data: bytes) -> None:
    """The board has no applications. Records: tag (0 command, 1 bundle) and length as u32, then the bytes."""
    at, bundle = 0, b""
    while at + 8 <= len(data):
        tag, length = int.from_bytes(data[at : at + 4], "little"), int.from_bytes(data[at + 4 : at + 8], "little")
        if tag == 1:
            bundle = data[at + 8 : at + 8 + length]
        at += 8 + length
    session.end(channel, fail=f"[E003001] Invalid bundle name: {os.fsdecode(bundle)}")


def _start(session: Session, channel: int, task: Task) -> None:
    if (before := session.tasks.get(channel)) is not None:
        before.stop()
    session.tasks[channel] = task
    task.start()


def _close_channel(session: Session, channel: int, data: bytes) -> None:
    count = data[0] if data else 0
    closing = list(session.tasks) if channel == 0 else [channel]
    for each in closing:
        task = session.tasks.pop(each, None)
        if task is not None:
            task.stop()
    if count > 0:
        session.send(channel, Command.CHANNEL_CLOSE, bytes([count - 1]))
