"""``ohforge board.reboot`` and ``board.wait``: boards that go away and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command
from commands.words import BOARD_HELP

if TYPE_CHECKING:
    from core.deadline import Deadline
    from core.session import Session


@command(
    name="reboot",
    changes=True,
    dry=True,
    help={
        "board": BOARD_HELP,
        "wait": "Wait until it can be used again, and tell when it is gone, back, authorised and ready.",
        "timeout": "Seconds to wait with --wait; default: the setting ohforge.timeouts.boot.",
    },
)
def reboot(session: Session, board: str = "", wait: bool = False, timeout: float = 0.0) -> Answer:
    """Restart a board; every program on it ends."""
    from core.dry import Would, tell
    from deploy.hdc.choose import name_board
    from deploy.hdc.restart import restart_board, wait_for_board
    from deploy.lease.lease import hold_board

    chosen = name_board(session, board)
    if session.dry:
        return Answer(tell(session.console, [Would(action="restart", what=f"board {chosen.serial}")]))
    with hold_board(session, chosen, "reboot"):
        before = restart_board(session, chosen)
        session.console.info(f"board {chosen.serial} was told to restart")
        stages = wait_for_board(session, chosen, _boot_time(session, timeout), before=before) if wait else {}
    return Answer({"board": chosen.serial, "stages": stages})


@command(
    name="wait",
    help={"board": BOARD_HELP, "timeout": "Seconds to wait; default: the setting ohforge.timeouts.boot."},
)
def wait_(session: Session, board: str = "", timeout: float = 0.0) -> Answer:
    """Wait until a board can be used, and tell when it is gone, back, authorised and ready."""
    from deploy.hdc.choose import name_board
    from deploy.hdc.restart import wait_for_board

    chosen = name_board(session, board)
    return Answer({"board": chosen.serial, "stages": wait_for_board(session, chosen, _boot_time(session, timeout))})


def _boot_time(session: Session, seconds: float) -> Deadline:
    from core.deadline import Deadline

    return Deadline.after(seconds or session.settings.timeouts.boot, "the board")
