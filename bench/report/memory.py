"""How the models of a bench fit the board's memory, and how near their speed is to what memory and storage allow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.fit import FITS, BoardLimits, Fit, judge_best
from bench.fit_board import REARRANGING, most_demanding
from bench.plan import read_plan
from bench.report.charts import finish, label, named, source_of
from bench.report.document import BAD, GOOD, Block, Cell, Chart, Table, Text, number
from bench.report.measured import RATE, Measured
from bench.report.svg import ALARM, INK, MARKERS, MUTED, PAPER, SERIES, new_figure, to_svg
from bench.series import DECODE
from core.errors import UnknownName, UsageError
from core.files import human_bytes
from core.session import Session
from deploy.board.profiles import load_profile
from native.models.gguf_model import read_gguf_model
from native.models.models import find_entry, path_of

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
class ModelFit:
    """A model of a bench whose file is known, and how it fits."""

    name: str
    fit: Fit


def memory_blocks(session: Session, measured: Measured, files: Sequence[Path], name: str) -> list[Block]:
    """What is known of memory. `files` are those that the user named for models of a bench."""
    limits = find_limits(measured)
    fits = list(_fits(session, measured, limits, files))
    blocks: list[Block] = []
    if fits:
        blocks += [_table(fits, limits), _draw_memory(measured, fits, limits, f"{name}m")]
    models = [model["name"] for model in measured.content["models"] if model["kind"] == GGUF]
    lacking = [name for name in models if name not in {fit.name for fit in fits}]
    if chart := draw_roofline(measured, fits, limits, f"{name}r"):
        blocks.append(chart)
    if lacking:
        blocks.append(
            Text(
                text=f"The memory of {', '.join(lacking)} is not worked out, since the file is not here; "
                "name it with --model to see it."
            )
        )
    return blocks


def find_limits(measured: Measured) -> BoardLimits:
    """What was available before the bench, and the rates of the board's profile; 0 where that is not known."""
    board = measured.content["board"]
    before, facts = measured.content["conditions"]["before"] or {}, board["facts"] or {}
    available = before.get("available_bytes") or facts.get("memory_available_bytes") or facts.get("memory_bytes") or 0
    try:
        profile = load_profile(board["profile"])
    except UnknownName:
        return BoardLimits(available=available, memory_rate=0.0, storage_rate=0.0)
    return BoardLimits(available=available, memory_rate=profile.memory_rate, storage_rate=profile.storage_rate)


def _fits(session: Session, measured: Measured, limits: BoardLimits, files: Sequence[Path]) -> Iterator[ModelFit]:
    artifact = (measured.content["program"] or {}).get("artifact") or {}
    settings = most_demanding(read_plan(measured.content["plan"]), REARRANGING.get(artifact.get("cpu", ""), ""))
    for model in measured.content["models"]:
        path = _file_of(session, model, files)
        if path is not None and limits.available:
            yield ModelFit(name=model["name"], fit=judge_best(read_gguf_model(path).info, limits, settings))


def _file_of(session: Session, model: Mapping[str, Any], files: Sequence[Path]) -> Path | None:
    """The model's file, told by its size to the byte, for hashing it would take longer than all else; None when it is not here."""
    if model["kind"] != GGUF:
        return None
    candidates = list(files)
    with contextlib.suppress(UnknownName):
        candidates.append(path_of(session, find_entry(model["name"])))
    return next((path for path in candidates if path.is_file() and path.stat().st_size == model["size"]), None)


def check_files(benches: Sequence[Measured], files: Sequence[Path]) -> None:
    """Raises UsageError for a file that is of no model of these benches."""
    models = [model for measured in benches for model in measured.content["models"]]
    for path in files:
        if not path.is_file():
            raise UsageError(f"There is no file {path} (--model).", remedy="Name the model's .gguf file.")
        if path.stat().st_size not in {model["size"] for model in models}:
            raise UsageError(
                f"{path} (--model) is none of the models that were measured: those have other sizes.",
                remedy=f"They are {', '.join(sorted({model['name'] for model in models}))}.",
            )


# how it fits -------------------------------------------------------------------------------------


def _table(fits: Sequence[ModelFit], limits: BoardLimits) -> Table:
    def row(title: str, cells: Iterable[Cell]) -> list[Cell]:
        return [Cell(text=title), *cells]

    def sizes(title: str, name: str) -> list[Cell]:
        values = [getattr(each.fit.need, name) for each in fits]
        return row(title, (Cell(text=human_bytes(value), value=value) for value in values))

    return Table(
        caption=f"What each model takes by its header, against {human_bytes(limits.usable)} (90 % of the "
        f"{human_bytes(limits.available)} that were available before the bench). The forecast is for the board of the profile.",
        columns=["", *(each.name for each in fits)],
        rows=[
            row(
                "verdict",
                (Cell(text=each.fit.verdict, tone=GOOD if each.fit.verdict == FITS else BAD) for each in fits),
            ),
            *(sizes(title, part) for part, title in PARTS),
            sizes("in all", "total"),
            sizes("read for a token", "read_per_token"),
            row("forecast of a token", (_forecast(each.fit) for each in fits)),
        ],
        numeric=frozenset(range(1, 1 + len(fits))),
        sortable=False,
    )


def _forecast(fit: Fit) -> Cell:
    if not fit.seconds_per_token:
        return Cell(text="not known")
    return Cell(text=f"{number(fit.seconds_per_token, 's')}, bound by {fit.bound_by}", value=fit.seconds_per_token)


def _draw_memory(measured: Measured, fits: Sequence[ModelFit], limits: BoardLimits, name: str) -> Chart:
    figure, (axes,) = new_figure(150 + 30 * len(fits))
    for place, each in enumerate(fits):
        left = 0.0
        for number_of_part, (part, title) in enumerate(PARTS):
            size = getattr(each.fit.need, part) / GIGA
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
    axes.axvline(limits.usable / GIGA, color=ALARM, linewidth=1.6, linestyle=(0, (5, 2)), label="usable memory")
    axes.set_yticks(range(len(fits)), [named(each.name) for each in fits])
    axes.set_ylim(len(fits) - 0.4, -0.6)
    axes.set_xlabel("GB")
    figure.legend(loc="outside lower left", ncols=2)
    told = "; ".join(
        f"{label(each.name)} takes {human_bytes(each.fit.need.total)} and {each.fit.verdict}" for each in fits
    )
    title = "Memory that it takes, and memory that there is"
    return Chart(
        title=title,
        told=f"{title}. {told}; usable are {human_bytes(limits.usable)}.",
        caption=f"{measured.board}. Worked out from the models' headers; the line is 90 % of what was available.",
        svg=to_svg(figure, name, title, told),
    )


# roofline ----------------------------------------------------------------------------------------


def draw_roofline(measured: Measured, fits: Sequence[ModelFit], limits: BoardLimits, name: str) -> Chart | None:
    """Measured decoding below the ceilings of memory and storage; None where those or the bytes are not known."""
    roofs = {"memory": limits.memory_rate, "storage": limits.storage_rate}
    roofs = {title: rate for title, rate in roofs.items() if rate}
    points = []
    for each in fits:
        results = [row for row in measured.results_of(DECODE) if row["model"] == each.name and row["unit"] == RATE]
        if results:
            points.append((each, max(results, key=lambda row: row["median"])))
    if not points or not roofs:
        return None
    sizes = [each.fit.need.read_per_token / GIGA for each, _ in points]
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
    for place, ((each, row), size) in enumerate(zip(points, sizes, strict=True)):
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
            label=f"{named(each.name)}, {row['threads']} threads",
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
    doubt = (
        " The ceilings are the real board's, the points are qemu's: they do not belong together."
        if measured.emulated
        else ""
    )
    return Chart(
        title=title,
        told=f"{title}. {told}.",
        caption=f"{source_of(measured)} Medians of {points[0][1]['n']} samples at the best thread count; a hollow mark is not valid. "
        f"A point cannot lie above the line of what its weights are read from.{doubt}",
        svg=to_svg(figure, name, title, told),
    )
