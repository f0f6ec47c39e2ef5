"""bench.spread.dispatch and foresee: who does what next, told by hand."""

from __future__ import annotations

import pytest

from bench.spread.dispatch import Dispatcher
from bench.spread.foresee import makespan
from core.errors import BoardOffline, RunError
from core.patience import Patience


def dispatcher(count: int, *boards: str, pause: float = 5.0) -> Dispatcher[int]:
    return Dispatcher(boards, range(count), patience=Patience(pause=pause, growth=6, times=2))


def test_each_item_is_handed_out_once_in_order() -> None:
    work = dispatcher(3, "a", "b")
    assert (work.take("a"), work.take("b")) == (0, 1)
    assert not work.wants("a")
    work.done("b")
    assert work.take("b") == 2
    work.done("a")
    work.done("b")
    assert (work.left, work.wants("a"), work.wants("b")) == (0, False, False)


def test_what_a_board_has_begun_it_goes_on_with_and_what_it_leaves_comes_first_to_others() -> None:
    work = dispatcher(4, "a", "b")
    work.take("a")
    work.done("a", more=True)
    assert work.take("b") == 1
    assert work.take("a") == 0
    work.failed("a", BoardOffline("gone"), now=100.0)
    assert (work.wants("a", 104.9), work.wants("a", 105.0)) == (False, True)
    work.done("b")
    assert work.take("b") == 0


def test_a_board_that_fails_three_times_in_a_row_is_given_up_and_one_success_counts_as_none() -> None:
    work = dispatcher(9, "a", "b")
    for now in (0.0, 10.0):
        work.failed("a", BoardOffline("gone"), now)
    assert work.next_ready(10.0) == 30.0  # 5 s after the first, six times as long after the second.
    work.take("a")
    work.done("a")
    for now in (50.0, 60.0):
        work.failed("a", BoardOffline("gone"), now)
        assert [board.name for board in work.usable] == ["a", "b"]
    last = BoardOffline("gone for good")
    work.failed("a", last, 100.0)
    assert [board.name for board in work.usable] == ["b"]
    assert work.boards["a"].given_up is last
    assert not work.wants("a", 1e9)


def test_an_item_that_kills_every_server_ends_the_work_but_dead_boards_are_not_its_fault() -> None:
    work = dispatcher(1, *"abcdef", pause=0.0)
    for board in "abc":
        work.take(board)
        work.failed(board, BoardOffline("gone"))
    for board in "de":
        work.take(board)
        work.failed(board, RunError("the server has ended"))
    work.take("f")
    with pytest.raises(RunError):
        work.failed("f", RunError("the server has ended"))


def test_a_board_gets_only_what_it_may_do() -> None:
    work: Dispatcher[str] = Dispatcher(
        ("a", "b"), ("on b", "on a", "on b too"), may=lambda board, item: board in item.split()
    )
    assert work.take("a") == "on a"
    assert not work.wants("a")
    assert work.take("b") == "on b"


@pytest.mark.parametrize(
    ("seconds", "boards", "expected"),
    [
        ([10.0] * 7, 3, 30.0),  # Three rounds: 3, 3 and 1.
        ([10.0] * 7, 100, 10.0),
        ([5.0, 1.0, 1.0, 1.0, 1.0, 1.0], 2, 5.0),  # One has the long one, the other all short ones.
        ([1.0, 1.0, 5.0], 2, 6.0),
        ([], 4, 0.0),
    ],
)
def test_the_time_of_a_list_is_that_of_handing_it_out(seconds: list[float], boards: int, expected: float) -> None:
    assert makespan(seconds, boards) == expected


def test_opening_counts_once_for_each_board_and_overhead_for_each_item() -> None:
    # Four items on two boards: 60 + 2 x (10 + 0.5).
    assert makespan([10.0] * 4, 2, opening=60.0, overhead=0.5) == 81.0
