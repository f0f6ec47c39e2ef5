"""What breaks off the way of a large file to or from a board over SSH."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from core.errors import OhforgeError
from core.session import PROJECT
from deploy.ssh.board import SshBoard
from tests.shared.faulty_link import FaultyLink
from tests.support.board_runs import soon
from tests.support.sshd import LoopbackSshd
from tests.support.waiting import wait_until

PROGRAM = (
    "import sys; from deploy.transfer import chunks; chunks.CHUNKED_FROM = 1_000_000\n"
    "import deploy.ssh.link; deploy.ssh.link.MANY = 1_000_000\n"
    "from commands.main import main; main()\n"
)
"""ohforge, to which files of a megabyte and more are large."""
BEGUN = 2_000_000


def cut_for_good(board: SshBoard, sshd: LoopbackSshd, link: FaultyLink, at: int, act: Callable[[], object]) -> None:
    """Breaks off what `act` does when so many bytes have passed; no link can be made after that until this has returned."""

    def lost() -> None:
        sshd.refuses = True
        sshd.cut()

    board.shell("true", deadline=soon())  # The link that is open now lives on.
    link.fault("cut", at)
    link.on_fault = lost
    try:
        with pytest.raises(OhforgeError):
            act()
    finally:
        sshd.refuses, link.on_fault = False, lambda: None


def end_when_begun(words: Sequence[str], folder: Path, part: Path, number: int) -> None:
    """Runs a command line of ohforge in `folder`, and sends it that signal when `part` has more than `BEGUN` bytes."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until("a part of the file", lambda: part.exists() and part.stat().st_size > BEGUN)
        process.send_signal(number)
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait(timeout=60)


def change_the_end(file: Path) -> None:
    """Changes the last byte."""
    with file.open("r+b") as content:
        content.seek(-1, os.SEEK_END)
        last = content.read(1)
        content.seek(-1, os.SEEK_END)
        content.write(bytes([last[0] ^ 1]))
