"""What the cells of a study have found, as the curves that a report and a plan are made of."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.eval.answers import grade_line
from bench.eval.budgets import TOKENS, LatencyModel, TimedAnswer, fit_latency
from bench.eval.curves import Curve, time_curve, token_curve
from bench.eval.grading import Verdict
from bench.eval.record import WHOLE, read_answers, read_eval
from bench.eval.servers import BOARD
from bench.eval.timed import board_latency, read_timed_answers
from bench.record import read_bench
from bench.regime import regime_of_server
from bench.study.spec import BENCH, EVALUATE
from bench.study.state import CellState
from core.errors import UsageError
from deploy.launch.server_settings import ServerSettings

GRID = 24
"""Limits of time under which answers are judged."""
STEADY = 64
"""Tokens over which the time of one is taken."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """All answers of a model at a place to one prompt; with told limits of several records, else of one."""

    model: str
    place: str
    prompt: str
    settings: ServerSettings
    """Of the server: answers under others are never counted or compared together with these."""
    folders: Sequence[Path]
    contents: Sequence[Mapping[str, Any]]

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """The results of the records, by budget."""
        return sorted((row for content in self.contents for row in content["results"]), key=lambda row: row["budget"])

    @property
    def label(self) -> str:
        """Where answers and times come from, and what bounds these times."""
        content = self.contents[0]
        return f"{content['server']['label']}; {regime_of_server(content)}"

    @property
    def emulated(self) -> bool:
        """Whether the times that came with the answers are qemu's."""
        return bool(self.contents[0]["server"]["emulated"])

    @property
    def is_elsewhere(self) -> bool:
        """Whether a server answered that ohforge did not start."""
        return "://" in self.place

    @property
    def of_board(self) -> bool:
        return bool(self.contents[0]["server"]["answers_from"] == BOARD)

    @property
    def mean_tokens(self) -> float:
        """Of an answer under the widest limit."""
        widest = self.rows[-1]
        return float(widest["generated"] / max(widest["n"], 1))

    @cached_property
    def timed(self) -> Sequence[TimedAnswer]:
        """The whole answers token by token; none when they cannot be cut."""
        if len(self.folders) > 1:
            return ()
        try:
            return read_timed_answers(self.folders[0])
        except UsageError:
            return ()

    @property
    def longest(self) -> int:
        """Tokens of the longest answer; where answers cannot be cut, the widest limit."""
        lengths = [len(answer.pieces) for answer in self.timed]
        return max(lengths) if lengths else int(self.rows[-1]["budget"])

    def token_curve(self, longest: int) -> Curve:
        """Accuracy under each budget that has a result; `longest` stands for those that no answer is as long as."""
        budgets = [row["budget"] for row in self.rows]
        if self.timed:
            return token_curve(self.model, self.timed, cap(budgets, longest), self.label)
        columns = [self._answers_under(budget) for budget in budgets]
        items = [id for id in self.contents[0]["data"]["ids"] if all(id in column for column in columns)]
        return Curve(
            name=self.model,
            unit=TOKENS,
            source=self.label,
            items=tuple(items),
            budgets=tuple(budgets),
            verdicts=tuple(tuple(column[id] for id in items) for column in columns),
        )

    def _answers_under(self, budget: int) -> dict[str, Verdict]:
        found: dict[str, Verdict] = {}
        for folder in self.folders:
            for line in read_answers(folder):
                if line["limit"] == budget:
                    found.setdefault(line["id"], grade_line(line, ())[WHOLE])
        return found


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Whole answers with the times of a place, measured with them or by a bench of it."""

    model: str
    place: str
    source: str
    emulated: bool
    answers: Sequence[TimedAnswer]
    latency: LatencyModel

    @property
    def prompt_tokens(self) -> int:
        return round(statistics.median(answer.prompt_tokens or 0 for answer in self.answers))

    @property
    def seconds_per_token(self) -> float:
        """Of a steady token, without the prefill."""
        times = self.latency.seconds(self.prompt_tokens, STEADY + 1)
        return (times[-1] - times[0]) / STEADY

    def curve(self, budgets: Sequence[float]) -> Curve:
        return time_curve(self.model, self.answers, budgets, self.source)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is there of a study, whether it is done or not."""

    answered: Sequence[Answered]
    benches: Mapping[tuple[str, str], Path]
    """Records by model and board."""

    def by_conditions(self) -> dict[str, list[Answered]]:
        """What may stand in one drawing: answers to one prompt, by servers with the same settings; each with its title."""
        found: dict[str, list[Answered]] = {}
        for each in self.answered:
            settings = f"; servers with {each.settings}" if str(each.settings) else ""
            found.setdefault(f"Prompt: {each.prompt}{settings}", []).append(each)
        return found

    def find(self, model: str, prompt: str, settings: ServerSettings) -> list[Answered]:
        """Of servers that ohforge started with these settings, and of those that it did not start."""
        return [
            each
            for each in self.answered
            if (each.model, each.prompt) == (model, prompt) and (each.settings == settings or each.is_elsewhere)
        ]

    def latency(self, model: str, board: str, settings: ServerSettings) -> LatencyModel | None:
        """A board's times by its bench; None without one that has both speeds under these settings."""
        folder = self.benches.get((model, board))
        if folder is None:
            return None
        try:
            (measured,) = read_bench(folder)["models"]
            return board_latency(folder, measured["name"], settings)
        except UsageError:
            return None

    def timed(self, each: Answered) -> list[Timed]:
        """The same answers with the times that they came with on a board, or else with those of every board with a bench.

        Where no board was measured, with the times of the server that answered.
        """
        if not each.timed or any(answer.prompt_tokens is None for answer in each.timed):
            return []
        boards = {
            board: self.latency(model, board, each.settings) for model, board in self.benches if model == each.model
        }
        from_boards = [] if each.of_board else [(board, found) for board, found in boards.items() if found is not None]
        if not from_boards:
            return [_as_they_came(each)] if all(answer.seconds for answer in each.timed) else []
        return [
            Timed(
                model=each.model,
                place=board,
                source=latency.source,
                emulated=bool(read_bench(self.benches[each.model, board])["board"]["emulated"]),
                answers=[latency.time(answer) for answer in each.timed],
                latency=latency,
            )
            for board, latency in from_boards
        ]


def boxed(row: Mapping[str, Any]) -> int:
    """Answers of a result with a complete box; records of earlier versions have only how many have any answer."""
    return int(row.get("boxed", row["n"] - row["no_answer"]))


def cap(budgets: Iterable[int], longest: int) -> list[int]:
    """The budgets up to the longest answer, under which all are whole."""
    return sorted({min(budget, longest) for budget in budgets})


def _as_they_came(each: Answered) -> Timed:
    return Timed(
        model=each.model,
        place=each.place,
        source=each.label,
        emulated=each.emulated,
        answers=each.timed,
        latency=fit_latency(each.timed, each.label),
    )


def gather(done: Iterable[CellState]) -> Evidence:
    """Reads the records of the cells that are done. Raises InvalidData for one that cannot be read."""
    groups: dict[tuple[str, str, str, ServerSettings], list[Path]] = {}
    benches: dict[tuple[str, str], Path] = {}
    for state in done:
        known = state.cell.parameters
        if state.cell.kind == BENCH:
            benches[known["model"], state.cell.place] = Path(state.result["record"])
        elif state.cell.kind == EVALUATE:
            key = (known["model"], state.cell.place, known["prompt"], state.cell.settings)
            groups.setdefault(key, []).append(Path(state.result["record"]))
    answered = [
        Answered(
            model=model,
            place=place,
            prompt=prompt,
            settings=settings,
            folders=folders,
            contents=[read_eval(folder) for folder in folders],
        )
        for (model, place, prompt, settings), folders in groups.items()
    ]
    return Evidence(answered=answered, benches=benches)


def time_grid(some: Sequence[Timed]) -> list[float]:
    """The same limits of time for all of them, up to where the slowest has given most of its answers whole."""
    ends = [sorted(answer.seconds[-1] for answer in each.answers if answer.seconds) for each in some]
    latest = max(times[min(len(times) - 1, int(0.9 * len(times)))] for times in ends if times)
    return [float(f"{latest * step / GRID:.3g}") for step in range(1, GRID + 1)]
