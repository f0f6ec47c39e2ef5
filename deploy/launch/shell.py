"""One command line of the user's on a board."""

from __future__ import annotations

from core.deadline import Deadline
from core.process import OnOutput
from core.session import Session
from deploy.board.protocol import Board, ShellResult


def run_shell(
    session: Session,
    board: Board,
    command: str,
    *,
    folder: str = "",
    timeout: float = 0.0,
    on_output: OnOutput | None = None,
) -> ShellResult:
    """Runs a command line of the board's shell; `timeout` in seconds, 0 for the setting ``ohforge.timeouts.command``."""
    seconds = timeout or session.settings.timeouts.command
    return board.shell(
        command,
        deadline=Deadline.after(seconds, f"the command on board {board.serial}"),
        folder=folder,
        on_output=on_output,
    )
