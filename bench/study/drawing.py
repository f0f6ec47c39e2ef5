"""The drawings of a study: shares of right answers against what they were allowed to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.eval.curves import Curve
from bench.eval.intervals import Share, wilson
from bench.report.charts import MOST_LINES, STAMP, named
from bench.report.document import Chart, number
from bench.report.svg import DASHES, INK, MARKERS, MUTED, SERIES, new_figure, stamp, to_svg
from bench.study.times import Position

HEIGHT = 235
FEW_POINTS = 12
"""So many of a line have marks."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Shares with their intervals under each of several limits."""

    title: str
    at: Sequence[float]
    shares: Sequence[Share]

    @classmethod
    def of(cls, title: str, curve: Curve) -> Line:
        """By the lenient rules."""
        shares = [point.lenient for point in curve.points()]
        return cls(title=title, at=curve.budgets, shares=shares)


def share_line(title: str, at: Sequence[float], counts: Sequence[tuple[int, int]]) -> Line:
    """Of counts, such as answers that were cut, of all."""
    return Line(title=title, at=at, shares=[wilson(some, n) for some, n in counts])


def draw_lines(
    lines: Sequence[Line],
    name: str,
    title: str,
    unit: str,
    what: str,
    source: str,
    *,
    emulated: bool,
    crossing: tuple[float, str] | None = None,
) -> Chart:
    """A line for each of them, with its 95 % band. `crossing` is where the lead passes, with what is said of it."""
    figure, (axes,) = new_figure(HEIGHT)
    for place, line in enumerate(lines[:MOST_LINES]):
        colour = SERIES[place]
        values = [100 * share.value for share in line.shares]
        low, high = ([100 * getattr(share, end) for share in line.shares] for end in ("low", "high"))
        marker = MARKERS[place] if len(values) <= FEW_POINTS else ""
        axes.fill_between(line.at, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            line.at, values, color=colour, marker=marker, markersize=4, linestyle=DASHES[place], label=named(line.title)
        )
    if crossing is not None:
        axes.axvline(crossing[0], color=INK, linewidth=1, linestyle=(0, (2, 2)))
        axes.annotate(
            "crossing", (crossing[0], 100), xytext=(4, -11), textcoords="offset points", color=MUTED, fontsize=10
        )
    axes.set_ylim(0, 103)
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)
    axes.set_title(f"{what}, %", fontsize=11, fontweight="normal")
    figure.legend(loc="outside lower left", ncols=1)
    if emulated:
        stamp(figure, STAMP)
    told = " ".join(_told(line, unit) for line in lines[:MOST_LINES])
    if crossing is not None:
        told = f"{told} {crossing[1]}."
    mark = "EMULATED: times of qemu on this computer. " if emulated else ""
    return Chart(
        title=title,
        told=f"{title}. {told}",
        caption=f"{mark}{source}. Bands: 95 %, Wilson.",
        svg=to_svg(figure, name, title, told),
    )


def share_text(share: Share) -> str:
    """A share with its interval."""
    return f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})"


def draw_times(
    lines: Sequence[tuple[str, Sequence[Position]]], name: str, title: str, source: str, *, emulated: bool
) -> Chart:
    """Milliseconds of a token over its place in the answer, a line for each of them, with the range from 5 % to 95 %."""
    figure, (axes,) = new_figure(HEIGHT)
    told = []
    for place, (line, positions) in enumerate(lines[:MOST_LINES]):
        at = [position.at for position in positions]
        median, low, high = (
            [1000 * getattr(position, end) for position in positions] for end in ("median", "p5", "p95")
        )
        axes.fill_between(at, low, high, color=SERIES[place], alpha=0.15, linewidth=0)
        axes.plot(at, median, color=SERIES[place], linestyle=DASHES[place], label=named(line))
        ends = (
            f"{number(median[0], 'ms')} at token {number(at[0])}, {number(median[-1], 'ms')} at token {number(at[-1])}"
        )
        told.append(f"{line}: {ends}.")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("token of the answer")
    axes.set_title("A token takes, ms", fontsize=11, fontweight="normal")
    figure.legend(loc="outside lower left", ncols=1)
    if emulated:
        stamp(figure, STAMP)
    mark = "EMULATED: times of qemu on this computer. " if emulated else ""
    return Chart(
        title=title,
        told=f"{title}. {' '.join(told)}",
        caption=f"{mark}{source[:1].upper()}{source[1:]}. Lines: medians; bands: 5 % to 95 % of the tokens.",
        svg=to_svg(figure, name, title, " ".join(told)),
    )


def _told(line: Line, unit: str) -> str:
    first, last = line.shares[0], line.shares[-1]
    return (
        f"{line.title}: {first.value:.1%} at {number(line.at[0])} {unit}, {last.value:.1%} ({last.low:.1%} to "
        f"{last.high:.1%}) at {number(line.at[-1])}."
    )
