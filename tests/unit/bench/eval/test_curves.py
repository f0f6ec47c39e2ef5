"""Accuracy under budgets of tokens and seconds, and how two models' curves lie to each other."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from bench.eval.budgets import SECONDS, LatencyModel, TimedAnswer, fit_latency, model_of_speeds
from bench.eval.curves import Curve, Pair, find_crossings, one_ratio_curve, time_curve, token_curve
from bench.eval.grading import NO_ANSWER, RIGHT, TRUNCATED, Verdict, grade
from core.errors import UnlikeRecords

LATE = ("I", " guess", r" \boxed{4}", ".", " No", r" \boxed{", "42", "}")
PLAIN = ("It", " is", " ", "42")
RIGHT_VERDICT, WRONG_VERDICT = grade(r"\boxed{1}", Fraction(1)), grade(r"\boxed{2}", Fraction(1))


def answer(*pieces: str, id: str = "q", seconds: tuple[float, ...] = (), prompt: int | None = None) -> TimedAnswer:
    return TimedAnswer(id=id, gold=Fraction(42), pieces=pieces, truncated=False, seconds=seconds, prompt_tokens=prompt)


def statuses(curve: Curve) -> list[list[str]]:
    return [[verdict.status for verdict in column] for column in curve.verdicts]


def test_a_limit_in_tokens_leaves_the_beginning_of_an_answer_which_is_cut_until_all_of_it_is_there() -> None:
    curve = token_curve("m", [answer(*LATE), answer(*PLAIN, id="p")], [0, 2, 3, 4, 7, 8], "board")
    assert statuses(curve) == [
        [TRUNCATED, TRUNCATED],
        [TRUNCATED, TRUNCATED],
        ["wrong", TRUNCATED],
        ["wrong", RIGHT],
        ["wrong", RIGHT],
        [RIGHT, RIGHT],
    ]
    first, *_, last = curve.points()
    assert (first.counts.truncated, last.counts.truncated, last.lenient.value, last.strict.value) == (2, 0, 1.0, 0.5)


def test_a_limit_in_seconds_leaves_the_tokens_that_were_there_and_before_the_first_there_is_no_answer() -> None:
    timed = answer(r"\boxed{42}", " or", " so", seconds=(10.0, 12.0, 15.0))
    assert [timed.tokens_within(t) for t in (9.99, 10.0, 14.9, 15.0, 1e9)] == [0, 1, 2, 3, 3]
    assert statuses(time_curve("m", [timed], [9.0, 10.0, 20.0], "board")) == [[TRUNCATED], [RIGHT], [RIGHT]]
    assert statuses(time_curve("m", [answer("no", seconds=(1.0,))], [0.5, 2.0], "board")) == [[TRUNCATED], [NO_ANSWER]]


def test_a_boards_times_are_those_of_its_model() -> None:
    board = LatencyModel(prefill=2.0, prefill_per_token=0.1, decode=1.0, decode_per_position=0.01, source="s")
    # By hand: 2 + 0.1 * 30, then 1 + 0.01 * 31 and 1 + 0.01 * 32 more.
    assert board.seconds(30, 3) == pytest.approx([5.0, 6.31, 7.63])
    assert board.seconds(30, 0) == []
    timed = board.time(answer(*PLAIN, prompt=30))
    assert timed.seconds == pytest.approx([5.0, 6.31, 7.63, 8.96])
    # The study's board: 18.18 s for each token, so that 100 tokens and a prompt of none take 99 steps.
    assert model_of_speeds(10.0, 1 / 18.18, "s").seconds(0, 100)[-1] == pytest.approx(99 * 18.18)


def test_a_model_of_times_is_found_again_in_answers_that_it_timed() -> None:
    board = LatencyModel(prefill=2.0, prefill_per_token=0.1, decode=1.0, decode_per_position=0.01, source="s")
    found = fit_latency([board.time(answer(*LATE, prompt=length)) for length in (20, 35, 80)], "fit")
    for name in ("prefill", "prefill_per_token", "decode", "decode_per_position"):
        assert getattr(found, name) == pytest.approx(getattr(board, name), rel=1e-6)
    alike = fit_latency([board.time(answer(*PLAIN, prompt=40))] * 2, "fit")
    assert (alike.prefill, alike.prefill_per_token) == (0.0, pytest.approx(6.0 / 40))
    with pytest.raises(ValueError, match="no answer has times"):
        fit_latency([answer(*PLAIN)], "fit")


def test_the_studys_way_gives_the_slower_model_so_many_tokens_less() -> None:
    # 100 tokens of the one were 37 of the other, whose token took 2.735 times as long.
    pieces = ("x",) * 36 + (r"\boxed{42}",)
    curve = one_ratio_curve("large", [answer(*pieces)], [97, 100], 2.735, "host")
    assert statuses(curve) == [[TRUNCATED], [RIGHT]]
    assert curve.budgets == (97, 100)
    assert "2.735" in curve.source


def drawn_curve(
    name: str, seed: int, share: float, begin: float, budgets: tuple[float, ...], items: int = 300
) -> Curve:
    """A model that can do `share` of the items, each from a time on that is drawn evenly from the 100 s after `begin`."""
    random = np.random.default_rng(seed)
    ready = np.where(random.random(items) < share, begin + 100 * random.random(items), inf)
    verdicts = tuple(tuple(RIGHT_VERDICT if t <= budget else WRONG_VERDICT for t in ready) for budget in budgets)
    return Curve(
        name=name, unit=SECONDS, source="drawn", items=tuple(map(str, range(items))), budgets=budgets, verdicts=verdicts
    )


GRID = tuple(map(float, range(20, 200, 20)))


def test_the_crossing_of_two_models_lies_in_its_interval() -> None:
    # The small one stays at 1/2 from 100 s on; 9/10 * (t - 60) / 100 comes to that at 60 + 100 * 5/9.
    truth = 60 + 500 / 9
    inside, widths = 0, []
    for seed in range(100):
        small, large = drawn_curve("small", 2 * seed, 0.5, 0, GRID), drawn_curve("large", 2 * seed + 1, 0.9, 60, GRID)
        found = Pair(first=small, second=large, seed=seed, resamples=400).crossing()
        assert found.low is not None
        assert found.high is not None
        assert (found.before, found.after) == ("small", "large")
        inside += found.low <= truth <= found.high
        widths.append(found.high - found.low)
    assert inside >= 95
    # By the slopes and the binomial deviation, 2 * 1.96 * sqrt(2 * 1/4 / 300) / 0.009 seconds.
    assert np.mean(widths) == pytest.approx(17.8, rel=0.2)


def test_without_a_crossing_in_range_it_is_said_who_is_ahead() -> None:
    weak, strong = (drawn_curve(name, 1, share, 0, GRID) for name, share in (("weak", 0.3), ("strong", 0.9)))
    for pair in (Pair(first=weak, second=strong, resamples=500), Pair(first=strong, second=weak, resamples=500)):
        found = pair.crossing()
        assert (found.at, found.before) == (None, "strong")
        assert found.sentence("seconds").startswith("no crossing in range: strong is ahead")
    same = Pair(first=weak, second=weak, resamples=500).crossing()
    assert (same.at, same.before, same.in_range) == (None, "neither", 0.0)


def test_a_crossing_is_found_from_both_sides() -> None:
    small, large = drawn_curve("small", 4, 0.5, 0, GRID), drawn_curve("large", 5, 0.9, 60, GRID)
    one = Pair(first=small, second=large, resamples=500).crossing()
    other = Pair(first=large, second=small, resamples=500).crossing()
    assert one == other
    assert one.sentence("s").startswith("small is ahead up to")


@pytest.mark.parametrize(
    ("means", "at"),
    [
        ([-2.0, -1.0, 1.0, 2.0], 25.0),
        ([-1.0, 3.0], 12.5),
        ([-1.0, 0.0, 0.0, 1.0], 25.0),
        ([0.0, 0.0, 1.0, 1.0], -inf),
        ([-1.0, -1.0, 0.0, 0.0], inf),
        ([-3.0, -3.0, 1.0, -1.0, 3.0, 3.0], 35.0),
    ],
)
def test_the_crossing_is_where_the_lead_passes_once_noise_is_left_aside(means: list[float], at: float) -> None:
    assert find_crossings(np.arange(1.0, len(means) + 1) * 10, np.array([means, [-1.0] * len(means)])) == pytest.approx(
        [at, inf]
    )


def verdict_row(text: str) -> tuple[Verdict, ...]:
    """``10``: the first item is right, the second wrong."""
    return tuple(RIGHT_VERDICT if sign == "1" else WRONG_VERDICT for sign in text)


def curve_of(name: str, *rows: str) -> Curve:
    items = tuple(map(str, range(len(rows[0]))))
    budgets = tuple(float(place) for place in range(len(rows)))
    return Curve(
        name=name, unit=SECONDS, source="s", items=items, budgets=budgets, verdicts=tuple(map(verdict_row, rows))
    )


def test_differences_and_the_planned_test_are_paired() -> None:
    first = curve_of("first", "1" * 10 + "0" * 30, "1" * 20 + "0" * 20)
    second = curve_of("second", "1" * 10 + "0" * 30, "1" * 19 + "0" + "1" * 7 + "0" * 13)
    pair = Pair(first=first, second=second, resamples=2000)
    alike, better = pair.differences()
    assert (alike.value, alike.low, alike.high) == (0, 0, 0)
    assert better.value == pytest.approx(6 / 40)
    # Unpaired, the interval of a half against 65 % of 40 items would be 42 points wide.
    assert 0 < better.low < better.value < better.high
    assert better.width < 0.3
    assert (pair.planned(1.0).first_only, pair.planned(1.0).second_only) == (1, 7)
    assert pair.planned(1.0).exact == pytest.approx(0.0703, abs=5e-5)


def test_curves_of_unlike_items_or_budgets_are_not_compared() -> None:
    with pytest.raises(UnlikeRecords, match="not the same items"):
        Pair(first=curve_of("a", "10"), second=curve_of("b", "101"))
    with pytest.raises(UnlikeRecords, match="not the same budgets"):
        Pair(first=curve_of("a", "10"), second=curve_of("b", "10", "11"))
