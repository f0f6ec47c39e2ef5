"""Work spread over the workers of a Dask scheduler, one of which is another process that is killed."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import parts
from bench.eval.evaluate import evaluate
from bench.eval.record import find_eval, read_answers
from bench.eval.request import EvalRequest
from bench.parts import measure_parts
from bench.record import read_bench
from bench.spread import spread as spreading
from bench.spread.dask_pool import DaskPool
from bench.spread.spread import Spread
from bench.spread.there import ThereShop
from core.data_file import find_fault
from core.patience import Patience
from core.record_folder import check_record
from core.session import PROJECT, Session
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.asked_models import write_questions
from tests.support.bench_board import bench_of
from tests.support.dask_lab import dask_scheduler, dask_worker
from tests.support.far_bench import BROKEN, far_kind, measure_far
from tests.support.far_shop import FarShop, Squares
from tests.support.spread_boards import spread_boards
from tests.support.waiting import wait_until

COUNT = 30


@pytest.fixture
def scheduler() -> Iterator[str]:
    """A scheduler with one worker, which is this process and has the board `near`."""
    from distributed import Scheduler, SpecCluster, Worker

    class Quiet(Scheduler):  # type: ignore[misc]
        def start_http_server(self, *words: Any, **more: Any) -> None: ...

    class QuietWorker(Worker):  # type: ignore[misc]
        def start_http_server(self, *words: Any, **more: Any) -> None: ...

    options = {"host": "127.0.0.1", "dashboard": False}
    worker = {**options, "nthreads": 1, "resources": {"near": 1}, "memory_limit": 0}
    with SpecCluster(
        scheduler={"cls": Quiet, "options": options},
        workers={0: {"cls": QuietWorker, "options": worker}},
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def far(scheduler: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own, with the board `far`."""
    with dask_worker(scheduler, tmp_path, ("far",)) as process:
        yield process


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.is_file() else []


def test_a_worker_that_is_killed_loses_nothing_and_nothing_is_done_twice(
    session: Session, scheduler: str, far: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreading, "PATIENCE", Patience(pause=0.1, times=2))
    log, work = tmp_path / "log", Squares()

    def kill_when_stuck() -> None:
        wait_until("the far board in the middle of an item", lambda: any("stuck" in line for line in lines(log)))
        far.kill()

    killing = threading.Thread(target=kill_when_stuck)
    killing.start()
    with DaskPool(session, ("far", "near"), FarShop(str(log), near=os.getpid()), scheduler=scheduler) as pool:
        wait_until("the far worker", lambda: "far" in pool.there())
        spread: Spread[int] = Spread(pool, work, must_be_there=False)
        assert spread.run(range(COUNT)) == ""
    killing.join()
    assert sorted(work.found) == [(number, number * number) for number in range(COUNT)]
    assert work.by["near"] + work.by.get("far", 0) == COUNT
    assert work.failures and all(failure.startswith("far: ") for failure in work.failures)
    assert [line for line in lines(log) if line.endswith("near")] == ["open near", "close near"]


def test_benches_of_other_computers_are_measured_there_and_their_records_come_here(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "kind_of_board", far_kind)
    request = bench_of(write_tiny_gguf(tmp_path / "tiny.gguf"), repetitions="2", threads=(1,))
    speeds = {("lab-1",): 10_000_000, ("lab-2", BROKEN): 20_000_000}
    boards = tuple(board for group in speeds for board in group)
    with contextlib.ExitStack() as processes:
        address = processes.enter_context(dask_scheduler(tmp_path))
        for group, nanoseconds in speeds.items():
            far = {"FAR_FOLDER": str(tmp_path / "far"), "PREFILL_NS": str(nanoseconds)}
            far |= {
                "INVOKE_OHFORGE_RUNS_DIR": str(tmp_path / f"runs of {group[0]}"),
                "INVOKE_OHFORGE_RUN_ENGINE": "shell",
            }
            processes.enter_context(dask_worker(address, tmp_path, group, far))
        with DaskPool(session, boards, ThereShop(do=print, look=far_kind), scheduler=address) as pool:
            wait_until("both workers", lambda: pool.there() == set(boards))
        outcome = measure_parts(session, request, "llama", measure_far, boards, scheduler=address)
    assert find_fault(outcome.content, PROJECT / "docs" / "bench-parts.schema.json") is None
    found = {part["board"]: part for part in outcome.content["parts"]}
    assert (outcome.content["state"], found[BROKEN]["error"]["code"]) == ("failed", "OHF7006")
    for board, tokens in (("lab-1", 100.0), ("lab-2", 50.0)):  # 1e9 ns over those of a token.
        record = Path(found[board]["record"])
        assert record.parent == outcome.record / "parts" / board
        medians = {row["test"]: row["median"] for row in read_bench(record)["results"]}
        assert medians["prefill"] == pytest.approx(tokens)
        assert check_record(record).is_unchanged
        assert check_record(tmp_path / f"runs of {board}" / record.relative_to(session.settings.runs)).is_unchanged
    assert check_record(outcome.record).is_unchanged


EVALUATE = """\
import sys
from pathlib import Path
import pytest
from bench.eval.evaluate import evaluate
from bench.eval.request import EvalPlan, EvalRequest
from core.configuration import load_settings
from core.record_folder import check_record
from core.session import Session
from tests.support.spread_boards import served_boards

model, questions, *urls = sys.argv[1:]
with pytest.MonkeyPatch.context() as patch:
    served_boards(patch, **dict(zip("ab", urls)))
    plan = EvalPlan(data=questions, budgets=(10, 20))
    evaluate(Session(settings=load_settings()), EvalRequest(model=model, boards=("a", "b"), plan=plan))
"""


def test_an_evaluation_on_two_boards_that_is_killed_goes_on_and_asks_nothing_twice(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_tiny_gguf(tmp_path / "tiny.gguf", chat_template="{{ messages }}")
    words = [sys.executable, "-c", EVALUATE, str(model), str(write_questions(tmp_path / "forty.jsonl"))]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "INVOKE_OHFORGE_RUNS_DIR": str(session.settings.runs)}
    with spread_boards(monkeypatch, "a", "b") as boards:
        for board in boards.values():
            board.server.fault("mute", after=1, skip=9)
        words += [board.url for board in boards.values()]
        with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as process:
            stuck = "two answers that never end"
            wait_until(stuck, lambda: all(len(board.server.asked()) == 10 for board in boards.values()))
            process.kill()
        folder = find_eval(session, "latest")
        before = len(list(read_answers(folder)))
        assert before == 18
        outcome = evaluate(session, EvalRequest(resume=folder))
        asked = sum(len(board.server.asked()) for board in boards.values())
    answers = list(read_answers(folder))
    assert len({(line["id"], line["limit"]) for line in answers}) == len(answers) == asked - 2
    assert {line["id"] for line in answers} == {f"forty-{k}" for k in range(40)}
    # By hand, as in tests/unit/bench/eval/test_evaluate.py.
    shares = {row["budget"]: row["accuracy"]["strict"]["value"] for row in outcome.content["results"]}
    assert shares == {10: 0.2, 20: 0.45, 1024: 0.725}
    assert sum(part["answers"] for part in outcome.content["parts"]) == len(answers)
