"""A real ``dask scheduler`` and real ``dask worker`` processes on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from core.session import PROJECT
from tests.support.waiting import wait_until


@contextlib.contextmanager
def dask_scheduler(folder: Path) -> Iterator[str]:
    """Its address."""
    file = folder / "scheduler.json"
    words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    with _process("dask_scheduler", words, {}):
        wait_until("the file of the scheduler", lambda: file.is_file() and file.read_text().endswith("}"))
        yield json.loads(file.read_text())["address"]


@contextlib.contextmanager
def dask_worker(
    scheduler: str, folder: Path, boards: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that has these boards."""
    words = [scheduler, "--no-nanny", "--no-dashboard", "--nthreads", str(len(boards)), "--host", "127.0.0.1"]
    words += ["--resources", " ".join(f"{board}=1" for board in boards), "--local-directory", str(folder / boards[0])]
    with _process("dask_worker", words, environment or {}) as process:
        yield process


@contextlib.contextmanager
def _process(name: str, words: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", f"distributed.cli.{name}", *words]
    known = {**os.environ, "PYTHONPATH": str(PROJECT), **environment}
    with subprocess.Popen(command, env=known, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()
