"""Waiting for a board to be cool before it is measured."""

from __future__ import annotations

import math

from bench.conditions import Conditions, read_conditions
from core.deadline import Deadline
from core.errors import ConditionsNotMet
from core.patience import Patience
from core.session import Session
from deploy.board.protocol import Board

LOOKS = Patience(pause=5.0)


def wait_until_cool(session: Session, board: Board, below: float, seconds: float) -> float:
    """Waits until all temperatures are below `below` °C, for `seconds` at most; returns the highest, whichever it is then.

    Raises ConditionsNotMet when the board does not show any temperature, and what `Board.shell` raises.
    """
    deadline = Deadline.after(seconds, f"board {board.serial} to be below {below:g} °C")
    now = _hottest(board, read_conditions(session, board))
    if now < below:
        return now
    session.console.info(f"  waiting until the board, at {now:g} °C, is below {below:g} °C")
    for _ in LOOKS.rounds(deadline):
        now = _hottest(board, read_conditions(session, board))
        if now < below:
            break
    return now


def _hottest(board: Board, conditions: Conditions) -> float:
    hottest = max((degrees for degrees in conditions.temperatures.values() if degrees is not None), default=math.nan)
    if math.isnan(hottest):
        raise ConditionsNotMet(
            f"Board {board.serial} shows no temperature, so none can be waited for.", remedy="Leave away --start-below."
        )
    return hottest
