"""What a study will take before it starts, as far as its parts can say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.eval.budgets import LatencyModel
from bench.eval.data_sets import find_data_set
from bench.eval.planning import Cell as Asking
from bench.eval.planning import Need, Saving, need_of, what_to_drop
from bench.plan import read_repetitions
from bench.spread.foresee import makespan
from bench.study.doers import BENCH_DEFAULTS
from bench.study.evidence import Evidence, gather
from bench.study.spec import BENCH, EVALUATE, Cell, Study
from bench.study.state import CellState, StudyFolder, find_progress
from core.session import Session

PROMPT_TOKENS = 128
"""Of a prompt with its question, where none was asked yet: a guess."""
LEFT = "left"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A cell, and what it will take; for one that is done, what it took."""

    cell: Cell
    state: str
    answers: float | None = None
    tokens: float | None = None
    seconds: float | None = None
    most_seconds: float | None = None
    width: float | None = None
    """Of the interval of the accuracy."""
    basis: str = ""
    """How the numbers are known."""
    asking: Asking | None = None

    def as_json(self) -> dict[str, Any]:
        names = ("state", "answers", "tokens", "seconds", "most_seconds", "width", "basis")
        return {"cell": self.cell.title, "kind": self.cell.kind, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """All cells of a study; what those that are left will take, and how it could be less."""

    forecasts: Sequence[Forecast]
    savings: Sequence[Saving]
    """Ways to bring it below the hours that were named."""
    boards: Sequence[int] = ()
    """Numbers of boards for which the time was asked as well."""

    @property
    def left(self) -> list[Forecast]:
        return [each for each in self.forecasts if each.state != "done"]

    @property
    def seconds(self) -> float:
        """Of the cells that are left and of which anything is known."""
        return sum(each.seconds or 0.0 for each in self.left)

    @property
    def most_seconds(self) -> float:
        return sum(each.most_seconds or each.seconds or 0.0 for each in self.left)

    def seconds_with(self, boards: int) -> float:
        """With so many boards in place of each of the study's: those work at once, the questions of a cell are spread.

        A bench stays on one board. Cells of which nothing is known are left out, as of the sum.
        """
        by_place: dict[str, float] = {}
        for each in self.left:
            place = each.cell.place
            by_place[place] = by_place.get(place, 0.0) + _seconds_with(each, boards)
        return max(by_place.values(), default=0.0)

    @property
    def tokens(self) -> float:
        return sum(each.tokens or 0.0 for each in self.left)

    @property
    def unknown(self) -> list[str]:
        """Cells of which no time can be told."""
        return [each.cell.title for each in self.left if each.seconds is None]

    def as_json(self) -> dict[str, Any]:
        return {
            "cells": [each.as_json() for each in self.forecasts],
            "left": {
                "cells": len(self.left),
                "tokens": self.tokens,
                "seconds": self.seconds,
                "most_seconds": self.most_seconds,
                "unknown": self.unknown,
            },
            "savings": [saving.as_json() for saving in self.savings],
            "with_boards": {str(count): {"seconds": self.seconds_with(count)} for count in self.boards},
        }


def plan_study(session: Session, study: Study, hours: float = 0.0, boards: Sequence[int] = ()) -> StudyPlan:
    """What is left of a study, by what was measured already, else by what it says itself to be expected.

    `hours` above 0 asks how it could be done in that time, `boards` how long it takes with so many of each.
    Raises InvalidData for records that cannot be read.
    """
    cells = study.cells()
    progress = find_progress(StudyFolder.of(session.settings.runs, study.path), cells)
    evidence = gather(progress.done)
    ended = {state.cell.key: state for state in (*progress.done, *progress.failed)}
    forecasts = [_forecast(study, cell, ended.get(cell.key), evidence) for cell in cells]
    asked = [each.asking for each in forecasts if each.state != "done" and each.asking is not None]
    savings = what_to_drop(asked, hours) if hours and asked else []
    return StudyPlan(forecasts=forecasts, savings=savings, boards=boards)


def _seconds_with(forecast: Forecast, boards: int) -> float:
    asking, seconds = forecast.asking, forecast.seconds or 0.0
    if asking is None or not seconds:
        return seconds
    each = (seconds - asking.load_seconds) / asking.items
    return makespan([each] * asking.items, boards, opening=asking.load_seconds)


def _forecast(study: Study, cell: Cell, state: CellState | None, evidence: Evidence) -> Forecast:
    name = state.state if state is not None else LEFT
    if state is not None and name == "done":
        return Forecast(cell=cell, state=name, seconds=state.seconds, basis="as it was")
    expected = _expected(study, cell)
    if cell.kind == BENCH:
        return _forecast_bench(cell, name, expected)
    if cell.kind != EVALUATE:
        return Forecast(cell=cell, state=name, basis="minutes, by the size of the model")
    asking, basis = _asking(cell, expected, evidence)
    if asking is None:
        return Forecast(cell=cell, state=name, basis=basis)
    need: Need = need_of(asking)
    if not asking.latency.source:
        return Forecast(cell=cell, state=name, answers=need.answers, tokens=need.tokens, width=need.width, basis=basis)
    return Forecast(
        cell=cell,
        state=name,
        answers=need.answers,
        tokens=need.tokens,
        seconds=need.seconds,
        most_seconds=need.most_seconds,
        width=need.width,
        basis=basis,
        asking=asking,
    )


def _expected(study: Study, cell: Cell) -> Mapping[str, float]:
    known: Mapping[str, Mapping[str, float]] = study.expected.get(cell.parameters["model"], {})
    return known.get(cell.place, {})


def _forecast_bench(cell: Cell, state: str, expected: Mapping[str, float]) -> Forecast:
    """Of the least rounds: how many it takes is known only when the samples are there."""
    asked = {**BENCH_DEFAULTS, **cell.parameters["bench"]}
    if "seconds_per_token" not in expected:
        return Forecast(
            cell=cell,
            state=state,
            most_seconds=60.0 * asked["at_most_minutes"],
            basis=f"not known; at most {asked['at_most_minutes']:g} minutes",
        )
    rounds = read_repetitions(str(asked["repetitions"])).least * len(asked.get("threads", (1,)))
    for values in asked.get("settings", {}).values():
        rounds *= len(values)
    prefill = 2 * asked["prompt"] * expected.get("seconds_per_prompt_token", 0.0)
    decode = (asked["generate"] + 1 if asked["generate"] else 0) * expected["seconds_per_token"]
    return Forecast(
        cell=cell,
        state=state,
        seconds=min(rounds * (prefill + decode), 60.0 * asked["at_most_minutes"]),
        most_seconds=60.0 * asked["at_most_minutes"],
        basis="expected speeds, as the study says; a bench without its loading",
    )


def _asking(cell: Cell, expected: Mapping[str, float], evidence: Evidence) -> tuple[Asking | None, str]:
    """What planning takes of a cell, and how that is known."""
    known = cell.parameters
    items = _count_items(known["data"], known["limit"])
    if items is None:
        return None, f"not known before the questions of {known['data']} are here"
    before = [each for each in evidence.answered if each.model == known["model"] and each.timed]
    at_limit = known.get("budget") or known["max_tokens"]
    if before:
        tokens, why = before[0].mean_tokens, "answers as long as those to another prompt"
    elif "tokens_per_answer" in expected:
        tokens, why = expected["tokens_per_answer"], "expected length of answers"
    else:
        tokens, why = at_limit, "answers up to their limit"
    latency, source = _latency(cell, expected, evidence)
    asking = Asking(
        name=cell.title,
        items=items,
        prompt_tokens=PROMPT_TOKENS,
        answer_tokens=tokens,
        max_tokens=at_limit,
        latency=latency,
        told=(known["budget"],) if "budget" in known else (),
    )
    return asking, f"{why}; {source}"


def _latency(cell: Cell, expected: Mapping[str, float], evidence: Evidence) -> tuple[LatencyModel, str]:
    """The times of a place; a model without source is one of which nothing is known."""
    model = cell.parameters["model"]
    if (measured := evidence.latency(model, cell.place, cell.settings)) is not None:
        return measured, "speeds by the bench"
    for each in evidence.answered:
        if (each.model, each.place, each.settings) == (model, cell.place, cell.settings):
            for timed in evidence.timed(each):
                if timed.place == cell.place:
                    return timed.latency, "times of other answers there"
    said = expected.get("seconds_per_token", 0.0)
    model_of_times = LatencyModel(
        prefill=0.0,
        prefill_per_token=expected.get("seconds_per_prompt_token", 0.0),
        decode=said,
        decode_per_position=0.0,
        source="expected" if said else "",
    )
    return model_of_times, "expected speeds, as the study says" if said else "speeds not known"


def _count_items(data: str, limit: int) -> int | None:
    path = Path(data).expanduser()
    if path.is_file():
        with path.open("rb") as file:
            there = sum(1 for line in file if line.strip())
    elif path.suffix:
        return limit or None
    else:
        there = find_data_set(data).items
    return min(limit, there) if limit else there
