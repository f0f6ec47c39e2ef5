"""What is done about a board on which a run was cut: restarting it, where the settings want that."""

from __future__ import annotations

from core.deadline import Deadline
from core.errors import OhforgeError
from core.session import Session
from deploy.board.protocol import Board
from deploy.hdc.board import MAY_STILL_RUN, HdcBoard
from deploy.hdc.emulated import serial_of
from deploy.hdc.restart import LOOK_SECONDS, look_at, restart_board, wait_for_board


def recover_board(session: Session, board: Board, cut: OhforgeError) -> None:
    """Restarts a board that does not answer any more after a run was `cut`, or on which something of it may still run.

    Only when ``ohforge.boards.NAME.recover`` is ``reboot``. `cut` says then what was done, and what came of it.
    """
    if not isinstance(board, HdcBoard) or not _wants_restart(session, board):
        return
    there = look_at(session, board, Deadline.after(LOOK_SECONDS, f"board {board.serial}")).answered
    if there and MAY_STILL_RUN not in cut.message:
        return
    session.console.warn(f"the run was cut; board {board.serial} is restarted, as its setting `recover` wants")
    deadline = Deadline.after(session.settings.timeouts.boot, f"board {board.serial}")
    try:
        if not there:
            wait_for_board(session, board, deadline)
        wait_for_board(session, board, deadline, before=restart_board(session, board))
        said = "After that the board was restarted, so nothing of the run is left there."
    except OhforgeError as failed:
        said = f"The board could not be restarted after that: {failed.message}"
    cut.message = f"{cut.message} {said}"


def _wants_restart(session: Session, board: Board) -> bool:
    entries = session.settings.boards.items()
    return any(entry.recover == "reboot" for name, entry in entries if serial_of(name, entry) == board.serial)
