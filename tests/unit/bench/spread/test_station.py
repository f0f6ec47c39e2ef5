"""bench.spread.station and dask_pool: calls and their answers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from bench.spread.dask_pool import DaskPool
from bench.spread.here import shop_of
from bench.spread.spread import Spread
from bench.spread.station import DO, LOOK, OPEN, Opened, Outcome, Station
from core.session import Session
from tests.support.far_shop import Squares
from tests.support.waiting import wait_until

SECONDS = 20.0


@dataclass
class Doubling:
    """See `bench.spread.station.Shop`."""

    begun: list[int] = field(default_factory=list)
    may_end: threading.Event = field(default_factory=threading.Event)

    def look(self, session: Session, board: str) -> Mapping[str, Any]:
        return {}

    @contextlib.contextmanager
    def open(self, session: Session, board: str) -> Iterator[Opened]:
        yield Opened(about={}, do=self.double, end=self.may_end.set)

    def double(self, number: int) -> int:
        self.begun.append(number)
        assert self.may_end.wait(SECONDS)
        return 2 * number


def test_a_call_gets_its_own_answer_also_when_another_one_is_still_under_way(session: Session) -> None:
    # As when the link to a worker breaks and comes back, while the board still works on what was sent before.
    shop, answers = Doubling(), dict[int, Outcome]()
    station = Station(session, "a", shop)
    assert station.call(OPEN).error is None
    callers = [
        threading.Thread(target=lambda n=number: answers.update({n: station.call(DO, n)}), daemon=True)
        for number in (3, 4)
    ]
    callers[0].start()
    wait_until("the first number", lambda: shop.begun == [3])
    callers[1].start()
    shop.may_end.set()
    for caller in callers:
        caller.join(SECONDS)
    station.close()
    assert {number: outcome.value for number, outcome in answers.items()} == {3: 6, 4: 8}
    assert station.call(LOOK).closed


def test_a_board_gets_its_next_call_at_once_and_not_with_the_next_batch_of_dasks_client(session: Session) -> None:
    pytest.importorskip("distributed")
    with (
        shop_of(lambda session, board, number: 2 * number) as shop,
        DaskPool(session, ("a",), shop) as pool,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(pool._client.scheduler_comm, "interval", 3 * SECONDS)
        answers = [call(pool, *words) for words in ((LOOK, None), (OPEN, None), (DO, 3), (DO, 4), (DO, 5))]
    assert [answer.value for answer in answers] == [{}, {}, 6, 8, 10]


def call(pool: DaskPool, what: str, argument: Any) -> Outcome:
    pool.send("a", what, argument)
    ((_, outcome),) = pool.wait(SECONDS)
    return outcome


@dataclass(frozen=True)
class SlowToOpen:
    """See `bench.spread.station.Shop`. Board b does not open before it is interrupted."""

    opening: ClassVar[threading.Event] = threading.Event()
    ends: ClassVar[list[str]] = []

    def look(self, session: Session, board: str) -> Mapping[str, Any]:
        return {}

    @contextlib.contextmanager
    def open(self, session: Session, board: str) -> Iterator[Opened]:
        if board == "b":
            self.opening.set()
            try:
                until = time.monotonic() + SECONDS
                while time.monotonic() < until:
                    time.sleep(0.01)
                self.ends.append("by itself")
            except KeyboardInterrupt:
                self.ends.append("interrupted")
                raise
        yield Opened(about={}, do=lambda number: self.opening.wait(SECONDS) and number, end=None)


def test_nobody_waits_for_a_board_that_is_still_being_opened_when_nothing_is_left_to_do(session: Session) -> None:
    pytest.importorskip("distributed")
    work = Squares()
    with DaskPool(session, ("a", "b"), SlowToOpen()) as pool:
        assert Spread(pool, work).run(range(3)) == ""
    assert [number for number, _ in work.found] == [0, 1, 2]
    assert (work.by, SlowToOpen.ends) == ({"a": 3}, ["interrupted"])


def test_no_board_is_missed_while_dasks_client_asks_for_other_news(session: Session) -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
        shop_of(lambda session, board, number: number) as shop,
        DaskPool(session, ("a", "b"), shop) as pool,
    ):
        assert {tuple(sorted(pool.there())) for _ in range(200)} == {("a", "b")}
