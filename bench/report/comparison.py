"""Several benches side by side. What was measured under unlike conditions is never put into one number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.compare import Difference, compare_benches, find_unlike
from bench.report.charts import MOST_ROWS, STAMP, label, named
from bench.report.document import BAD, NOTE, Block, Cell, Chart, Notice, Section, Table, number
from bench.report.measured import Measured
from bench.report.svg import INK, MUTED, SERIES, new_figure, stamp, to_svg
from core.errors import UnlikeRecords


def comparison_section(benches: Sequence[Measured]) -> Section:
    """All benches beside each other, and the changes from the first to those that are like it."""
    letters = [chr(ord("A") + place) if place < 26 else f"A{place}" for place in range(len(benches))]
    blocks: list[Block] = [_which(benches, letters), _side_by_side(benches, letters)]
    first = benches[0]
    for letter, other in zip(letters[1:], benches[1:], strict=True):
        blocks += _against(first, other, f"{letter} against A", f"x{letter}")
    return Section(title="Side by side", blocks=blocks)


def _which(benches: Sequence[Measured], letters: Sequence[str]) -> Table:
    rows = [
        [
            Cell(text=letter),
            Cell(text=measured.content["id"]),
            Cell(text=measured.board),
            Cell(text=measured.models),
            Cell(text=measured.content["times"]["started"]),
            _verdict(measured),
        ]
        for letter, measured in zip(letters, benches, strict=True)
    ]
    return Table(caption="The benches", columns=["Bench", "Record", "Board", "Models", "Began", "Verdict"], rows=rows)


def _verdict(measured: Measured) -> Cell:
    valid = measured.content["valid"]
    return Cell(text={True: "valid", False: "NOT VALID", None: "not judged"}[valid], tone=None if valid else BAD)


def _side_by_side(benches: Sequence[Measured], letters: Sequence[str]) -> Table:
    """A row for each thing that was measured, a column for each bench."""
    found: dict[tuple[str, str, str], dict[int, Mapping[str, Any]]] = {}
    for place, measured in enumerate(benches):
        for result in measured.results:
            tokens = f" {result['tokens']}" if result["tokens"] else ""
            key = (result["configuration"], f"{result['test']}{tokens}", result["unit"])
            found.setdefault(key, {})[place] = result
    columns = [f"{letter}{' EMULATED' if each.emulated else ''}" for letter, each in zip(letters, benches, strict=True)]
    return Table(
        caption="Medians",
        columns=["Configuration", "Test", "Unit", *columns],
        rows=[
            [
                *(Cell(text=word) for word in key),
                *(_median(benches[place], row.get(place)) for place in range(len(benches))),
            ]
            for key, row in found.items()
        ],
        numeric=frozenset(range(3, 3 + len(benches))),
    )


def _median(measured: Measured, result: Mapping[str, Any] | None) -> Cell:
    if result is None:
        return Cell(text="-")
    flagged = measured.is_flagged(result)
    return Cell(
        text=f"{number(result['median'])}{' (not valid)' if flagged else ''}",
        value=result["median"],
        tone=BAD if flagged else None,
    )


def _against(first: Measured, other: Measured, title: str, name: str) -> Iterator[Block]:
    unlike = find_unlike(first.content, other.content)
    if unlike:
        yield Notice(
            tone=NOTE,
            title=f"{title}: not compared, for they are not alike",
            lines=[*(f"{entry.sentence}." for entry in unlike[:12])],
        )
        return
    try:
        differences = compare_benches(first.folder, other.folder).differences
    except UnlikeRecords as nothing:
        yield Notice(tone=NOTE, title=f"{title}: not compared", lines=[nothing.message])
        return
    yield _changes(differences, title)
    yield _draw_changes(differences, title, name, emulated=first.emulated)


def _changes(differences: Sequence[Difference], title: str) -> Table:
    rows = [
        [
            Cell(text=entry.model),
            Cell(text=str(entry.threads), value=entry.threads),
            Cell(text=entry.test),
            Cell(text=f"{entry.change:+.1%}", value=entry.change),
            Cell(
                text=f"{entry.low:+.1%} to {entry.high:+.1%}" if entry.low is not None else "too few", value=entry.low
            ),
            Cell(text="yes" if entry.is_clear else "no"),
        ]
        for entry in differences
    ]
    return Table(
        caption=f"{title}: change of the medians",
        columns=["Model", "Threads", "Test", "Change", "95 % interval", "Clear"],
        rows=rows,
        numeric=frozenset({1, 3, 4}),
    )


def _draw_changes(differences: Sequence[Difference], title: str, name: str, *, emulated: bool) -> Chart:
    shown = differences[:MOST_ROWS]
    figure, (axes,) = new_figure(80 + 24 * len(shown))
    for place, entry in enumerate(shown):
        colour = SERIES[0] if entry.is_clear else MUTED
        if entry.low is not None and entry.high is not None:
            axes.plot([100 * entry.low, 100 * entry.high], [place, place], color=colour, linewidth=2)
        axes.plot([100 * entry.change], [place], marker="o" if entry.is_clear else "s", color=colour, markersize=7)
    axes.axvline(0, color=INK, linewidth=1)
    names = [f"{named(entry.model)}, {entry.threads}, {label(entry.test)}" for entry in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("% of A")
    if emulated:
        stamp(figure, STAMP)
    told = "; ".join(
        f"{label(entry.model)}, {entry.threads} threads, {label(entry.test)}: {entry.change:+.1%}" for entry in shown
    )
    return Chart(
        title=f"{title}: changes",
        told=f"{title}. {told}.",
        caption=f"{'EMULATED: times of qemu on this computer. ' if emulated else ''}Change of the median with its 95 % bootstrap "
        "interval; round and blue where it leaves out 0.",
        svg=to_svg(figure, name, title, told),
    )
