"""What an evaluation will take before it starts, what a subset of its items costs in certainty, and what to drop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.eval.budgets import LatencyModel
from bench.eval.intervals import CONFIDENCE, wilson

POWER = 0.8
LIKELY_SHARE = 0.6
"""Share of right answers for which widths are told when none is known; at a half they are widest, by 2 % more."""
LEAST_ITEMS = 20
"""A subset below this tells next to nothing: its interval is 40 points wide."""
HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model with one prompt on one board: what is asked of it."""

    name: str
    items: int
    prompt_tokens: float
    """Of a prompt with its question, on average."""
    answer_tokens: float
    """Of a whole answer, on average: by a probe, or a guess that is called one."""
    max_tokens: int
    """At which every answer is cut."""
    latency: LatencyModel
    told: Sequence[int] = ()
    """Limits that the prompt names, each of which needs a run of its own; else one run gives all."""
    checked_share: float = 0.05
    """Of the items, those that are asked a second time, to see that the one run does."""
    load_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a cell takes."""

    name: str
    items: int
    answers: float
    prompt_tokens: float
    tokens: float
    """Generated, as expected."""
    seconds: float
    most_seconds: float
    """If every answer went on to its limit."""
    width: float
    """Of the interval of the accuracy, at the likely share of right answers."""

    @property
    def hours(self) -> float:
        return self.seconds / HOUR

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def need_of(cell: Cell, share: float = LIKELY_SHARE) -> Need:
    """What a cell takes, as expected and at most. `share` is that of right answers, for the width of the interval."""
    runs = [(limit, float(cell.items)) for limit in cell.told] or [
        (cell.max_tokens, cell.items * (1 + cell.checked_share))
    ]
    answers = sum(count for _, count in runs)

    def seconds(lengths: Iterable[tuple[float, float]]) -> float:
        return cell.load_seconds + sum(count * _seconds(cell, length) for length, count in lengths)

    expected = [(min(cell.answer_tokens, limit), count) for limit, count in runs]
    return Need(
        name=cell.name,
        items=cell.items,
        answers=answers,
        prompt_tokens=answers * cell.prompt_tokens,
        tokens=sum(length * count for length, count in expected),
        seconds=seconds(expected),
        most_seconds=seconds(runs),
        width=interval_width(cell.items, share),
    )


def _seconds(cell: Cell, tokens: float) -> float:
    """Of one answer: the sum of the latency model's steps, for a number of tokens that may be broken."""
    model, steps = cell.latency, max(tokens - 1, 0.0)
    prefill = model.prefill + model.prefill_per_token * cell.prompt_tokens
    positions = steps * cell.prompt_tokens + steps * (steps + 1) / 2
    return prefill + steps * model.decode + model.decode_per_position * positions


def interval_width(items: int, share: float = LIKELY_SHARE) -> float:
    """Of Wilson's interval, when so large a share of so many items is right."""
    return wilson(round(share * items), items).width


def items_for_width(width: float, share: float = LIKELY_SHARE) -> int:
    """How many items make Wilson's interval so narrow; by its formula, which has no whole number of right answers."""
    z = _z(1 - (1 - CONFIDENCE) / 2)

    def wide(n: int) -> bool:
        return 2 * z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) > width

    high = 1
    while wide(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high


def items_for_difference(difference: float, discordant: float) -> int:
    """How many items two models must share, so that McNemar's test finds that difference with 80 % at the 5 % level.

    `discordant` is the share of items that only one of them has right, at least `difference`. By Connor (1987).
    """
    if not 0 < difference <= discordant <= 1:
        raise ValueError(f"a difference of {difference} cannot be, with {discordant} discordant items")
    alpha, beta = _z(1 - (1 - CONFIDENCE) / 2), _z(POWER)
    root = alpha * math.sqrt(discordant) + beta * math.sqrt(discordant - difference**2)
    return math.ceil((root / difference) ** 2)


def _z(probability: float) -> float:
    from scipy import stats

    return float(stats.norm.ppf(probability))


@dataclass(frozen=True, kw_only=True)
class Saving:
    """One way to make a plan shorter, and what it costs."""

    what: str
    seconds: float
    """What the plan takes then."""
    cost: str
    fits: bool
    """Whether that is enough."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def what_to_drop(cells: Sequence[Cell], hours: float, share: float = LIKELY_SHARE) -> list[Saving]:
    """Ways to bring a plan down to so many hours, those that are enough first; none when it fits as it is."""
    seconds, allowed = _total(cells), hours * HOUR
    if seconds <= allowed:
        return []
    ways = [*_fewer_items(cells, allowed, share), *_one_prompt_less(cells), *_times_only(cells)]
    savings = [
        Saving(what=what, seconds=_total(left), cost=cost, fits=_total(left) <= allowed) for what, left, cost in ways
    ]
    return sorted((way for way in savings if way.seconds < seconds), key=lambda way: (not way.fits, way.seconds))


Way = tuple[str, list[Cell], str]
"""What to do, what is left then, what it costs."""


def _fewer_items(cells: Sequence[Cell], allowed: float, share: float) -> list[Way]:
    most = max(cell.items for cell in cells)
    fixed = sum(cell.load_seconds for cell in cells)
    fitting = int(most * (allowed - fixed) / (_total(cells) - fixed))
    items = max(LEAST_ITEMS, fitting)
    if items >= most:
        return []
    left = [replace(cell, items=min(items, cell.items)) for cell in cells]
    width, before = interval_width(items, share), interval_width(most, share)
    return [(f"ask {items} of {most} items", left, f"intervals {width:.1%} wide instead of {before:.1%}")]


def _one_prompt_less(cells: Sequence[Cell]) -> list[Way]:
    """For prompts that name their limit, the largest one: each limit is a run of its own."""
    if not any(len(cell.told) > 1 for cell in cells):
        return []
    largest = max(limit for cell in cells for limit in cell.told if len(cell.told) > 1)
    left = [replace(cell, told=[x for x in cell.told if x != largest or len(cell.told) == 1]) for cell in cells]
    single = [replace(cell, told=[max(cell.told)]) if cell.told else cell for cell in cells]
    return [
        (f"leave out the told limit of {largest} tokens", left, "no point at the end of the curves of told limits"),
        ("name one limit only, the largest", single, "no curves of told limits"),
    ]


def _times_only(cells: Sequence[Cell]) -> list[Way]:
    """The slowest board's answers come from elsewhere, and only its times are measured."""
    slowest = max(cells, key=lambda cell: need_of(cell).seconds)
    probe = replace(slowest, items=1, told=(), answer_tokens=16, max_tokens=16, checked_share=0.0)
    left = [probe if cell is slowest else cell for cell in cells]
    cost = "its curve says answers from host, times from board"
    return [(f"ask {slowest.name} on a host, and measure 16 tokens on its board", left, cost)]


def _total(cells: Sequence[Cell]) -> float:
    return sum(need_of(cell).seconds for cell in cells)
