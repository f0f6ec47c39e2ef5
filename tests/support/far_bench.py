"""A bench on a worker of Dask, with a script in place of llama-bench: functions that another process finds by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bench.llama import measure_llama
from bench.request import BenchOutcome, BenchRequest
from core.errors import BoardOffline
from core.session import Session
from tests.support.bench_board import use_bench, write_bench
from tests.support.local_board import LocalBoard

BROKEN = "broken"
"""A board that goes in the middle of its bench."""


def far_kind(session: Session, name: str) -> dict[str, Any]:
    return {"serial": name, "emulated": False, "chip": "RK3568"}


def measure_far(session: Session, request: BenchRequest) -> BenchOutcome:
    """A board's speed is that of the worker's ``PREFILL_NS``."""
    if request.board == BROKEN:
        raise BoardOffline("Board broken has gone.")
    folder = Path(os.environ["FAR_FOLDER"]) / request.board
    folder.mkdir(parents=True)
    board = LocalBoard(folder / "board")
    program = write_bench(folder, prefill_ns=os.environ["PREFILL_NS"], counter=board.folder / "counter")
    with pytest.MonkeyPatch.context() as patch:
        use_bench(patch, program, board)
        return measure_llama(session, request)
