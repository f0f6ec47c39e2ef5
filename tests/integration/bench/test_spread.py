"""Work spread over the workers of a Dask scheduler, one of which is another process that is killed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.eval.evaluate import evaluate
from bench.eval.record import find_eval, read_answers
from bench.eval.request import EvalRequest
from bench.spread import spread as spreading
from bench.spread.dask_pool import DaskPool
from bench.spread.spread import Spread
from core.patience import Patience
from core.session import PROJECT, Session
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.asked_models import write_questions
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
    words = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--no-nanny", "--no-dashboard"]
    words += ["--nthreads", "1", "--resources", "far=1", "--local-directory", str(tmp_path / "far")]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        yield process
        process.kill()


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
    assert any("No worker of tcp://127.0.0.1" in failure for failure in work.failures)
    assert [line for line in lines(log) if line.endswith("near")] == ["open near", "close near"]


EVALUATE = """\
import sys
from pathlib import Path
import pytest
from bench.eval.evaluate import evaluate
from bench.eval.request import EvalPlan, EvalRequest
from core.configuration import load_settings
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
