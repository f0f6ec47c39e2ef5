"""What a bench leaves behind: ``record.json`` (docs/bench.schema.json), ``samples.jsonl``, and the record of every run in ``runs/``."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.conditions import conditions_from
from bench.flags import Span
from bench.instrument import Instrument
from bench.plan import Plan, read_plan
from bench.record_kind import RecordKind
from bench.request import BenchRequest
from bench.series import FILE as SERIES
from bench.series import is_better
from core.errors import InvalidData, RecordChanged, UnlikeRecords
from core.record_folder import FILE, RecordCheck, RecordFolder, check_record, make_record_folder, now
from core.session import PROJECT, Session
from deploy.board.protocol import Board
from deploy.run.result import RunOutcome

if TYPE_CHECKING:
    from native.models.models import Model

SCHEMA = 1
KIND = "bench"
BENCH = RecordKind(
    name=KIND,
    schema=SCHEMA,
    schema_file=PROJECT / "docs" / "bench.schema.json",
    title="a bench",
    maker="ohforge bench.llama",
    where="`ohforge bench.list` shows the records of benches.",
)
RUNS = "runs"
OF_ANY_RUN = ("engine", "program", "board", "link", "run_engine")
"""Parts that the record of each run has as well; a bench takes them over from its first."""
ADDED = {
    "instrument": "llama",
    "tests": ["prefill", "decode"],
    "request": None,
    "sweep": None,
    "parts": [],
    "cpu_seconds": None,
    "computed_by": None,
    "devices": {},
    "fit": None,
    "pin": {"asked": False, "held": False, "why": "not asked for", "policies": []},
}
"""What a record without these keys, which came later, would say."""


class BenchRecord(RecordFolder):
    """The record of one bench."""

    @property
    def runs(self) -> Path:
        return self.folder / RUNS

    @property
    def plan(self) -> Plan:
        return read_plan(self.content["plan"])

    def take_over(self, outcome: RunOutcome) -> None:
        """Notes what was found out of board and program by a run. Raises UnlikeRecords when the program is another now."""
        content = json.loads((outcome.record / FILE).read_text(encoding="utf-8"))
        if self.content["program"] is None:
            self.save(**{name: content[name] for name in OF_ANY_RUN}, computed_by=outcome.facts.get("engine"))
        elif content["program"]["sha256"] != self.content["program"]["sha256"]:
            raise UnlikeRecords(
                "The program is no longer the one that the bench began with.", remedy="Begin a new bench."
            )

    def save_conditions(self, span: Span) -> None:
        """What is known of the board since the bench, or this part of it, began."""
        after = span.looks[-1].as_json() if span.looks else None
        self.save(conditions={"before": span.before.as_json(), "after": after}, cpu_seconds=span.cpu_seconds)

    def earlier_spans(self) -> list[Span]:
        """Of the parts before the bench was gone on with; those of which the end is known."""
        return [
            Span(
                before=conditions_from(part["conditions"]["before"]),
                looks=[conditions_from(part["conditions"]["after"])],
                cpu_seconds=part["cpu_seconds"],
            )
            for part in self.content["parts"]
            if part["conditions"]["before"] and part["conditions"]["after"]
        ]


def models_json(models: Sequence[Model]) -> list[dict[str, Any]]:
    """Models as records name them, a split one with all its pieces."""
    return [
        {
            "name": model.name,
            "kind": model.kind,
            "sha256": model.sha256,
            "size": model.size,
            "pieces": [piece.sha256 for piece in model.pieces],
        }
        for model in models
    ]


def start_bench(
    session: Session,
    board: Board,
    instrument: Instrument,
    engine: str,
    models: Sequence[Model],
    plan: Plan,
    request: BenchRequest,
    fit: Mapping[str, Any] | None,
) -> BenchRecord:
    """Makes ``<runs>/<UTC time>-bench-<instrument>-<board>-<id>`` with its first ``record.json``."""
    started = now()
    folder = make_record_folder(session.settings.runs, started, f"bench-{instrument.name}", board.serial)
    return BenchRecord(
        folder,
        {
            **ADDED,
            "schema": SCHEMA,
            "kind": KIND,
            "id": folder.name,
            "state": "running",
            "ohforge": importlib.metadata.version("ohforge"),
            "times": {"clock": "host", "started": started, "ended": None},
            "instrument": instrument.name,
            "tests": list(instrument.tests(plan)),
            "request": {
                "models": [str(model.path.absolute()) for model in models],
                "board": board.serial,
                "choice": asdict(request.choice),
            },
            "engine": engine,
            "program": None,
            "models": models_json(models),
            "fit": fit,
            "board": {
                "serial": board.serial,
                "profile": board.profile.name,
                "title": board.profile.title,
                "emulated": board.emulated,
                "facts": None,
            },
            "link": None,
            "run_engine": None,
            "plan": plan.as_json(),
            "forecast_seconds": None,
            "conditions": {"before": None, "after": None},
            "series": {"file": SERIES, "count": 0},
            "results": [],
            "rounds": 0,
            "ended_because": None,
            "valid": None,
            "flags": [],
            "notes": [],
            "error": None,
        },
    )


def find_record(session: Session, name: str) -> Path:
    """The folder of a record; see `RecordKind.find`."""
    return BENCH.find(session, name)


def read_bench(folder: Path) -> dict[str, Any]:
    """The record of a bench. Raises InvalidData for a record of another kind or form."""
    return {**ADDED, **BENCH.read(folder)}


def verify_record(folder: Path) -> RecordCheck:
    """Compares a record, of a bench or a run, with its hashes. Raises RecordChanged, and what `check_record` raises."""
    check = check_record(folder)
    if not check.is_unchanged:
        found = {"changed": check.changed, "missing": check.missing, "added": check.added}
        said = "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)
        raise RecordChanged(
            f"{folder} is not as it was at its end. {said[0].upper()}{said[1:]}.",
            changed=list(check.changed),
            missing=list(check.missing),
            added=list(check.added),
        )
    return check


def list_benches(runs: Path) -> list[dict[str, Any]]:
    """All benches below a folder of records, oldest first; records that cannot be read are left out."""
    found = []
    for file in sorted(runs.glob(f"*/{FILE}")):
        try:
            content = read_bench(file.parent)
        except (InvalidData, OSError):
            continue
        found.append({"record": str(file.parent), **_short(content)})
    return found


def _short(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": content["id"],
        "state": content["state"],
        "valid": content["valid"],
        "flags": sorted({flag["name"] for flag in content["flags"]}),
        "board": content["board"]["serial"],
        "emulated": content["board"]["emulated"],
        "instrument": content["instrument"],
        "models": [model["name"] for model in content["models"]],
        "threads": content["plan"]["threads"],
        "best": best_of(content["results"]),
        "units": {result["test"]: result["unit"] for result in content["results"]},
    }


def best_of(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The best median of each test, in its unit."""
    best: dict[str, float] = {}
    for result in results:
        median = result["median"]
        if result["test"] not in best or is_better(median, best[result["test"]], result["unit"]):
            best[result["test"]] = median
    return best
