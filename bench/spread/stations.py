"""The boards that this process works on for others, by name: each for one of them at a time.

This is what runs on Dask's workers, which may be threads of this process or processes on other computers.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from bench.spread.station import Outcome, Shop, Station
from core.configuration import load_settings
from core.errors import BoardBusy, Interrupted, OhforgeError
from core.session import Session

if TYPE_CHECKING:
    from distributed import Worker

IDLE_SECONDS = 120.0
"""Without a call, after which a board is left that was worked on for another process: that may have been killed."""

_lock = threading.Lock()
_sessions: dict[str, Session] = {}
"""Of those who spread work in this process, by their marks."""
_stations: dict[str, tuple[str, Station]] = {}
"""By board, with the mark of whom it works for."""
_left: set[str] = set()
"""Marks for which nothing is begun any more: a call may still have been on its way."""


def register(mark: str, session: Session) -> None:
    """Says with which session work of that mark is done here."""
    _sessions[mark] = session


def at_board(mark: str, board: str, shop: Shop, what: str, argument: Any) -> Outcome:
    """Has a call done on a board of this computer."""
    try:
        station = _station(mark, board, shop)
    except OhforgeError as error:
        return Outcome(error=error)
    return station.call(what, argument)


async def call_aside(mark: str, board: str, shop: Shop, what: str, argument: Any, dask_worker: Worker) -> Outcome:
    """As `at_board`, in a thread of the worker, beside the loop that it needs to go on."""
    words = (mark, board, shop, what, argument)
    return await asyncio.get_running_loop().run_in_executor(dask_worker.executor, at_board, *words)


def leave(mark: str, *, at_once: bool) -> None:
    """Ends what is open on boards for that mark; `at_once` does not wait for answers that are on their way."""
    with _lock:
        found = [board for board, (whose, _) in _stations.items() if whose == mark]
        stations = [_stations.pop(board)[1] for board in found]
        _left.add(mark)
        _sessions.pop(mark, None)
    ends = [station.interrupt if at_once else station.close for station in stations]
    threads = [threading.Thread(target=end) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def leave_aside(mark: str, at_once: bool) -> None:
    """As `leave`, beside the loop that a worker needs to go on."""
    await asyncio.to_thread(leave, mark, at_once=at_once)


def _station(mark: str, board: str, shop: Shop) -> Station:
    with _lock:
        if mark in _left:
            raise Interrupted(f"Board {board} is given no work any more.")
        whose, station = _stations.get(board, ("", None))
        if station is not None and station.alive:
            if whose != mark:
                # The board's lease is this process's own, and would not keep the two apart.
                raise BoardBusy(f"Board {board} is used by another spread of work in the same process.")
            return station
        session = _sessions.get(mark)
        if session is not None:
            station = Station(session.quietly(), board, shop)
        else:
            station = Station(Session(settings=load_settings()).quietly(), board, shop, IDLE_SECONDS)
        _stations[board] = mark, station
        return station
