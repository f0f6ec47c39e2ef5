"""What is done about a board on which a run was cut: restarting it, where the settings want that."""

from __future__ import annotations

from core.deadline import Deadline
from core.errors import Failure, OhforgeError
from core.session import Session
from deploy.board.protocol import MAY_RUN_ON, Board
from deploy.hdc.behind import serial_behind
from deploy.hdc.board import HdcBoard
from deploy.hdc.emulated import serial_of
from deploy.hdc.restart import LOOK_SECONDS, look_at, restart_board, wait_for_board


def recover_board(session: Session, board: Board, cut: OhforgeError) -> bool:
    """Restarts a board that does not answer any more after a run was `cut`, or on which something of it may still run.

    Only when ``ohforge.boards.NAME.recover`` is ``reboot``. `cut` says then what was done, and what came of it. True
    when the board was restarted and can be used.
    """
    if not isinstance(board, HdcBoard) or not _wants_restart(session, board):
        return False
    there = look_at(session, board, Deadline.after(LOOK_SECONDS, f"board {board.serial}")).answered
    before, may_run, _ = cut.message.partition(MAY_RUN_ON)
    if there and not may_run:
        return False
    session.console.warn(f"the run was cut; board {board.serial} is restarted, as its setting `recover` wants")
    deadline = Deadline.after(session.settings.timeouts.boot, f"board {board.serial}")
    try:
        if not there:
            wait_for_board(session, board, deadline)
        wait_for_board(session, board, deadline, before=restart_board(session, board))
    except Failure as failed:
        cut.message = f"{cut.message} The board could not be restarted after that: {failed.message}"
        return False
    # Whatever has the number of that process by now is another one: nobody may be told to end it.
    cut.message = (
        f"{before.rstrip()} After that board {board.serial} was restarted, so nothing of the run goes on there."
    )
    return True


def _wants_restart(session: Session, board: Board) -> bool:
    entries = session.settings.boards.items()
    serials = ((serial_behind(entry) if entry.via else serial_of(name, entry), entry) for name, entry in entries)
    return any(entry.recover == "reboot" for serial, entry in serials if serial == board.serial)
