"""Ending an emulated board whose keeper has only just begun."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.emulator.board import boards
from deploy.emulator.board.boards import EmulatedBoard, create_board, is_running, stop_board
from tests.support.waiting import wait_until

KEEPER = """
import fcntl, os, sys
folder = sys.argv[1]
lock = open(f"{folder}/keeper.lock", "wb")
fcntl.flock(lock, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
with open(f"{folder}/keeper.pid", "w") as file:
    file.write(f"{os.getpid()}\\n")
sys.stdin.read()
"""


def test_a_keeper_that_has_not_written_down_its_number_yet_is_waited_for_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[EmulatedBoard] = []

    def look(board: EmulatedBoard) -> bool:
        looks.append(board)
        return is_running(board)

    monkeypatch.setattr(boards, "is_running", look)
    board = create_board("emulated-x", home=tmp_path, profile="dayu200")
    words = [sys.executable, "-c", KEEPER, str(board.run)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper, ThreadPoolExecutor() as pool:
        assert keeper.stdin is not None and keeper.stdout is not None
        assert keeper.stdout.readline() == b"locked\n"
        stopping = pool.submit(stop_board, board, 60.0)
        wait_until("its going on", lambda: len(looks) > 2 or stopping.done())
        keeper.stdin.write(b"\n")
        keeper.stdin.flush()
        assert stopping.result(timeout=120)
        assert keeper.wait(timeout=60) == -signal.SIGTERM
    assert not is_running(board)
