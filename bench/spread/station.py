"""A board at work: what is open on it stays open from one piece of work to the next, in a thread of its own.

The thread is ours and not one of Dask's, so that Ctrl-C can be handed on to it: within it a server is started, files are
sent and an answer is read, all of which tidy up after a KeyboardInterrupt, and after nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.errors import Interrupted, OhforgeError, explain_exception
from core.session import Session

END_SECONDS = 120.0
"""For what is open on a board to end."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What is open on a board."""

    about: Mapping[str, Any]
    """What must be the same on all boards, by name, and what only describes this one; plain data."""
    do: Callable[[Any], Any]
    """Does one piece of work; plain data in and out. Raises OhforgeError."""
    end: Callable[[], None] | None
    """Ends what is open, from another thread, so that `do` comes back at once. Raises nothing. None: Ctrl-C does."""


class Shop(Protocol):
    """What is opened on each board; plain data itself, since it goes to other computers."""

    def look(self, session: Session, board: str) -> Mapping[str, Any]:
        """What kind of board it is, by names. Raises OhforgeError."""

    def open(self, session: Session, board: str) -> AbstractContextManager[Opened]:
        """Opens what is needed. Raises OhforgeError."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a call to a station."""

    value: Any = None
    error: OhforgeError | None = None
    closed: bool = False
    """Nothing was done, since nothing is open any more."""


LOOK, OPEN, DO = "look", "open", "do"


@dataclass(frozen=True, kw_only=True)
class Call:
    """What is to be done, and where its own outcome goes: one that nobody waits for any more meets no other call."""

    what: str
    argument: Any
    outcome: queue.SimpleQueue[Outcome] = field(default_factory=queue.SimpleQueue)


class Station:
    """One board, for as long as it is needed. Calls come from any thread, and are done one at a time."""

    def __init__(self, session: Session, board: str, shop: Shop, idle_seconds: float | None = None) -> None:
        """`idle_seconds`: without work for so long, it closes by itself; None: never."""
        self._session, self.board, self._shop, self._idle = session, board, shop, idle_seconds
        self._calls: queue.Queue[Call | None] = queue.Queue()
        self._called: Call | None = None
        self._opened: Opened | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"board {board}", daemon=True)
        self._thread.start()

    def call(self, what: str, argument: Any = None) -> Outcome:
        """Has it done, and waits for what comes of it."""
        if self._ending.is_set():
            return Outcome(closed=True)
        call = Call(what=what, argument=argument)
        self._calls.put(call)
        while True:
            with contextlib.suppress(queue.Empty):
                return call.outcome.get(timeout=1.0)
            if not self._thread.is_alive() and call.outcome.empty():
                return Outcome(closed=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._ending.is_set()

    def close(self) -> None:
        """Ends what is open when its last piece of work is done; what it only looks at or opens, at once."""
        if self._called is not None and self._called.what != DO:
            self.interrupt()
            return
        self._ending.set()
        self._calls.put(None)
        self._thread.join(END_SECONDS)

    def interrupt(self) -> None:
        """Does in the board's thread what Ctrl-C does; what is open on the board has then ended."""
        self._ending.set()
        self._calls.put(None)
        opened = self._opened
        if opened is not None and opened.end is not None:
            opened.end()
        elif self._thread.is_alive() and self._thread.ident is not None:
            _raise_in(self._thread.ident, KeyboardInterrupt)
        self._thread.join(END_SECONDS)

    # in the thread -----------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            while self._next_opens():
                self._work_at_open()
        except KeyboardInterrupt:
            self._answer(error=Interrupted(f"The work on board {self.board} was interrupted."))

    def _next_opens(self) -> bool:
        """Answers calls for which nothing has to be open; whether one has come that opens it."""
        while (call := self._next_call()) is not None:
            if call.what == OPEN:
                return True
            if call.what == DO:
                self._answer(closed=True)
                continue
            with self._failure_answered():
                self._answer(value=self._shop.look(self._session, self.board))
        return False

    def _work_at_open(self) -> None:
        with self._failure_answered(), self._shop.open(self._session, self.board) as self._opened:
            try:
                self._answer(value=self._opened.about)
                while (call := self._next_call()) is not None:
                    self._answer(value=self._opened.do(call.argument))
            finally:
                self._opened = None

    def _next_call(self) -> Call | None:
        try:
            self._called = self._calls.get(timeout=0.0 if self._ending.is_set() else self._idle)
        except queue.Empty:
            self._ending.set()
            self._called = None
        return self._called

    def _answer(self, **outcome: Any) -> None:
        if self._called is not None:
            self._called.outcome.put(Outcome(**outcome))
            self._called = None

    @contextlib.contextmanager
    def _failure_answered(self) -> Iterator[None]:
        try:
            yield
        except OhforgeError as error:
            self._answer(error=error)
        except Exception as error:
            self._answer(error=explain_exception(error))


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
