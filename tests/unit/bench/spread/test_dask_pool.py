"""bench.spread.dask_pool: which workers of a scheduler are there, by what the scheduler has heard of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.spread import dask_pool
from bench.spread.dask_pool import DaskPool
from core.session import Session


class Client:
    """Of `distributed.Client` what a look needs."""

    scheduler = SimpleNamespace(identity=None)

    def __init__(self) -> None:
        self.workers: dict[str, dict[str, Any]] = {}

    def sync(self, function: object, *, n_workers: int) -> dict[str, Any]:
        return {"workers": self.workers}


def test_a_worker_that_says_nothing_for_a_minute_is_not_there_until_it_speaks_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    times, client = iter((0.0, 59.0, 61.0, 62.0)), Client()
    monkeypatch.setattr(dask_pool, "time", SimpleNamespace(monotonic=lambda: next(times)))
    pool = DaskPool(session, ("a", "b"), SimpleNamespace(), scheduler="tcp://lab:8786")  # type: ignore[arg-type]
    pool._client = client  # type: ignore[assignment]
    found = []
    # The scheduler's clock is another one, and b is frozen for a while.
    for heard_of_a, heard_of_b in ((9000.5, 9000.7), (9059.5, 9000.7), (9061.5, 9000.7), (9061.5, 9062.7)):
        client.workers = {
            "tcp://1": {"resources": {"a": 1}, "last_seen": heard_of_a},
            "tcp://2": {"resources": {"b": 1}, "last_seen": heard_of_b},
        }
        found.append(pool.there())
    assert found == [{"a", "b"}, {"a", "b"}, {"a"}, {"a", "b"}]
