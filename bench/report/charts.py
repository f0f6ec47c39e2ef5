"""Drawings of a bench: speeds by threads, all samples side by side, and how it went with time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bench.report.document import Chart, number, readable
from bench.report.measured import RATE, Measured
from bench.report.svg import (
    ALARM,
    DASHES,
    INK,
    LETTERS,
    MARKERS,
    MUTED,
    PAPER,
    SERIES,
    new_figure,
    stamp,
    to_svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 6
"""More lines in one drawing cannot be told apart."""
MOST_ROWS = 24
MOST_POINTS = 200
"""Of one series that are drawn each by itself; of more, the median and the range of as many groups."""
LONGEST_LABEL = 28
STAMP = "EMULATED"
BETTER = {RATE: "More is better"}


def label(text: str) -> str:
    """A name out of a record, as short as a drawing needs it; what tells names apart often stands at their end."""
    text = readable(text)
    half = LONGEST_LABEL // 2
    return text if len(text) <= LONGEST_LABEL else f"{text[: half - 2]}…{text[-half - 1 :]}"


def named(text: str) -> str:
    """As `label`; matplotlib leaves out of a legend what begins with an underscore."""
    return f"\N{WORD JOINER}{label(text)}"


def source_of(measured: Measured) -> str:
    """What every drawing says below itself."""
    emulated = "EMULATED: times of qemu on this computer. " if measured.emulated else ""
    return f"{emulated}{measured.board}; {measured.content['engine']}."


def finish(measured: Measured, figure: Figure) -> None:
    """Marks what is no board's time."""
    if measured.emulated:
        stamp(figure, STAMP)


# speeds by threads -------------------------------------------------------------------------------


def draw_threads(measured: Measured, test: str, name: str) -> Chart | None:
    """Medians of a test over threads, a line for each model and setting; None for one thread count."""
    results = measured.results_of(test)
    if len({result["threads"] for result in results}) < 2:
        return None
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        settings = [f"{key} {value}" for key, value in (result.get("settings") or {}).items()]
        lines.setdefault(", ".join([result["model"], *settings]), []).append(result)
    unit, threads = results[0]["unit"], sorted({result["threads"] for result in results})
    shown = dict(list(lines.items())[:MOST_LINES])
    figure, (axes,) = new_figure(250)
    for place, (line, rows) in enumerate(shown.items()):
        rows = sorted(rows, key=lambda row: row["threads"])
        colour, places = SERIES[place % len(SERIES)], [threads.index(row["threads"]) for row in rows]
        medians = [row["median"] for row in rows]
        axes.plot(places, medians, color=colour, linestyle=DASHES[place % len(DASHES)], linewidth=1.6, zorder=3)
        for x, row in zip(places, rows, strict=True):
            if row["low"] is not None:
                axes.plot([x, x], [row["low"], row["high"]], color=colour, linewidth=5, alpha=0.35, zorder=2)
            flagged = measured.is_flagged(row)
            axes.plot(
                *([x], [row["median"]]),
                marker=MARKERS[place % len(MARKERS)],
                markersize=7,
                color=colour,
                markerfacecolor=PAPER if flagged else colour,
                markeredgewidth=1.6,
                zorder=4,
            )
        axes.plot([], [], color=colour, linestyle=DASHES[place % len(DASHES)], marker=MARKERS[place % len(MARKERS)],
                  label=named(line))  # fmt: skip
    axes.set_xticks(range(len(threads)), [str(count) for count in threads])
    axes.set_xlabel("threads")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    if len(shown) > 1:
        figure.legend(loc="outside lower left")
    finish(measured, figure)
    told = "; ".join(
        f"{label(result['configuration'])}: {number(result['median'], unit)}{_interval_in_words(result)}"
        for result in results[:MOST_ROWS]
    )
    left_out = f" The first {MOST_LINES} of {len(lines)} lines are drawn." if len(lines) > MOST_LINES else ""
    title = f"{test.capitalize()} by threads"
    return Chart(
        title=title,
        told=f"{title}. {told}.",
        caption=f"{source_of(measured)} Medians of {_counts(results)} samples; bars are 95 % intervals of the median; "
        f"a hollow mark is not valid. {BETTER.get(unit, 'Less is better')}.{left_out}",
        svg=to_svg(figure, name, title, told),
    )


def _interval_in_words(result: Mapping[str, Any]) -> str:
    if result["low"] is None:
        return " (too few samples for an interval)"
    return f" (95 %: {number(result['low'])} to {number(result['high'])})"


def _counts(results: Sequence[Mapping[str, Any]]) -> str:
    least, most = min(result["n"] for result in results), max(result["n"] for result in results)
    return str(least) if least == most else f"{least} to {most}"


# all samples, side by side -----------------------------------------------------------------------


def draw_samples(measured: Measured, test: str, name: str) -> Chart | None:
    """Every sample of a test against the median of its like, a row for each configuration; None where there is none."""
    rows = [(result, points) for result in measured.results_of(test) if (points := measured.counted(result))]
    shown = rows[:MOST_ROWS]
    if not shown:
        return None
    unit = shown[0][0]["unit"]
    figure, (axes,) = new_figure(70 + 34 * len(shown))
    for place, (result, points) in enumerate(shown):
        colour = ALARM if measured.is_flagged(result) else SERIES[0]
        share = 100 / result["median"]
        values = [share * point.value for point in points]
        if len(values) <= MOST_POINTS // max(1, len(shown) // 4):
            # Side by side, so that equal ones do not hide each other; the order is theirs.
            heights = [place + 0.24 * math.sin(2.4 * turn) for turn in range(len(values))]
            axes.plot(values, heights, marker="o", markersize=3.6, linestyle="", color=colour, alpha=0.65, zorder=3)
        else:
            counts, heights = _profile(values)
            top = max(counts)
            axes.fill_between(
                heights,
                [place - 0.36 * count / top for count in counts],
                [place + 0.36 * count / top for count in counts],
                color=colour,
                alpha=0.4,
                linewidth=0.8,
                zorder=3,
            )
        axes.plot([share * result["p5"], share * result["p95"]], [place, place], color=INK, linewidth=1.2, zorder=4)
        axes.plot([100, 100], [place - 0.34, place + 0.34], color=INK, linewidth=2.2, zorder=5)
    names = [f"{named(measured.short(result))}\n{number(result['median'], unit)}" for result, _ in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel("% of the median")
    finish(measured, figure)
    told = "; ".join(
        f"{label(measured.short(result))}: median {number(result['median'], unit)}, nine of ten between "
        f"{number(result['p5'])} and {number(result['p95'])}"
        for result, _ in shown
    )
    left_out = f" The first {MOST_ROWS} of {len(rows)} are drawn." if len(rows) > MOST_ROWS else ""
    title = f"{test.capitalize()}: all samples"
    return Chart(
        title=title,
        told=f"{title}. {told}.",
        caption=f"{source_of(measured)} n = {_counts([result for result, _ in shown])} each. The thick line is the median, "
        "the thin one goes from the 5th to the 95th percentile; dots or shapes are the samples, red where something speaks "
        f"against them.{left_out}",
        svg=to_svg(figure, name, title, told),
    )


def _profile(values: Sequence[float], bins: int = 60) -> tuple[list[int], list[float]]:
    """How many values lie around each of some places."""
    low, high = min(values), max(values)
    width = (high - low) / bins or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / width), bins - 1)] += 1
    return counts, [low + (place + 0.5) * width for place in range(bins)]


# how it went with time ---------------------------------------------------------------------------


def draw_course(measured: Measured, name: str) -> Chart | None:
    """Each sample against the median of its like, with temperature and clock on the same axis of time."""
    medians = {(result["configuration"], result["test"]): result["median"] for result in measured.results}
    points = sorted(
        (point for point in measured.points if point.counts and (point.configuration, point.test) in medians),
        key=lambda point: point.at,
    )
    if len(points) < 2:
        return None
    began = points[0].at
    tracks = {
        "highest temperature, °C": [(point.at - began, point.hottest) for point in points if point.hottest is not None],
        "clock, MHz": [(point.at - began, point.hertz / 1e6) for point in points if point.hertz is not None],
    }
    tracks = {title: track for title, track in tracks.items() if track}
    scale, unit = (60.0, "minutes") if points[-1].at - began > 180 else (1.0, "seconds")
    figure, (top, *below) = new_figure(180 + 78 * len(tracks), 1 + len(tracks), (2.4, *([1.0] * len(tracks))))
    for place, test in enumerate(measured.tests):
        series = [
            ((point.at - began) / scale, 100 * point.value / medians[(point.configuration, point.test)])
            for point in points
            if point.test == test
        ]
        _draw_series(top, series, place, test)
    top.axhline(100, color=MUTED, linewidth=0.8)
    top.set_title("Speed, % of the median of its like", fontsize=LETTERS - 0.5, fontweight="normal")
    if len(measured.tests) > 1:
        figure.legend(loc="outside lower left", ncols=min(len(measured.tests), 3))
    for axes, (title, track) in zip(below, tracks.items(), strict=True):
        drawn = thin(track)
        marker = "." if len(track) < 60 else ""
        axes.plot(
            [at / scale for at, _ in drawn], [value for _, value in drawn], color=INK, linewidth=1.2, marker=marker
        )
        axes.set_title(f"{title[:1].upper()}{title[1:]}", fontsize=LETTERS - 0.5, fontweight="normal")
        values = [value for _, value in track]
        if max(values) - min(values) < 0.02 * max(map(abs, values)):
            middle = statistics.median(values)
            axes.set_ylim(middle - 0.05 * abs(middle) - 1e-9, middle + 0.05 * abs(middle) + 1e-9)
    figure.axes[-1].set_xlabel(f"{unit} since the first repetition")
    finish(measured, figure)
    told = " ".join(_told_of(title, [value for _, value in track]) for title, track in tracks.items())
    spread = [100 * point.value / medians[(point.configuration, point.test)] for point in points]
    told = f"Samples lie between {min(spread):.0f} % and {max(spread):.0f} % of their medians. {told}".strip()
    missing = [what for what in ("highest temperature, °C", "clock, MHz") if what not in tracks]
    lacking = f" The board does not tell {' and '.join(name.split(',')[0] for name in missing)}." if missing else ""
    title = "Over time, with temperature and clock" if tracks else "Over time"
    return Chart(
        title=title,
        told=f"{title}. {told}",
        caption=f"{source_of(measured)} n = {len(points)}; 100 % is the median of the sample's own configuration. Temperature is "
        f"the highest of all zones during the repetition, clock the median of its fastest CPU.{lacking}",
        svg=to_svg(figure, name, title, told),
    )


def _draw_series(axes: Axes, series: Sequence[tuple[float, float]], place: int, title: str) -> None:
    colour, marker = SERIES[place % len(SERIES)], MARKERS[place % len(MARKERS)]
    if len(series) <= MOST_POINTS:
        axes.plot(
            *zip(*series, strict=True),
            linestyle="",
            marker=marker,
            markersize=4,
            color=colour,
            alpha=0.75,
            label=named(title),
        )
        return
    groups = grouped(series)
    at = [group[len(group) // 2][0] for group in groups]
    values = [[y for _, y in group] for group in groups]
    axes.fill_between(at, list(map(min, values)), list(map(max, values)), color=colour, alpha=0.2, linewidth=0)
    axes.plot(at, list(map(statistics.median, values)), color=colour, label=named(title))


def grouped(series: Sequence[tuple[float, float]]) -> list[Sequence[tuple[float, float]]]:
    """A long series in as many parts as can be drawn."""
    size = math.ceil(len(series) / MOST_POINTS)
    return [series[start : start + size] for start in range(0, len(series), size)]


def thin(series: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A long series with the median of each of its parts, at the time of its middle."""
    if len(series) <= MOST_POINTS:
        return list(series)
    return [(group[len(group) // 2][0], statistics.median(y for _, y in group)) for group in grouped(series)]


def _told_of(title: str, values: Sequence[float]) -> str:
    what, unit = title.split(", ")
    return f"{what.capitalize()}: {number(min(values))} to {number(max(values), unit)}."
