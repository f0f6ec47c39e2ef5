"""A study on several boards at once: each board does its own cells in order, and others help it to answer questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.spread.dask_pool import DaskPool
from bench.spread.here import shop_of
from bench.spread.spread import Spread
from bench.study.crew import Crew
from bench.study.spec import HOST, QUANTIZE, Cell, Study
from bench.study.state import FAILED, CellState
from core.errors import AllBoardsLost, BoardError, Interrupted, LostConnection, OhforgeError, TransferError
from core.session import Session

MOST_FAILURES = 3
"""Cells in a row that a board fails by itself, after which it is given up."""
OF_BOARD = tuple(
    error.code for base in (BoardError, LostConnection, TransferError) for error in (base, *base.__subclasses__())
)
Perform = Callable[[Session, Cell], CellState | None]
"""Does one cell; None when it cannot be begun. May be called by several threads."""


def run_lanes(
    session: Session,
    study: Study,
    cells: Sequence[Cell],
    crew: Crew,
    perform: Perform,
    ended: Callable[[CellState], None],
) -> None:
    """Does the cells that are given, those without a board beside the boards; `ended` hears of each in this thread.

    Raises AllBoardsLost when every board was given up, and what ends a study.
    """
    lanes = dict.fromkeys([*crew.lanes, HOST])
    waiting = [cell for cell in cells if _lane_of(cell) in lanes]
    for cell in waiting:
        if cell.kind == QUANTIZE and (state := perform(session, cell)) is not None:
            ended(state)
    index = {cell.key: cell for cell in waiting if cell.kind != QUANTIZE}
    work = _Lanes(session, index, ended)
    names = sorted({_lane_of(cell) for cell in index.values()}, key=list(lanes).index)
    if not names:
        return
    remedy = f"Go on with `ohforge study.run {study.path}`."
    try:
        with (
            shop_of(lambda session, _, key: perform(session, index[key])) as shop,
            DaskPool(session, [LANE + name for name in names], shop) as pool,
        ):
            Spread(pool, work, may=work.may).run(index)
    except KeyboardInterrupt:
        raise Interrupted("Interrupted; all that was done is kept.", remedy=remedy) from None
    if work.given_up and work.given_up == {name for name in names if name != HOST}:
        raise AllBoardsLost(
            f"No board of the study is left to go on with: {', '.join(sorted(work.given_up))}.",
            remedy=f"Make the boards ready again. {remedy}",
        )


LANE = "study on "
"""Before the name of a place: the board itself has a resource of its own, for the questions."""


def _lane_of(cell: Cell) -> str:
    return str(cell.parameters.get("board") or HOST)


class _Lanes:
    """See `bench.spread.spread.Work`; the items are the keys of cells."""

    def __init__(self, session: Session, cells: Mapping[str, Cell], ended: Callable[[CellState], None]) -> None:
        self._session, self._cells, self._ended = session, cells, ended
        self._failures: dict[str, int] = {}
        self.given_up: set[str] = set()

    def may(self, lane: str, key: str) -> bool:
        place = lane.removeprefix(LANE)
        return place not in self.given_up and _lane_of(self._cells[key]) == place

    def looked(self, board: str, kind: Mapping[str, Any]) -> None: ...

    def prepare(self) -> None: ...

    def opened(self, board: str, about: Mapping[str, Any]) -> None: ...

    def call_for(self, item: str) -> str:
        return item

    def came(self, board: str, item: str, value: CellState | None) -> bool:
        place = board.removeprefix(LANE)
        if value is None:
            return False
        self._ended(value)
        self._session.console.info(f"{value.cell.title}: {value.state}{': ' + value.error if value.error else ''}")
        is_lost = value.state == FAILED and value.error.partition(":")[0] in OF_BOARD
        self._failures[place] = self._failures.get(place, 0) + 1 if is_lost else 0
        if self._failures[place] >= MOST_FAILURES:
            self.given_up.add(place)
            self._session.console.warn(f"board {place} is given up after {MOST_FAILURES} failures in a row")
        return False

    def enough(self) -> str:
        return ""

    def failed(self, board: str, error: OhforgeError, given_up: bool, left: Sequence[str]) -> None:
        raise error
