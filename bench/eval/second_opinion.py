"""What math-verify thinks of an answer: a second opinion, for those who have installed it.

It works in a process of its own that is ended when it takes too long, because its own limits are signals that do
nothing in a thread, and a power tower keeps it busy for minutes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.connection import Connection
from types import TracebackType

from core.errors import HostToolMissing

RIGHT, WRONG, LATE, FAILED = "right", "wrong", "late", "failed"
SECONDS = 5.0
"""For one answer; the slowest of 5276 real ones took less."""
START_SECONDS = 120.0
"""For the start of the process and its imports, on a slow computer."""
MEMORY = 2 << 30
"""Bytes of addresses that the process may have."""
CPU_SECONDS = 900
"""Of computing, after which the process ends, so that none goes on for ever that nobody is there to end."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One answer to be judged."""

    text: str
    gold: Fraction


class MathVerify:
    """math-verify, ready to judge one answer after another; close it, or use it in a ``with``."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """`seconds` is the time for one answer. Raises HostToolMissing when math-verify is not installed."""
        if importlib.util.find_spec("math_verify") is None:
            raise HostToolMissing(
                "math-verify is not installed.",
                remedy=f"Install it: {sys.executable} -m pip install 'math-verify>=0.9'.",
            )
        self._seconds = seconds
        self._worker: tuple[subprocess.Popen[bytes], Connection] | None = None

    def judge(self, question: Question) -> str:
        """``right`` or ``wrong``; ``late`` when it took too long, ``failed`` when it broke off."""
        connection = self._ready()
        try:
            connection.send((question.text, str(question.gold)))
            if connection.poll(self._seconds):
                return str(connection.recv())
        except (EOFError, OSError):
            self.close()
            return FAILED
        self.close()
        return LATE

    def close(self) -> None:
        if self._worker is not None:
            process, connection = self._worker
            self._worker = None
            connection.close()
            process.kill()
            process.wait()

    def __enter__(self) -> MathVerify:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ready(self) -> Connection:
        if self._worker is None:
            ours, theirs = socket.socketpair()
            with theirs:
                words = [sys.executable, "-c", f"import {__name__} as it; it.work({theirs.fileno()})"]
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True
                )
            connection = Connection(ours.detach())
            self._worker = process, connection
            with contextlib.suppress(EOFError, OSError):
                if connection.poll(START_SECONDS):
                    connection.recv()
        return self._worker[1]


def work(descriptor: int) -> None:
    """What the process does: answers one question after another, until there is nobody at the other end of the socket."""
    import logging
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    # It warns of the time-outs that it was told to leave to us.
    logging.disable(logging.WARNING)
    from math_verify import parse, verify

    connection = Connection(descriptor)
    connection.send("ready")
    while True:
        try:
            text, gold = connection.recv()
        except EOFError:
            return
        try:
            found = parse(text, parsing_timeout=None)
            right = verify(parse(f"${gold}$", parsing_timeout=None), found, timeout_seconds=None)
        except Exception:
            connection.send(FAILED)
        else:
            connection.send(RIGHT if right else WRONG)
