"""Starting the process that serves other hdc clients."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from deploy.emulator import CODE
from deploy.emulator.stand_in.forward_process import end_forward
from deploy.emulator.stand_in.state import Server

START_SECONDS = 20.0
END_SECONDS = 20.0


def start_process(server: Server) -> None:
    """Starts the server's process when it does not run."""
    if _accepts(server.port):
        return
    subprocess.Popen(
        [sys.executable, "-m", "deploy.emulator.stand_in.cli", "-m", "-s", f"127.0.0.1:{server.port}"],
        cwd=CODE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ).returncode = 0
    until = time.monotonic() + START_SECONDS
    while not _accepts(server.port) and time.monotonic() < until:
        time.sleep(0.02)


def end_server(server: Server) -> None:
    """Ends the server of this temporary folder, with its forwarded ports and its process."""
    state = server.kill()
    for forward in state.forwards:
        end_forward(forward)
    if state.process:
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.process, signal.SIGTERM)
        until = time.monotonic() + END_SECONDS
        while _accepts(server.port) and time.monotonic() < until:
            time.sleep(0.02)


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False
