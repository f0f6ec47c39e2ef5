"""The same bench on several boards of one kind at once: a whole bench of each, and one record that holds them together.

No number is made of two boards' samples: repetitions of a configuration stay on one board, so each part has its own medians.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.record_kind import RecordKind
from bench.request import BenchOutcome, BenchRequest
from bench.spread.dask_pool import DaskPool
from bench.spread.here import shop_of
from bench.spread.kind import check_alike, kind_of_board
from bench.spread.spread import Spread
from bench.spread.station import Shop
from bench.spread.there import ThereShop, named_there, pack_folder, unpack_folder
from core.errors import AllBoardsLost, Failure, NotEnoughSpace, OhforgeError
from core.interrupts import termination_as_interrupt
from core.record_folder import RecordFolder, make_record_folder, now, plain_name
from core.session import PROJECT, Session
from deploy.run.record import recorded

SCHEMA = 1
KIND = "bench-parts"
RECORD = RecordKind(
    name=KIND,
    schema=SCHEMA,
    schema_file=PROJECT / "docs" / "bench-parts.schema.json",
    title="benches of several boards",
    maker="ohforge bench.llama --boards",
    where="Name the folder that it has shown.",
)
PARTS = "parts"
Measure = Callable[[Session, BenchRequest], BenchOutcome]


@dataclass(frozen=True, kw_only=True)
class PartsOutcome:
    """What came of a bench on several boards."""

    record: Path
    content: Mapping[str, Any]

    @property
    def all_done(self) -> bool:
        return all(part["state"] == "done" for part in self.content["parts"])

    def as_json(self) -> dict[str, Any]:
        """The answer of ``bench.llama --boards … --json``."""
        return {"record": str(self.record), "parts": self.content["parts"]}


def read_parts(folder: Path) -> dict[str, Any]:
    """The record of benches of several boards. Raises InvalidData for a record of another kind or form."""
    return RECORD.read(folder)


def measure_parts(
    session: Session,
    request: BenchRequest,
    instrument: str,
    measure: Measure,
    boards: Sequence[str],
    *,
    scheduler: str = "",
) -> PartsOutcome:
    """Measures on each board; what fails on one does not stop the others, and is gone on with by itself.

    With a Dask scheduler's address its workers have the boards, and measure; their records come here.

    Raises UnlikeBoards, AllBoardsLost when not one bench came to its end, and what ends all: Interrupted, NotEnoughSpace.
    """
    started = now()
    folder = make_record_folder(session.settings.runs, started, f"bench-{instrument}", f"{len(boards)}-boards")
    record = RecordFolder(
        folder,
        {
            "schema": SCHEMA,
            "kind": KIND,
            "id": folder.name,
            "state": "running",
            "ohforge": importlib.metadata.version("ohforge"),
            "times": {"clock": "host", "started": started, "ended": None},
            "instrument": instrument,
            "models": list(request.models),
            "board_kind": None,
            "parts": [_part(board, "left") for board in boards],
            "error": None,
        },
    )

    work = _Parts(session, record)
    with (
        recorded(record),
        termination_as_interrupt(),
        _shop(request, measure, folder, scheduler) as shop,
        DaskPool(session, boards, shop, scheduler=scheduler) as pool,
    ):
        Spread(pool, work, may=lambda board, item: board == item).run(boards)
        if not any(part["state"] == "done" for part in record.content["parts"]):
            why = "; ".join(
                f"{part['board']}: {(part['error'] or {}).get('message')}" for part in record.content["parts"]
            )
            raise AllBoardsLost(f"No board's bench came to its end. {why}", remedy="Measure again, or one by one.")
    outcome = PartsOutcome(record=folder, content=record.content)
    record.end("done" if outcome.all_done else "failed")
    return outcome


@contextlib.contextmanager
def _shop(request: BenchRequest, measure: Measure, folder: Path, scheduler: str) -> Iterator[Shop]:
    if scheduler:
        request = dataclasses.replace(request, models=tuple(map(named_there, request.models)))
        yield ThereShop(do=functools.partial(_measure_there, request, measure, folder.name), look=kind_of_board)
        return
    with shop_of(functools.partial(_measure_here, request, measure, folder), kind_of_board) as shop:
        yield shop


def _measure_here(
    request: BenchRequest, measure: Measure, folder: Path, session: Session, board: str, _: str
) -> dict[str, Any]:
    inner = session.with_settings(runs_dir=str(folder / PARTS / plain_name(board)))
    return _measure_one(inner, dataclasses.replace(request, board=board, ask=False), measure)


def _measure_there(
    request: BenchRequest, measure: Measure, name: str, session: Session, board: str, _: str
) -> dict[str, Any]:
    """The record stays with the board too, in the same place below its computer's runs, to be gone on with there."""
    found = _measure_here(request, measure, session.settings.runs / name, session, board, _)
    return {**found, "packed": pack_folder(Path(found["record"]))} if found["record"] else found


def _measure_one(session: Session, request: BenchRequest, measure: Measure) -> dict[str, Any]:
    try:
        outcome = measure(session, request)
    except Failure as error:
        if type(error) is NotEnoughSpace:  # Nothing more could be kept here.
            raise
        return {"state": "failed", "record": error.details.get("record"), "error": error.as_json()}
    said = outcome.as_json()
    return {"state": "done", "error": None, **{name: said[name] for name in ("record", "valid", "flags", "metrics")}}


class _Parts:
    """See `bench.spread.spread.Work`; the items are the names of the boards."""

    def __init__(self, session: Session, record: RecordFolder) -> None:
        self._console, self._record = session.console, record

    def looked(self, board: str, kind: Mapping[str, Any]) -> None:
        facts = {name: value for name, value in kind.items() if name != "serial"}
        if self._record.content["board_kind"] is None:
            self._record.save(board_kind=facts)
        check_alike(board, facts, self._record.content["board_kind"])

    def prepare(self) -> None: ...

    def opened(self, board: str, about: Mapping[str, Any]) -> None:
        self._console.info(f"board {board} is measured")

    def call_for(self, item: str) -> str:
        return item

    def came(self, board: str, item: str, value: Mapping[str, Any]) -> bool:
        self._set(board, **self._brought(board, value))
        said = value["error"]["message"] if value["error"] else f"done, {'valid' if value['valid'] else 'NOT VALID'}"
        self._console.info(f"board {board}: {said}")
        return False

    def enough(self) -> str:
        return ""

    def failed(self, board: str, error: OhforgeError, given_up: bool, left: Sequence[str]) -> None:
        self._set(board, state="failed", error=error.as_json())
        self._console.warn(f"board {board}: {error.message}" + (" It is given up." if given_up else ""))

    def _brought(self, board: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """The same with the record here, when it came from another computer."""
        known = dict(value)
        if packed := known.pop("packed", None):
            place = self._record.folder / PARTS / plain_name(board)
            unpack_folder(packed, place)
            known["record"] = str(place / Path(known["record"]).name)
        return known

    def _set(self, board: str, **values: Any) -> None:
        parts = [{**part, **values} if part["board"] == board else part for part in self._record.content["parts"]]
        self._record.save(parts=parts)


def _part(board: str, state: str) -> dict[str, Any]:
    return {"board": board, "state": state, "record": None, "valid": None, "flags": [], "metrics": {}, "error": None}
