"""Benches of several boards in one record: a row for each board, and below it all that is told of each bench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.parts import PARTS, read_parts
from bench.report.bench_sections import bench_section
from bench.report.document import BAD, GOOD, Block, Cell, Notice, Section, Table, number
from bench.report.measured import Measured, read_measured
from bench.words import EMULATED
from core.record_folder import FILE, plain_name


@dataclass(frozen=True, kw_only=True)
class SpreadBench:
    """Such a record, with the benches that lie in it."""

    folder: Path
    content: Mapping[str, Any]
    benches: Mapping[str, Measured]
    """By the board's name."""

    @property
    def emulated(self) -> bool:
        return bool((self.content["board_kind"] or {}).get("emulated"))

    @property
    def models(self) -> str:
        found = next(iter(self.benches.values()), None)
        return found.models if found is not None else ", ".join(Path(model).stem for model in self.content["models"])


def read_spread(folder: Path) -> SpreadBench:
    """Reads the record and its benches. Raises InvalidData."""
    content = read_parts(folder)
    benches = {}
    for part in content["parts"]:
        # The path is that of the computer, and the place, where it was measured.
        place = folder / PARTS / plain_name(part["board"]) / Path(part["record"] or "").name
        if part["record"] and (place / FILE).is_file():
            benches[part["board"]] = read_measured(place)
    return SpreadBench(folder=folder, content=content, benches=benches)


def boards_of_bench(spread: SpreadBench) -> list[dict[str, Any]]:
    """Of each board what it measured, for scripts: how many samples count, the best median of each test, what went wrong."""
    found = []
    for part in spread.content["parts"]:
        measured = spread.benches.get(part["board"])
        found.append(
            {
                "board": part["board"],
                "serial": measured.content["board"]["serial"] if measured is not None else None,
                "state": part["state"],
                "samples": sum(result["n"] for result in measured.results) if measured is not None else 0,
                "best": {test: _best(measured, test) for test in measured.tests} if measured is not None else {},
                "valid": part["valid"],
                "error": part["error"],
            }
        )
    return found


def spread_sections(spread: SpreadBench, name: str) -> list[Section]:
    """The boards beside each other, and each bench by itself. `name` makes its drawings' names differ from others'."""
    boards = boards_of_bench(spread)
    title = f"{spread.models} on {len(boards)} boards, each by itself"
    sections = [bench_section(measured, f"{name}b{place}") for place, measured in enumerate(spread.benches.values())]
    return [Section(title=title, blocks=list(_blocks(spread, boards))), *sections]


def _best(measured: Measured, test: str) -> dict[str, Any]:
    results = measured.results_of(test)
    pick = max if results[0]["unit"] == "tokens/s" else min
    best = pick(results, key=lambda result: result["median"])
    return {key: best[key] for key in ("median", "unit", "configuration", "n")}


def _blocks(spread: SpreadBench, boards: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    if spread.emulated:
        yield Notice(tone=BAD, title="EMULATED", lines=[f"{EMULATED.partition(': ')[2].capitalize()}."])
    lost = [board for board in boards if board["state"] != "done"]
    lines = [f"{board['board']}: {board['error']['message'] if board['error'] else 'not measured'}" for board in lost]
    if lost:
        title = f"{len(lost)} of {len(boards)} boards did not come to an end; the others lack nothing by it"
        yield Notice(tone=BAD, title=title, lines=lines)
    else:
        yield Notice(tone=GOOD, title="Every board came to its end")
    tests = list(dict.fromkeys(test for board in boards for test in board["best"]))
    mark = " EMULATED" if spread.emulated else ""
    yield Table(
        caption="The boards: no number is made of two boards' samples.",
        columns=["Board", "Serial", "State", "Samples", *(f"Best {test}" for test in tests), "Verdict"],
        rows=[
            [
                Cell(text=board["board"]),
                Cell(text=board["serial"] or "not known"),
                Cell(text=board["state"], tone=None if board["state"] == "done" else BAD),
                Cell(text=str(board["samples"]), value=board["samples"]),
                *(_best_cell(board["best"].get(test), mark) for test in tests),
                _verdict(board["valid"]),
            ]
            for board in boards
        ],
        numeric=frozenset(range(3, 4 + len(tests))),
    )


def _best_cell(best: Mapping[str, Any] | None, mark: str) -> Cell:
    if best is None:
        return Cell(text="-")
    return Cell(text=f"{number(best['median'], best['unit'])}{mark}", value=best["median"])


def _verdict(valid: bool | None) -> Cell:
    return Cell(text={True: "valid", False: "NOT VALID", None: "not judged"}[valid], tone=None if valid else BAD)
