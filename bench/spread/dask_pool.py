"""The boards of a pool by Dask: a resource of a worker each, by which it is found.

A call goes straight to that worker and back, not through Dask's queue of tasks: its client holds tasks back for up to
10 ms, in which a board would stand still after every answer. That a board does one thing at a time, its station sees to.

Without a scheduler's address the workers are threads of this process, which no socket leads to. Else they are processes
on whatever computers have the boards, each started with the names of its boards as resources.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bench.spread.station import Outcome, Shop
from bench.spread.stations import call_aside, leave, leave_aside, register
from core.errors import HostToolMissing, LostConnection, ServerUnreached
from core.session import Session

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 20.0
LOOK_SECONDS = 1.0
"""Between two looks whether the workers of a scheduler are still there."""
SILENT_SECONDS = 60.0
"""After which a worker that tells the scheduler nothing is taken for frozen; Dask itself waits five minutes."""


class DaskPool:
    """See `bench.spread.spread.Pool`."""

    def __init__(self, session: Session, boards: Sequence[str], shop: Shop, *, scheduler: str = "") -> None:
        self.boards: Sequence[str] = tuple(dict.fromkeys(boards))
        self._session, self._shop, self._scheduler = session, shop, scheduler
        self._mark = secrets.token_hex(8)
        """Tells this pool's calls from those of others on the same workers."""
        self._back: queue.SimpleQueue[tuple[str, int, Outcome]] = queue.SimpleQueue()
        self._sent: dict[str, tuple[int, str]] = {}
        """The number of each busy board's call, and the worker that has it. What comes back with another one is not taken any more."""
        self._calls = 0
        self._workers: dict[str, str] = {}
        """Address of the worker that has a board."""
        self._heard: dict[str, tuple[float, float]] = {}
        """When the scheduler last heard of each worker by its own clock, and since when by ours."""
        self._looked_at = float("-inf")
        self._client: Client
        self._endings = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if not self._scheduler:
            register(self._mark, self._session)
        self._client = self._endings.enter_context(
            _client(self._scheduler, self._session.settings.cache / "dask", self.boards)
        )
        self._look()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._endings:
            if not self._scheduler:
                leave(self._mark, at_once=error is not None)
                return
            if not self.there():
                return
            with contextlib.suppress(Exception):  # A worker that cannot be reached leaves its boards by itself.
                self._client.run(
                    leave_aside, self._mark, error is not None, workers=sorted(set(self._workers.values()))
                )

    def there(self) -> set[str]:
        """The boards that the workers of the scheduler have at the moment."""
        self._look()
        return set(self._workers)

    def send(self, board: str, what: str, argument: Any) -> None:
        """See `Pool.send`. The call for a board that no worker has comes back as one that was lost."""
        self._calls += 1
        number = self._calls
        self._look_now_and_then()
        worker = self._workers.get(board, "")
        self._sent[board] = number, worker
        if worker:
            words = (board, number, worker, what, argument)
            threading.Thread(target=self._call, args=words, name=f"call of {board}", daemon=True).start()
        else:
            self._back.put((board, number, self._lost(board)))

    def wait(self, seconds: float) -> list[tuple[str, Outcome]]:
        """See `Pool.wait`."""
        until = time.monotonic() + seconds
        while not (found := self._take_all(min(LOOK_SECONDS, max(0.0, until - time.monotonic())))):
            self._look_now_and_then()
            if time.monotonic() >= until:
                return self._take_all(0.0)
        return found

    def _take_all(self, seconds: float) -> list[tuple[str, Outcome]]:
        found: list[tuple[str, Outcome]] = []
        with contextlib.suppress(queue.Empty):
            while True:
                board, number, outcome = self._back.get(timeout=0.0 if found else seconds)
                if board in self._sent and self._sent[board][0] == number:
                    del self._sent[board]
                    found.append((board, outcome))
        return found

    def _call(self, board: str, number: int, worker: str, what: str, argument: Any) -> None:
        try:
            words = (self._mark, board, self._shop, what, argument)
            outcome = self._client.run(call_aside, *words, workers=[worker])[worker]
        except (Exception, asyncio.CancelledError) as error:  # Of Dask itself: what boards raise is within an outcome.
            outcome = Outcome(
                error=LostConnection(f"The worker that has the board {board} has not answered: {error!r}.")
            )
        self._back.put((board, number, outcome))

    # workers of a scheduler --------------------------------------------------------------------------

    def _look_now_and_then(self) -> None:
        """Finds out which boards have gone with their workers: Dask itself would wait for them without end."""
        if not self._scheduler or time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        self._look()
        for board, (number, worker) in self._sent.items():
            if worker and self._workers.get(board) != worker:
                self._back.put((board, number, self._lost(board)))

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        try:
            # Not `scheduler_info`: what it has asked for may be overwritten, before it is returned, by one without workers.
            workers = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
        except Exception:  # Whatever it raises: nobody is there any more.
            workers = {}
        for address, worker in workers.items():
            if self._heard.get(address, (None,))[0] != worker["last_seen"]:
                self._heard[address] = worker["last_seen"], self._looked_at
        self._workers = {
            board: address
            for address, worker in workers.items()
            for board in self.boards
            if board in worker["resources"] and self._looked_at - self._heard[address][1] < SILENT_SECONDS
        }

    def _lost(self, board: str) -> Outcome:
        error = LostConnection(
            f"No worker of {self._scheduler} has the board {board}.",
            remedy=f'Start one where the board is: dask worker {self._scheduler} --resources "{board}=1".',
        )
        return Outcome(error=error)


@contextlib.contextmanager
def _client(scheduler: str, folder: Path, boards: Sequence[str]) -> Iterator[Client]:
    try:
        import distributed
    except ModuleNotFoundError:
        raise HostToolMissing(
            "Work is spread over boards by Dask, which is not installed.",
            remedy="Install it with `.venv/bin/python -m pip install -e '.[spread]'` in ohforge's folder.",
        ) from None
    if scheduler:
        try:
            client = distributed.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ServerUnreached(
                f"The Dask scheduler {scheduler} cannot be reached: {error}.",
                remedy="See whether `dask scheduler` runs there, and listens where this computer reaches it.",
            ) from error
        with client:
            yield client
        return
    with _threads(folder, boards) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@contextlib.contextmanager
def _threads(folder: Path, boards: Sequence[str]) -> Iterator[Any]:
    """A cluster within this process: one worker, with a thread for each board. Dask itself tidies up in `folder`."""
    from distributed import Scheduler, SpecCluster, Worker

    class SilentScheduler(Scheduler):  # type: ignore[misc]
        def start_http_server(self, *words: Any, **more: Any) -> None:
            """None: it would listen for anybody."""

    class SilentWorker(Worker):  # type: ignore[misc]
        def start_http_server(self, *words: Any, **more: Any) -> None:
            """None: it would listen for anybody."""

    common = {"protocol": "inproc://", "dashboard": False}
    worker = {
        "nthreads": len(boards),
        "resources": dict.fromkeys(boards, 1),
        "memory_limit": 0,
        "local_directory": str(folder),
    }
    with SpecCluster(
        scheduler={"cls": SilentScheduler, "options": common},
        workers={0: {"cls": SilentWorker, "options": {**common, **worker}}},
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster
