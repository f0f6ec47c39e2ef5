"""Doing what is left of a study, cell by cell; what fails does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.study.crew import Crew
from bench.study.spec import Cell, Study
from bench.study.state import DONE, FAILED, CellState, Progress, StudyFolder, find_progress
from core.deadline import Deadline
from core.dry import Would
from core.errors import Failure, Interrupted, NotEnoughSpace
from core.locks import hold
from core.session import Session

LOCK_SECONDS = 5.0
Earlier = Mapping[str, Mapping[str, Any]]
"""Results of the cells that came before, by their keys."""
Do = Callable[[Session, Cell, Earlier], Mapping[str, Any]]
"""Does one cell and gives its result; the session's folder of records is the cell's own. Raises OhforgeError."""


def run_study(session: Session, study: Study, ways: Mapping[str, Do], crew: Crew | None = None) -> Progress:
    """Does all cells that are not done, in order; `ways` has how each kind of cell is done.

    With a crew, its boards work at once, and the cells of other boards are left. What a cell had begun when it was ended
    is in its own folder, so that it can go on with it.
    A failed cell is told and kept, and what comes after it is left out. Raises Busy when another process runs the same
    study, and what means that nothing more can be kept: NotEnoughSpace, Interrupted; AllBoardsLost with a crew.
    """
    folder = StudyFolder.of(session.settings.runs, study.path)
    cells = study.cells()
    places = {cell.key: f"{number} of {len(cells)}" for number, cell in enumerate(cells, 1)}
    results: dict[str, Mapping[str, Any]] = {}
    left: list[Cell] = []

    def perform(session: Session, cell: Cell) -> CellState | None:
        inner = session.with_settings(runs_dir=str(folder.records(cell)))
        try:
            return _do(inner, cell, ways[cell.kind], results, places[cell.key])
        except (Interrupted, NotEnoughSpace) as end:
            end.remedy = f"Go on with `ohforge study.run {study.path}`."  # Not with the part alone.
            raise

    def ended(state: CellState) -> None:
        folder.write(state)
        if state.state == DONE:
            results[state.cell.key] = state.result

    with hold(folder.path / "lock", Deadline.after(LOCK_SECONDS, f"the study {study.path.stem}")):
        for cell in cells:
            state = folder.read(cell)
            if state is not None and state.state == DONE:
                results[cell.key] = state.result
            else:
                left.append(cell)
        if crew is not None:
            from bench.study.lanes import run_lanes

            run_lanes(session, study, left, crew, perform, ended)
        else:
            for cell in left:
                if (state := perform(session, cell)) is not None:
                    ended(state)
    return find_progress(folder, cells)


def would_run(folder: StudyFolder, study: Study) -> list[Would]:
    """What `run_study` would do."""
    progress = find_progress(folder, study.cells())
    tried = {state.cell.key for state in progress.failed}
    return [
        Would(action=cell.kind, what=cell.title, why="failed before" if cell.key in tried else "")
        for cell in study.cells()
        if cell.key in tried or cell in progress.left
    ]


def _do(session: Session, cell: Cell, do: Do, results: Earlier, place: str) -> CellState | None:
    """None when it cannot be begun, because a cell before it failed."""
    if not all(key in results for key in cell.after):
        session.console.info(f"{place}: {cell.title}: left out, what it needs has failed")
        return None
    session.console.info(f"{place}: {cell.title}")
    started = time.monotonic()
    try:
        result = do(session, cell, {key: results[key] for key in cell.after})
    except Failure as error:
        if type(error) is NotEnoughSpace:  # Nothing more could be kept here.
            raise
        session.console.warn(f"{cell.title}: {error.message}")
        return CellState(
            cell=cell,
            state=FAILED,
            result={"record": error.details["record"]} if "record" in error.details else {},
            error=f"{error.code}: {error.message}",
            seconds=time.monotonic() - started,
        )
    return CellState(cell=cell, state=DONE, result=result, seconds=time.monotonic() - started)
