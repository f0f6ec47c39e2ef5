"""Several processes that want the same build."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import Busy
from core.locks import hold
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.build.job import BuildJob
from tests.support.build_parts import Workshop, write_recipe
from toolchains.host_toolchain import ToolchainChoice


def test_a_second_process_waits_and_finds_the_work_done(workshop: Workshop) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(job: BuildJob) -> None:
        begun.set()
        assert go_on.wait(30)

    workshop.system.before_products = wait
    # Not `workshop.build`, which writes the recipe anew: the first build may be reading it.
    request = BuildRequest(
        target=str(write_recipe(workshop.folder, workshop.recipe)), choice=ToolchainChoice(arch="arm64")
    )
    outcomes: list[BuildOutcome] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(ensure_built(workshop.session, request))) for _ in range(2)
    ]
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert sorted(outcome.rebuilt for outcome in outcomes) == [False, True]
    assert outcomes[0].artifact == outcomes[1].artifact
    assert len(workshop.system.runs) == 1


def test_the_lock_of_a_build_is_not_waited_for_for_ever(workshop: Workshop, tmp_path: Path) -> None:
    folder = workshop.build().artifact.folder
    (folder / "artifact.json").unlink()
    settings = workshop.session.settings
    short = dataclasses.replace(settings, timeouts=dataclasses.replace(settings.timeouts, lock=0.2))
    workshop.session = dataclasses.replace(workshop.session, settings=short)
    program = (
        "import sys, time; from filelock import FileLock\n"
        "with FileLock(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    lock = folder.with_name(f".{folder.name}.lock")
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Busy, match="the build of hello for arm64"):
            workshop.build()
    with hold(lock, Deadline.after(10, "the lock")):
        pass
