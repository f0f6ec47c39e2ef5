"""hdcd: the daemon on the emulated board, which speaks the real one's protocol over a local or a TCP socket."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from deploy.emulator.board.heat import Heat
from deploy.emulator.board.memory import Memory
from deploy.emulator.board.running import RunningBoard
from deploy.emulator.board.serving import serve_session
from deploy.emulator.board.session import Session

IDLE_EXIT = 42
"""Exit status by which hdcd tells init that the board is not needed any more."""
LONGEST_LIFE = 4 * 3600.0
"""Seconds without any command after which even a program that still runs does not keep the board up."""


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """The daemon of one board; `listening` are bound sockets."""

    board: RunningBoard
    listening: list[socket.socket]

    def serve(self, ready: Callable[[], None]) -> int:
        """Serves until the board has been idle for its time; returns IDLE_EXIT."""
        board = self.board
        (board.folder / "run/generation").write_text(f"{os.urandom(8).hex()}\n")
        memory = board.shown.memory_kib
        sizes = {name: memory[name] for name in ("total", "available", "swap")}
        Memory(view=board.view, swapping=board.settings.swap, **sizes).watch()
        if board.settings.throttle:
            Heat(view=board.view, shown=board.shown, seconds=board.settings.throttle).begin()
        threads: list[threading.Thread] = []
        ready()
        last = time.monotonic()
        while True:
            readable, _, _ = select.select(self.listening, [], [], 1.0)
            for listener in readable:
                link, _ = listener.accept()
                thread = threading.Thread(target=serve_session, args=(Session(link, board),), daemon=True)
                thread.start()
                threads.append(thread)
            threads = [thread for thread in threads if thread.is_alive()]
            if threads:
                last = time.monotonic()
            idle = time.monotonic() - last
            if not (board.folder / "board.json").exists():
                return IDLE_EXIT  # Somebody has removed the board.
            if idle > board.settings.idle_seconds and (idle > LONGEST_LIFE or not board.view.programs()):
                return IDLE_EXIT
