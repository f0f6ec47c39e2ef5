"""The comparison that a study has planned: two models on the same questions, in equal tokens and in equal time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from bench.eval.curves import Crossing, Pair, one_ratio_curve
from bench.eval.intervals import McNemar, Share
from bench.study.evidence import Answered, Evidence, Timed, time_grid
from deploy.launch.server_settings import ServerSettings

DIRECT = "direct"


@dataclass(frozen=True, kw_only=True)
class Equal:
    """Both models under the same limits, in tokens or in the seconds of a place."""

    place: str
    """Empty: in tokens, wherever the answers came from."""
    unit: str
    emulated: bool
    pair: Pair

    @cached_property
    def crossing(self) -> Crossing:
        return self.pair.crossing()

    @cached_property
    def differences(self) -> list[Share]:
        return self.pair.differences()

    def as_json(self) -> dict[str, Any]:
        return {
            "place": self.place or None,
            "unit": self.unit,
            "emulated": self.emulated,
            "source": self.pair.second.source,
            "n": len(self.pair.first.items),
            "crossing": asdict(self.crossing),
            "differences": [
                {"budget": budget, **difference.as_json()}
                for budget, difference in zip(self.pair.first.budgets, self.differences, strict=True)
            ],
        }


@dataclass(frozen=True, kw_only=True)
class RatioRow:
    """What the slower model gets while the quicker one gets so many tokens."""

    quick_tokens: int
    by_ratio: int
    by_time: int
    """While the board takes the same time, prefill included, for a question of median length."""
    seconds: float
    quick: Share
    slow_by_ratio: Share
    slow_by_time: Share


@dataclass(frozen=True, kw_only=True)
class OneRatio:
    """The way of the study that this one grew from, beside measured times: one ratio, and no prefill."""

    place: str
    emulated: bool
    quick: Timed
    slow: Timed
    ratio: float
    rows: Sequence[RatioRow]
    crossing: Crossing
    """By the one ratio, in tokens of the quicker model."""


@dataclass(frozen=True, kw_only=True)
class Versus:
    """The comparison as far as it could be made."""

    first: str
    second: str
    prompt: str
    settings: ServerSettings
    in_tokens: Equal | None
    in_time: Sequence[Equal]
    ratios: Sequence[OneRatio]
    budget: float | None
    planned: McNemar | None
    """At `budget`."""
    lacks: str
    """Why there is nothing to compare; empty when there is."""

    def as_json(self) -> dict[str, Any]:
        equal = [self.in_tokens, *self.in_time] if self.in_tokens is not None else []
        return {
            "first": self.first,
            "second": self.second,
            "prompt": self.prompt,
            "server": self.settings.as_json(),
            "equal": [each.as_json() for each in equal],
            "ratios": [
                {"place": each.place, "emulated": each.emulated, "ratio": each.ratio, "crossing": asdict(each.crossing)}
                for each in self.ratios
            ],
            "planned": {"budget": self.budget, **self.planned.as_json()} if self.planned is not None else None,
            "lacks": self.lacks,
        }


def compare_models(
    planned: Mapping[str, Any], prompts: Sequence[str], evidence: Evidence, settings: ServerSettings | None = None
) -> Versus:
    """Compares the two models of a study's plan, both under the same `settings` of their servers.

    Raises UnlikeRecords when they were not asked the same.
    """
    first, second = planned["first"], planned["second"]
    prompt = planned.get("prompt") or (DIRECT if DIRECT in prompts else prompts[0])
    settings = settings or ServerSettings()
    found = {name: evidence.find(name, prompt, settings) for name in (first, second)}
    pairs = list(_pairs(found[first], found[second]))
    common: dict[str, Any] = {"first": first, "second": second, "prompt": prompt, "settings": settings}
    if not pairs:
        missing = [name for name in (first, second) if not found[name]]
        why = f"{' and '.join(missing)} has no answers yet" if missing else "they did not answer at the same place"
        return Versus(**common, in_tokens=None, in_time=(), ratios=(), budget=None, planned=None, lacks=why)
    one, other = pairs[0]
    wanted = int(planned.get("budget") or 0)
    longest = max(one.longest, other.longest, wanted)
    tokens = Pair(first=one.token_curve(longest), second=other.token_curve(longest))
    budget = float(wanted or tokens.first.budgets[-1])
    timed = [both for pair in pairs for both in _timed_pairs(evidence, *pair)]
    return Versus(
        **common,
        in_tokens=Equal(place="", unit="tokens", emulated=False, pair=tokens),
        in_time=[_in_time(*both) for both in timed],
        ratios=[_one_ratio(*both, [int(each) for each in tokens.first.budgets]) for both in timed],
        budget=budget,
        planned=tokens.planned(budget) if budget in tokens.first.budgets else None,
        lacks="",
    )


def _pairs(some: Sequence[Answered], others: Sequence[Answered]) -> Iterator[tuple[Answered, Answered]]:
    """Those that answered at the same place; servers have one model each, and are compared all the same."""
    for one in some:
        for other in others:
            if one.place == other.place or (one.is_elsewhere and other.is_elsewhere):
                yield one, other


def _timed_pairs(evidence: Evidence, one: Answered, other: Answered) -> Iterator[tuple[Timed, Timed]]:
    for first in evidence.timed(one):
        for second in evidence.timed(other):
            if first.place == second.place or ("://" in first.place and "://" in second.place):
                yield first, second


def _in_time(first: Timed, second: Timed) -> Equal:
    grid = time_grid([first, second])
    pair = Pair(first=first.curve(grid), second=second.curve(grid))
    return Equal(place=first.place, unit="seconds", emulated=first.emulated or second.emulated, pair=pair)


def _one_ratio(first: Timed, second: Timed, budgets: Sequence[int]) -> OneRatio:
    quick, slow = sorted((first, second), key=lambda each: each.seconds_per_token)
    ratio = slow.seconds_per_token / quick.seconds_per_token
    theirs = one_ratio_curve(slow.model, slow.answers, budgets, ratio, slow.source)
    own = one_ratio_curve(quick.model, quick.answers, budgets, 1.0, quick.source)
    times = [quick.latency.seconds(quick.prompt_tokens, budget)[-1] for budget in budgets]
    in_time = slow.curve(times)
    most = budgets[-1]
    steps = slow.latency.seconds(slow.prompt_tokens, most)
    rows = [
        RatioRow(
            quick_tokens=budget,
            by_ratio=round(budget / ratio),
            by_time=sum(step <= seconds for step in steps),
            seconds=seconds,
            quick=quick_point.lenient,
            slow_by_ratio=ratio_point.lenient,
            slow_by_time=time_point.lenient,
        )
        for budget, seconds, quick_point, ratio_point, time_point in zip(
            budgets, times, own.points(), theirs.points(), in_time.points(), strict=True
        )
    ]
    return OneRatio(
        place=first.place,
        emulated=first.emulated or second.emulated,
        quick=quick,
        slow=slow,
        ratio=ratio,
        rows=rows,
        crossing=Pair(first=own, second=theirs).crossing(),
    )
