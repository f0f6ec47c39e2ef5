"""How studies look to people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.study.forecast import StudyPlan
    from bench.study.state import Progress
    from core.console import Console


def show_plan(console: Console, plan: StudyPlan) -> None:
    """Each cell, what is left in all, and ways to make it less."""
    rows = [
        [
            each.cell.title,
            each.state,
            _count(each.answers),
            _count(each.tokens),
            _time(each.seconds),
            _time(each.most_seconds),
            f"{100 * each.width:.0f} points" if each.width is not None else "",
            each.basis,
        ]
        for each in plan.forecasts
    ]
    console.table(["CELL", "STATE", "ANSWERS", "TOKENS", "TIME", "AT MOST", "INTERVAL", "KNOWN BY"], rows)
    console.info(
        f"left: {len(plan.left)} cells, {_count(plan.tokens) or 'no'} tokens, {_time(plan.seconds) or 'no time'} as "
        f"expected, {_time(plan.most_seconds) or 'none'} at most"
    )
    if plan.unknown:
        console.info(f"no time is known of {len(plan.unknown)} of them, which the sums leave out")
    for count in plan.boards:
        plural = "boards" if count > 1 else "board"
        console.info(f"with {count} {plural} in place of each: {_time(plan.seconds_with(count)) or 'none'}")
    for saving in plan.savings:
        enough = "enough" if saving.fits else "not enough by itself"
        console.info(f"to save time: {saving.what}: {_time(saving.seconds)} ({enough}); {saving.cost}")


def show_progress(console: Console, progress: Progress, folder: Path) -> None:
    """Which cells are done, failed and left."""
    rows = [[state.cell.title, "done", _time(state.seconds), ""] for state in progress.done]
    rows += [[state.cell.title, "failed", _time(state.seconds), state.error] for state in progress.failed]
    rows += [[cell.title, "left", "", ""] for cell in progress.left]
    console.table(["CELL", "STATE", "TIME", "WHY"], rows)
    console.info(f"{len(progress.done)} done, {len(progress.failed)} failed, {len(progress.left)} left")
    console.info(f"record: {folder}")


def _count(value: float | None) -> str:
    return "" if not value else f"{value:,.0f}"


def _time(seconds: float | None) -> str:
    if not seconds:
        return ""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
