"""bench.spread.spread: what is made of what comes back, by a pool without threads."""

from __future__ import annotations

from typing import Any

import pytest

from bench.spread.spread import Spread
from bench.spread.station import DO, Outcome
from tests.support.far_shop import Squares


class AtOnce:
    """See `bench.spread.spread.Pool`. Everything that was sent comes back with the next look, all boards together."""

    boards = ("a", "b", "c")

    def __init__(self) -> None:
        self._sent: list[tuple[str, Outcome]] = []

    def send(self, board: str, what: str, argument: Any) -> None:
        self._sent.append((board, Outcome(value=argument * argument if what == DO else {})))

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        found, self._sent = self._sent, []
        return found


class Interrupted(Squares):
    def came(self, board: str, item: int, value: Any) -> bool:
        more = super().came(board, item, value)
        if item == 3:
            raise KeyboardInterrupt
        return more


def test_answers_that_have_come_with_ctrl_c_are_taken_each_once() -> None:
    work = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        Spread(AtOnce(), work).run(range(9))
    # Three of the first look, and three of the second, of which the first one meets Ctrl-C.
    assert sorted(work.found) == [(0, 0), (1, 1), (2, 4), (3, 9), (4, 16), (5, 25)]
