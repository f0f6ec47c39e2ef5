"""A process that has a place of a lab: ``python -m tests.support.lab_holder ADDRESS PLACE FOLDER``; prints ``held``."""

from __future__ import annotations

import sys
from pathlib import Path

from core.interrupts import termination_as_interrupt
from core.session import Session
from deploy.lab.lend import PlaceLender
from deploy.lease.lease import hold_board
from tests.support.local_board import LocalBoard


def main(address: str, place: str, folder: str) -> None:
    """Holds the board of the place until its standard input ends."""
    board = LocalBoard(Path(folder))
    board.lender = PlaceLender(address=address, place=place)
    with termination_as_interrupt(), hold_board(Session(), board, "a test"):
        print("held", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
