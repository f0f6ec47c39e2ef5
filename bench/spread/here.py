"""Work that a function of this process does for each board, such as a whole bench or the cells of a study."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.spread.station import Opened
from core.session import Session

Do = Callable[[Session, str, Any], Any]
"""Takes the session of a board's thread, the board and what is to be done."""
Look = Callable[[Session, str], Mapping[str, Any]]


@contextlib.contextmanager
def shop_of(do: Do, look: Look = lambda session, board: {}) -> Iterator[HereShop]:
    """A shop whose boards call these functions, each in a thread of its own, while the block runs."""
    mark = secrets.token_hex(8)
    _functions[mark] = look, do
    try:
        yield HereShop(mark)
    finally:
        del _functions[mark]


@dataclass(frozen=True)
class HereShop:
    """See `bench.spread.station.Shop`. It goes through Dask, which takes no functions with locks in them."""

    mark: str

    def look(self, session: Session, board: str) -> Mapping[str, Any]:
        return _functions[self.mark][0](session, board)

    @contextlib.contextmanager
    def open(self, session: Session, board: str) -> Iterator[Opened]:
        do = _functions[self.mark][1]
        yield Opened(about={}, do=lambda argument: do(session, board, argument), end=None)


_functions: dict[str, tuple[Look, Do]] = {}
