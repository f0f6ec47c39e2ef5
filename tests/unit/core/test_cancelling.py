"""Programs that another thread calls off."""

from __future__ import annotations

import threading

import pytest

from core.cancelling import CancellableRunner
from core.deadline import Deadline
from core.errors import DeadlineExpired
from core.process import RealRunner


def test_a_program_can_be_called_off_by_another_thread() -> None:
    runner = CancellableRunner(RealRunner())
    begun = threading.Event()
    ended = threading.Event()

    def run() -> None:
        with pytest.raises(DeadlineExpired):
            runner.run(
                ["sh", "-c", "echo begun; exec sleep 600"],
                deadline=Deadline.after(600, "sleep"),
                on_stdout=lambda chunk: begun.set(),
            )
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(60)
    runner.cancel()
    thread.join(60)
    assert ended.is_set()
    with pytest.raises(DeadlineExpired):
        runner.run(["sleep", "600"], deadline=Deadline.after(600, "sleep"))


def test_without_that_it_runs_as_any_other() -> None:
    runner = CancellableRunner(RealRunner())
    assert runner.run(["echo", "hi"], deadline=Deadline.after(60, "echo")).stdout == b"hi\n"
    with pytest.raises(DeadlineExpired):
        runner.run(["sleep", "600"], deadline=Deadline.after(0.2, "sleep"))
