"""The process behind one forwarded port: ``python -m deploy.emulator.stand_in.forward_process KEY DIRECTION A B FD``.

A real server holds its forwards itself; the stand-in has no server, so each forward is a process, which ends
with ``fport rm``, with ``kill``, or when the board is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import Any

from deploy.emulator import CODE
from deploy.emulator.protocol.relay import FIRST_ID, PARAMETER, BadNode, Relay, listen_at
from deploy.emulator.protocol.releases import find_release
from deploy.emulator.protocol.wire import Command, Level, LinkEnded
from deploy.emulator.stand_in.connect import open_session
from deploy.emulator.stand_in.session import Session
from deploy.emulator.stand_in.state import find_server
from deploy.emulator.stand_in.targets import NoTarget, Targets

OK = "OK"


def start_forward(key: str, direction: str, first: str, second: str) -> tuple[str, int]:
    """Starts the process of a forward; returns OK or what went wrong, and its process number."""
    import subprocess

    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy.emulator.stand_in.forward_process", key, direction, first, second, str(writer)],
        cwd=CODE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=(writer,),
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as report:
        answer = report.read().decode()
    process.returncode = 0  # It goes on when this process ends.
    return answer, process.pid


def end_forward(forward: dict[str, Any]) -> None:
    """Ends the process of a forward."""
    with contextlib.suppress(ProcessLookupError, KeyError):
        os.kill(int(forward["pid"]), signal.SIGTERM)


def is_alive(forward: dict[str, Any]) -> bool:
    try:
        os.kill(int(forward["pid"]), 0)
    except ProcessLookupError:
        return False
    return True


def main(arguments: list[str]) -> int:
    """Serves one forward until its session ends."""
    key, direction, first, second, report_to = arguments
    release = find_release()
    with os.fdopen(int(report_to), "w") as report:
        try:
            server = find_server("")
            target = Targets(server=server, release=release).choose(key)
            session = open_session(target, release.version)
            relay = Relay(session.send)
            answers = session.answers()
            if direction == "Forward":
                _begin_forward(session, relay, listen_at(first, ip=server.read().forward_ip), second)
            else:
                _begin_reverse(session, answers, first, second)
        except (NoTarget, LinkEnded, BadNode) as error:
            report.write(f"[Fail]{error}")
            return 1
        report.write(OK)
    with contextlib.suppress(LinkEnded):
        for command, data in answers:
            relay.handle(command, data)
    relay.close()
    return 0


def _begin_forward(session: Session, relay: Relay, listener: socket.socket, second: str) -> None:
    session.send(Command.WAKEUP)
    session.send(Command.FORWARD_CHECK, FIRST_ID + PARAMETER + second.encode() + b"\0")
    relay.serve(listener, second)


def _begin_reverse(session: Session, answers: Any, first: str, second: str) -> None:
    session.send(Command.FORWARD_INIT, f"{first} {second}".encode())
    for command, data in answers:
        if command == Command.FORWARD_CHECK:
            session.send(Command.FORWARD_CHECK_RESULT, data[:4] + b"\0")
        elif command == Command.FORWARD_SUCCESS:
            return
        elif command == Command.ECHO and data[:1] == bytes([Level.FAIL]):
            raise BadNode(data[1:].decode("utf-8", "replace"))
    raise BadNode("Forward parament failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
