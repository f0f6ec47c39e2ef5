"""A process that holds a board until its standard input ends: ``python -m tests.support.lease_holder FOLDER PURPOSE``.

It prints ``held`` as soon as it does. With a third word, a file, it adds 1 to the number in it instead, in steps that
another process would disturb, so many times as the fourth word says. As root it becomes the user of the fifth.
"""

from __future__ import annotations

import fcntl  # noqa: F401 - loaded before the user changes, who may not read this Python's files
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from core.patience import Patience
from core.session import Session
from core.settings import Settings
from deploy.lease import lease
from tests.support.local_board import LocalBoard


def main(folder: str, purpose: str, counter: str = "", times: str = "1", user: str = "") -> None:
    """Holds the board."""
    lease.LOOKS = Patience(pause=0.01)
    settings = Settings(lease_dir=folder)
    session = Session(settings=replace(settings, timeouts=replace(settings.timeouts, lease=60.0)))
    board = LocalBoard(Path(folder).parent / "board")
    if user:
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    for _ in range(int(times)):
        with lease.hold_board(session, board, purpose):
            if not counter:
                print("held", flush=True)
                sys.stdin.read()
                continue
            number = int(Path(counter).read_text())
            time.sleep(0.002)
            Path(counter).write_text(str(number + 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
