"""What of a study is done: a file for each cell, named by its key, so that nothing is done twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.study.spec import Cell
from core.files import write_json

FOLDER = "studies"
DONE, FAILED = "done", "failed"


@dataclass(frozen=True, kw_only=True)
class CellState:
    """How a cell ended. `result` is what later cells and the report take of it."""

    cell: Cell
    state: str
    result: Mapping[str, Any]
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StudyFolder:
    """Where the cells of a study are kept, below ``runs/studies/``."""

    path: Path

    @classmethod
    def of(cls, runs: Path, study: Path) -> StudyFolder:
        return cls(path=runs / FOLDER / study.stem)

    def read(self, cell: Cell) -> CellState | None:
        """How the cell ended; None when it was never ended, or what is kept of it is gone."""
        try:
            kept = json.loads(self._file(cell).read_text(encoding="utf-8"))
            state = CellState(
                cell=cell,
                state=kept["state"],
                result=dict(kept["result"]),
                error=kept["error"],
                seconds=float(kept["seconds"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return state if state.state != DONE or _is_there(state.result) else None

    def write(self, state: CellState) -> None:
        """Keeps how a cell ended, whole or not at all. Raises NotEnoughSpace, CannotWrite."""
        self.path.joinpath("cells").mkdir(parents=True, exist_ok=True)
        write_json(
            self._file(state.cell),
            {
                "kind": state.cell.kind,
                "title": state.cell.title,
                "parameters": dict(state.cell.parameters),
                "after": list(state.cell.after),
                "state": state.state,
                "result": dict(state.result),
                "error": state.error,
                "seconds": round(state.seconds, 3),
            },
        )

    def records(self, cell: Cell) -> Path:
        """The folder of all that a cell makes, whether it came to its end or not."""
        return self.path / f"{cell.kind}-{cell.key}"

    def _file(self, cell: Cell) -> Path:
        return self.path / "cells" / f"{cell.key}.json"


def _is_there(result: Mapping[str, Any]) -> bool:
    """Whether the record or file that a cell made is where it was left."""
    paths = [Path(result[name]) for name in ("record", "path") if result.get(name)]
    return all(path.exists() for path in paths)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a study is."""

    done: Sequence[CellState]
    failed: Sequence[CellState]
    left: Sequence[Cell]

    def as_json(self) -> dict[str, Any]:
        return {
            "done": [state.cell.title for state in self.done],
            "failed": [{"cell": state.cell.title, "error": state.error} for state in self.failed],
            "left": [cell.title for cell in self.left],
        }


def find_progress(folder: StudyFolder, cells: Sequence[Cell]) -> Progress:
    """What is done, what failed when it was tried last, and what is left."""
    states = list(_states(folder, cells))
    return Progress(
        done=[state for _, state in states if state is not None and state.state == DONE],
        failed=[state for _, state in states if state is not None and state.state == FAILED],
        left=[cell for cell, state in states if state is None],
    )


def _states(folder: StudyFolder, cells: Sequence[Cell]) -> Iterator[tuple[Cell, CellState | None]]:
    return ((cell, folder.read(cell)) for cell in cells)
