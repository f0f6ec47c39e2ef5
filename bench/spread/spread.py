"""Hands work out to boards and takes in what comes of it, until nothing is left or nobody is."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from bench.spread.dispatch import PATIENCE, Dispatcher
from bench.spread.station import DO, LOOK, OPEN, Outcome
from core.errors import (
    AllBoardsLost,
    AnswerCut,
    BoardBusy,
    BoardError,
    DeadlineExpired,
    EndpointError,
    LostConnection,
    NoBoard,
    NoSpaceOnBoard,
    NotEnoughMemory,
    OhforgeError,
    RunError,
    TakesTooLong,
    TemplateUnfit,
    TransferError,
)
from core.patience import Patience

MAY_BE_BOARD = (
    AnswerCut,
    BoardBusy,
    BoardError,
    DeadlineExpired,
    EndpointError,
    LostConnection,
    NoSpaceOnBoard,
    NotEnoughMemory,
    RunError,
    TransferError,
)
"""After these the work is given to another board; all else would be the same on each."""
LONGEST_WAIT = 5.0

Item = TypeVar("Item")
Given = TypeVar("Given", contravariant=True)


class Pool(Protocol):
    """Boards to which calls are sent, each of which comes back. See `bench.spread.dask_pool`."""

    boards: Sequence[str]

    def send(self, board: str, what: str, argument: Any) -> None:
        """Sends a call to a board that has none."""

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """What has come back, of whom; waits so long for the first of it."""


class Work(Protocol[Given]):
    """What is spread: how an item becomes a call, and what is made of its answer. All in the thread that calls `run`."""

    def looked(self, board: str, kind: Mapping[str, Any]) -> None:
        """Hears what kind of board it is. Raises UnlikeBoards."""

    def prepare(self) -> None:
        """Does once what all boards need, as soon as it is known that they are of one kind."""

    def opened(self, board: str, about: Mapping[str, Any]) -> None:
        """Hears what is open on the board. Raises UnlikeBoards."""

    def call_for(self, item: Given) -> Any:
        """What the board is sent; plain data."""

    def came(self, board: str, item: Given, value: Any) -> bool:
        """Takes what a board has made of an item; whether there is more to do of it."""

    def enough(self) -> str:
        """Why nothing more is needed, or empty; asked after each item."""

    def failed(self, board: str, error: OhforgeError, given_up: bool, left: Sequence[Given]) -> None:
        """Hears that a board has failed; `left` is what it had begun, which goes to others."""


NEW, LOOKED, IS_OPEN = range(3)


class Spread(Generic[Item]):
    """The boards of a pool, in the order of their names, with what is known of each."""

    def __init__(
        self,
        pool: Pool,
        work: Work[Item],
        *,
        patience: Patience | None = None,
        must_be_there: bool = True,
        may: Callable[[str, Item], bool] | None = None,
    ) -> None:
        """`must_be_there`: a board that nobody knows is an error and not a board that is lost. `may`: see `Dispatcher`."""
        self._pool, self._work, self._must_be_there = pool, work, must_be_there
        self._dispatcher: Dispatcher[Item] = Dispatcher(pool.boards, (), patience=patience or PATIENCE, may=may)
        self._stages = dict.fromkeys(pool.boards, NEW)
        self._sent: dict[str, str] = {}
        """What each busy board was sent."""
        self._arrived: deque[tuple[str, Outcome]] = deque()
        """What has come back and is not taken yet."""
        self._unseen = set(pool.boards)
        """Boards of which nothing is known yet: before that, nothing is opened on the others."""
        self._prepared = False

    def run(self, items: Iterable[Item]) -> str:
        """Has all items done; why no more of them were, or empty.

        Raises AllBoardsLost, UnlikeBoards, and what no other board would do better. On Ctrl-C, what has come is taken first.
        """
        self._dispatcher.add(items)
        try:
            return self._go_on()
        except KeyboardInterrupt:
            self._arrived += self._pool.wait(0.0)
            for board, outcome in self._arrived:
                if self._sent.get(board) == DO and outcome.error is None and not outcome.closed:
                    self._take(board, outcome)
            raise

    def _go_on(self) -> str:
        because = ""
        while True:
            if not because:
                self._hand_out()
            if DO not in self._sent.values() and (because or not self._dispatcher.left):
                return because  # What a board still looks at or opens is for nothing, and nobody waits for it.
            if not self._dispatcher.usable:
                raise self._all_lost()
            pause = self._dispatcher.next_ready(time.monotonic())
            if not self._sent and pause is None:
                return because  # What is left nobody may do.
            wait = LONGEST_WAIT if pause is None else min(pause, LONGEST_WAIT)
            self._arrived += self._pool.wait(max(wait, 0.0))
            while self._arrived:
                because = self._take(*self._arrived.popleft()) or because

    def _hand_out(self) -> None:
        now = time.monotonic()
        for board in self._pool.boards:
            if board in self._sent or not self._dispatcher.wants(board, now):
                continue
            stage = self._stages[board]
            if stage == NEW:
                self._send(board, LOOK, None)
            elif stage == LOOKED and not self._unseen:
                if not self._prepared:
                    self._work.prepare()
                    self._prepared = True
                self._send(board, OPEN, None)
            elif stage == IS_OPEN:
                self._send(board, DO, self._work.call_for(self._dispatcher.take(board)))

    def _send(self, board: str, what: str, argument: Any) -> None:
        self._sent[board] = what
        self._pool.send(board, what, argument)

    def _take(self, board: str, outcome: Outcome) -> str:
        what = self._sent.pop(board)
        self._unseen.discard(board)
        if outcome.closed:
            self._stages[board] = NEW if what == LOOK else LOOKED
            self._dispatcher.put_back(board)
        elif outcome.error is not None:
            self._take_failure(board, what, outcome.error)
        elif what == LOOK:
            self._work.looked(board, outcome.value)
            self._stages[board] = LOOKED
        elif what == OPEN:
            self._work.opened(board, outcome.value)
            self._stages[board] = IS_OPEN
        else:
            item = self._dispatcher.boards[board].working_on
            assert item is not None
            more = self._work.came(board, item, outcome.value)
            self._dispatcher.done(board, more=more)
            return "" if more else self._work.enough()
        return ""

    def _take_failure(self, board: str, what: str, error: OhforgeError) -> None:
        if not isinstance(error, MAY_BE_BOARD) or isinstance(error, (TakesTooLong, TemplateUnfit)):
            raise error
        if what == LOOK and isinstance(error, NoBoard) and self._must_be_there:
            raise error
        self._stages[board] = NEW if what == LOOK else LOOKED
        left = self._dispatcher.failed(board, error, time.monotonic())
        self._work.failed(board, error, self._dispatcher.boards[board].given_up is not None, left)

    def _all_lost(self) -> AllBoardsLost:
        states = self._dispatcher.boards.values()
        why = "; ".join(f"{state.name}: {state.given_up.message}" for state in states if state.given_up is not None)
        return AllBoardsLost(f"No board is left to go on with. {why}", boards=list(self._pool.boards))
