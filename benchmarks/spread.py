"""What spreading work over boards costs: 10,000 questions that take no time, on 1, 2 and 10 boards, by Dask's threads.

Baseline: the same calls in a plain loop. Goal: at most 5 ms more for each by the clock; what it computes is shown beside it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.spread.dask_pool import DaskPool
from bench.spread.spread import Spread
from bench.spread.station import Opened
from core.errors import OhforgeError
from core.session import Session

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
BOARDS = (1, 2, 10)
GOAL = 0.005


@dataclass(frozen=True)
class Nothing:
    """See `bench.spread.station.Shop`."""

    def look(self, session: Session, board: str) -> Mapping[str, Any]:
        return {}

    @contextlib.contextmanager
    def open(self, session: Session, board: str) -> Iterator[Opened]:
        yield Opened(about={}, do=answer, end=None)


class Counting:
    """See `bench.spread.spread.Work`."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def looked(self, board: str, kind: Mapping[str, Any]) -> None: ...

    def prepare(self) -> None: ...

    def opened(self, board: str, about: Mapping[str, Any]) -> None: ...

    def call_for(self, item: int) -> int:
        return item

    def came(self, board: str, item: int, value: Any) -> bool:
        self.found.append(value)
        return False

    def enough(self) -> str:
        return ""

    def failed(self, board: str, error: OhforgeError, given_up: bool, left: Sequence[int]) -> None:
        raise error


def answer(item: int) -> int:
    return item


def plain() -> list[int]:
    return [answer(item) for item in range(COUNT)]


def spread(boards: int) -> list[int]:
    work = Counting()
    with tempfile.TemporaryDirectory() as folder:
        session = Session().with_settings(cache_dir=folder)
        with DaskPool(session, [f"board-{number}" for number in range(boards)], Nothing()) as pool:
            Spread(pool, work).run(range(COUNT))
    return sorted(work.found)


def main() -> None:
    baseline = measure("plain loop", plain)
    most = max(measure(f"boards: {boards}", functools.partial(spread, boards)) for boards in BOARDS) - baseline
    print(f"more for each: {1000 * most:.2f} ms (goal: at most {1000 * GOAL:g} ms)")
    if most > GOAL:
        sys.exit("the goal is missed")


def measure(name: str, way: Callable[[], list[int]]) -> float:
    """Seconds of the clock an item."""
    cpu, clock = time.process_time(), time.perf_counter()
    assert way() == list(range(COUNT))
    computed, passed = time.process_time() - cpu, time.perf_counter() - clock
    print(f"{name}: {1000 * computed / COUNT:.4f} ms of computing an item, {1000 * passed / COUNT:.4f} ms by the clock")
    return passed / COUNT


if __name__ == "__main__":
    main()
