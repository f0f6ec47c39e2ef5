"""How the models of a bench fit the board's memory as it was foreseen, what came of it, and how near their speed is to what
memory and storage allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.fit import FITS
from bench.fit_board import OF_PROFILE
from bench.report.charts import finish, label, named, source_of
from bench.report.document import BAD, GOOD, Block, Cell, Chart, Table, Text, number
from bench.report.measured import RATE, Measured, is_number
from bench.report.svg import ALARM, INK, MARKERS, MUTED, PAPER, SERIES, new_figure, to_svg
from bench.series import DECODE
from core.files import human_bytes

GGUF = "gguf"
GIGA = 1e9
PARTS = (
    ("weights", "weights"),
    ("repack", "weights, rearranged"),
    ("kv", "keys and values"),
    ("compute", "compute buffer"),
    ("output", "output buffer"),
    ("process", "the process"),
)


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """What the record says of a model before it was measured. Bytes and seconds."""

    name: str
    said: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        return str(self.said["verdict"])

    @property
    def total(self) -> int:
        return sum(int(self.said["bytes"][part]) for part, _ in PARTS)

    @property
    def read_per_token(self) -> int:
        return int(self.said["bytes"]["read_per_token"])

    @property
    def seconds(self) -> float | None:
        """Of a token."""
        found: float | None = self.said["seconds_per_token"]
        return found


def memory_blocks(measured: Measured, name: str) -> list[Block]:
    """What was foreseen of memory when the bench began, beside what was measured; nothing where no model is of a kind that is foreseen."""
    fit = measured.content["fit"]
    if fit is None:
        if any(model["kind"] == GGUF for model in measured.content["models"]):
            return [Text(text="What it takes of the memory is not in the record, which an older ohforge has made.")]
        return []
    foreseen = [Foreseen(name=said["model"], said=said) for said in fit["models"]]
    blocks: list[Block] = [_table(measured, foreseen, fit), _draw_memory(measured, foreseen, fit, f"{name}m")]
    if chart := draw_roofline(measured, foreseen, fit["rates"], f"{name}r"):
        blocks.append(chart)
    return blocks


# how it fits -------------------------------------------------------------------------------------


def _table(measured: Measured, foreseen: Sequence[Foreseen], fit: Mapping[str, Any]) -> Table:
    mark = " EMULATED" if measured.emulated else ""

    def sizes(title: str, name: str) -> list[Cell]:
        return row(title, (each.said["bytes"][name] for each in foreseen))

    def row(title: str, values: Iterable[float | None], mark: str = "") -> list[Cell]:
        shown = [
            Cell(text="not known" if value is None else f"{human_bytes(round(value))}{mark}", value=value)
            for value in values
        ]
        return [Cell(text=title), *shown]

    return Table(
        caption="What each model takes with the most demanding of the settings, as it was worked out before anything was sent, against "
        f"{human_bytes(fit['usable'])} (90 % of the {human_bytes(fit['available'])} that were available); and what was measured.",
        columns=["", *(each.name for each in foreseen)],
        rows=[
            [
                Cell(text="verdict"),
                *(Cell(text=each.verdict, tone=GOOD if each.verdict == FITS else BAD) for each in foreseen),
            ],
            *(sizes(title, part) for part, title in PARTS),
            row("in all", (each.total for each in foreseen)),
            row("measured: most memory", (_peak(measured, each) for each in foreseen), mark),
            sizes("read for a token", "read_per_token"),
            row(
                "measured: read from storage for a token",
                (_median(measured, each, "read_per_token") for each in foreseen),
                mark,
            ),
            [Cell(text="forecast of a token"), *(_forecast(each, emulated=measured.emulated) for each in foreseen)],
            [Cell(text="measured: a token"), *(_token(measured, each, mark) for each in foreseen)],
        ],
        numeric=frozenset(range(1, 1 + len(foreseen))),
        sortable=False,
    )


def _forecast(each: Foreseen, *, emulated: bool) -> Cell:
    if each.seconds is None:
        return Cell(text="not known")
    where = " on a real board" if emulated and str(each.said["rate"]).endswith(OF_PROFILE) else ""
    return Cell(
        text=f"at least {number(each.seconds, 's')}{where}, bound by {each.said['bound_by']}: {each.said['rate']}",
        value=each.seconds,
    )


def _token(measured: Measured, each: Foreseen, mark: str) -> Cell:
    best = _best_decode(measured, each)
    if best is None:
        return Cell(text="not measured")
    seconds = 1 / best["median"]
    return Cell(text=f"{number(seconds, 's')}{mark} ({measured.short(best)})", value=seconds)


def _best_decode(measured: Measured, each: Foreseen) -> Mapping[str, Any] | None:
    results = [row for row in measured.results_of(DECODE) if row["model"] == each.name and row["unit"] == RATE]
    return max(results, key=lambda row: row["median"], default=None)


def _peak(measured: Measured, each: Foreseen) -> float | None:
    """Of llama-bench and, where it ran, llama-server."""
    own = [point.said.get("peak_bytes") for point in measured.points if point.said["model"] == each.name]
    known = [peak for peak in own if is_number(peak)]
    served = _median(measured, each, "peak_memory")
    return max([*known, *([served] if served is not None else [])], default=None)


def _median(measured: Measured, each: Foreseen, metric: str) -> float | None:
    """Of the completions."""
    results = (measured.content.get("completion") or {}).get("results", ())
    return next((row["median"] for row in results if row["model"] == each.name and row["metric"] == metric), None)


def _draw_memory(measured: Measured, foreseen: Sequence[Foreseen], fit: Mapping[str, Any], name: str) -> Chart:
    figure, (axes,) = new_figure(150 + 30 * len(foreseen))
    for place, each in enumerate(foreseen):
        left = 0.0
        for number_of_part, (part, title) in enumerate(PARTS):
            size = each.said["bytes"][part] / GIGA
            axes.barh(
                *(place, size),
                left=left,
                height=0.6,
                color=SERIES[number_of_part],
                edgecolor=PAPER,
                linewidth=0.8,
                hatch=("", "//", "--", "", "", "\\\\")[number_of_part],
                label=title if not place else None,
            )
            left += size
    axes.axvline(fit["usable"] / GIGA, color=ALARM, linewidth=1.6, linestyle=(0, (5, 2)), label="usable memory")
    axes.set_yticks(range(len(foreseen)), [named(each.name) for each in foreseen])
    axes.set_ylim(len(foreseen) - 0.4, -0.6)
    axes.set_xlabel("GB")
    figure.legend(loc="outside lower left", ncols=2)
    told = "; ".join(f"{label(each.name)} takes {human_bytes(each.total)}: {each.verdict}" for each in foreseen)
    title = "Memory that it takes, and memory that there is"
    return Chart(
        title=title,
        told=f"{title}. {told}; usable are {human_bytes(fit['usable'])}.",
        caption=f"{measured.board}. Worked out from the models' headers; the line is 90 % of what was available.",
        svg=to_svg(figure, name, title, told),
    )


# roofline ----------------------------------------------------------------------------------------


def draw_roofline(
    measured: Measured, foreseen: Sequence[Foreseen], rates: Mapping[str, Any], name: str
) -> Chart | None:
    """Measured decoding below the ceilings of memory and storage; None where those are not known, or nothing was decoded."""
    roofs = {title: rates[title] for title in ("memory", "storage") if rates[title]}
    points = [(each, row) for each in foreseen if (row := _best_decode(measured, each)) is not None]
    if not points or not roofs:
        return None
    sizes = [each.read_per_token / GIGA for each, _ in points]
    low, high = min(sizes) / 3, max(sizes) * 3
    figure, (axes,) = new_figure(270)
    for place, (title, rate) in enumerate(roofs.items()):
        axes.plot(
            *([low, high], [rate / GIGA / low, rate / GIGA / high]),
            color=(INK, MUTED)[place],
            linestyle=("-", (0, (5, 2)))[place],
            linewidth=1.8,
            label=f"{title}, {number(rate / GIGA)} GB/s",
        )
    for place, ((_, row), size) in enumerate(zip(points, sizes, strict=True)):
        flagged = measured.is_flagged(row)
        colour = SERIES[place % len(SERIES)]
        axes.plot(
            *([size], [row["median"]]),
            marker=MARKERS[place % len(MARKERS)],
            linestyle="",
            markersize=8,
            color=colour,
            markerfacecolor=PAPER if flagged else colour,
            markeredgewidth=1.6,
            label=named(str(row["configuration"])),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("GB of weights read for a token")
    axes.set_ylabel("tokens/s")
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_locator(NullLocator())
    figure.legend(loc="outside lower left")
    finish(measured, figure)
    told = "; ".join(
        f"{label(each.name)} decodes {number(row['median'])} tokens/s and reads {number(size)} GB for each, so "
        + ", ".join(
            f"{100 * row['median'] * size * GIGA / rate:.3g} % of what {title} allows" for title, rate in roofs.items()
        )
        for (each, row), size in zip(points, sizes, strict=True)
    )
    title = "Decoding against what memory and storage allow"
    of_board = [title for title in roofs if title not in ((rates["measured"] or {}).get("which") or ())]
    doubt = (
        f" The ceiling of {' and '.join(of_board)} is the real board's, the points are qemu's: they do not belong together."
        if measured.emulated and of_board
        else ""
    )
    return Chart(
        title=title,
        told=f"{title}. {told}.",
        caption=f"{source_of(measured)} Medians of {points[0][1]['n']} samples at the best thread count; a hollow mark is not valid. "
        f"A point cannot lie above the line of what its weights are read from.{doubt}",
        svg=to_svg(figure, name, title, told),
    )
