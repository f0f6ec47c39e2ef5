"""Which board does what next, which one is given up, and which piece of work is: no threads, no clock, no network in it.

What runs on boards and what foresees how long that will take both ask this, so that a plan is of what is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.errors import BoardBusy, BoardError, LostConnection, OhforgeError, TransferError
from core.patience import Patience

Item = TypeVar("Item", bound=Hashable)
PATIENCE = Patience(pause=5.0, growth=6.0, times=2)
"""After a failure of a board, before it gets work again; with the third in a row it is given up."""
MOST_TRIES = 3
"""Of one piece of work, which ends everything when it fails so often on boards that are there."""
OF_BOARD = (BoardBusy, BoardError, LostConnection, TransferError)
"""What fails by the board alone, whatever it was asked."""


@dataclass(kw_only=True)
class BoardState(Generic[Item]):
    """A board as far as it matters for who works next."""

    name: str
    working_on: Item | None = None
    own: deque[Item] = field(default_factory=deque)
    """Work that it has begun, and goes on with before any other."""
    failures: int = 0
    """In a row."""
    ready_at: float = 0.0
    given_up: OhforgeError | None = None
    """What went wrong last, when nothing more is asked of the board."""


class Dispatcher(Generic[Item]):
    """Hands out each item once; what a board did not finish is handed out again."""

    def __init__(
        self,
        boards: Sequence[str],
        items: Iterable[Item],
        *,
        patience: Patience = PATIENCE,
        may: Callable[[str, Item], bool] | None = None,
    ) -> None:
        """`may` says whether a board may do an item; without it each may do all."""
        self.boards = {name: BoardState[Item](name=name) for name in boards}
        self._waiting = deque(items)
        self._patience = patience
        self._may = may
        self._tries: dict[Item, int] = {}

    def add(self, items: Iterable[Item]) -> None:
        """Puts items behind those that wait."""
        self._waiting.extend(items)

    @property
    def left(self) -> int:
        """Items that no board works on and that are not done."""
        return len(self._waiting) + sum(len(board.own) for board in self.boards.values())

    @property
    def usable(self) -> list[BoardState[Item]]:
        return [board for board in self.boards.values() if board.given_up is None]

    def wants(self, name: str, now: float = 0.0) -> bool:
        """Whether the board is free, and there is something for it."""
        board = self.boards[name]
        if board.given_up is not None or board.working_on is not None or board.ready_at > now:
            return False
        return bool(board.own) or any(self._suits(name, item) for item in self._waiting)

    def take(self, name: str) -> Item:
        """What the board does next: what it has begun, else the first that waits. Only when it `wants` something."""
        board = self.boards[name]
        if board.own:
            item = board.own.popleft()
        elif self._may is None:
            item = self._waiting.popleft()
        else:
            item = next(item for item in self._waiting if self._suits(name, item))
            self._waiting.remove(item)
        board.working_on = item
        return item

    def done(self, name: str, *, more: bool = False) -> None:
        """The board has done its item; with `more` there is more to do of it, by the same board first."""
        board = self.boards[name]
        if board.working_on is not None and more:
            board.own.appendleft(board.working_on)
        board.working_on, board.failures = None, 0

    def put_back(self, name: str) -> None:
        """The board has not begun its item: it comes first again."""
        board = self.boards[name]
        if board.working_on is not None:
            self._waiting.appendleft(board.working_on)
            board.working_on = None

    def failed(self, name: str, error: OhforgeError, now: float = 0.0) -> list[Item]:
        """The board has failed, with an item or before one: what it had goes back to the others, and is returned.

        Raises `error` when its item has failed too often, on whatever boards.
        """
        board = self.boards[name]
        item = board.working_on
        had = [*([] if item is None else [item]), *board.own]
        self._waiting.extendleft(reversed(board.own))
        board.own.clear()
        self.put_back(name)
        if item is not None:
            self._tries[item] = self._tries.get(item, 0) + (not isinstance(error, OF_BOARD))
            if self._tries[item] >= MOST_TRIES:
                raise error
        board.failures += 1
        pause = self._patience.pause_after(board.failures)
        if pause is None:
            board.given_up = error
        else:
            board.ready_at = now + pause
        return had

    def next_ready(self, now: float) -> float | None:
        """Seconds until a board may be tried again; None when none is waited for."""
        times = [board.ready_at - now for board in self.usable if board.working_on is None and board.ready_at > now]
        return min(times) if times else None

    def _suits(self, name: str, item: Item) -> bool:
        return self._may is None or self._may(name, item)
