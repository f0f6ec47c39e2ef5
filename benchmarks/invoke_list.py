"""``invoke --list`` of this project against ``invoke --list`` of an empty tasks.py, in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 20


def seconds_of(folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "invoke", "--list"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name)
        (empty / "tasks.py").write_text("from invoke import task\n\n\n@task\ndef nothing(c):\n    pass\n")
        seconds_of(empty)
        seconds_of(ROOT)
        pairs = [(seconds_of(empty), seconds_of(ROOT)) for _ in range(ROUNDS)]
    baseline, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"invoke --list, median of {ROUNDS} interleaved calls")
    print(f"  empty tasks.py (baseline)  {baseline * 1000:6.0f} ms")
    print(f"  ohforge                    {ours * 1000:6.0f} ms")
    print(f"  ratio                      {ours / baseline:6.2f}  (goal: at most 1.3)")


if __name__ == "__main__":
    main()
