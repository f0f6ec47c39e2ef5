"""``ohforge report`` of 10,000 samples against matplotlib drawing them point by point, each in a process of its own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.shared.bench_records import write_bench_record

THREADS, ROUNDS = (1, 2, 3, 4), 1250
TURNS = 5
POINT_BY_POINT = """
import json, sys
from matplotlib.figure import Figure
samples = [json.loads(line) for line in open(sys.argv[1])]
figure = Figure()
figure.subplots().plot([each["tokens_per_second"] for each in samples], "o")
figure.savefig(sys.argv[2])
"""


def measured(words: list[str], output: Path) -> tuple[float, float, int]:
    """Seconds of the clock and of the processor, and the size of what was written."""
    began, used = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    ended = os.times()
    computing = ended.children_user + ended.children_system - used.children_user - used.children_system
    return time.perf_counter() - began, computing, output.stat().st_size


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record = write_bench_record(folder / "runs", threads=THREADS, rounds=ROUNDS)
        samples, page, plain = record / "samples.jsonl", folder / "report.html", folder / "plain.svg"
        report = ["-m", "invoke", "report", str(record), "--output", str(page)]
        baseline = ["-c", POINT_BY_POINT, str(samples), str(plain)]
        measured(report, page)
        turns = [(measured(baseline, plain), measured(report, page)) for _ in range(TURNS)]
    print(f"a bench of {2 * len(THREADS) * ROUNDS} samples, median of {TURNS} interleaved calls")
    rows = {}
    for place, title in enumerate(("one drawing, point by point (baseline)", "the whole report")):
        rows[title] = [statistics.median(turn[place][column] for turn in turns) for column in range(3)]
        seconds, computing, size = rows[title]
        print(f"  {title:40} {seconds:6.2f} s, {computing:5.2f} s of the processor, {size / 1e6:6.3f} MB")
    (_, slow, large), (_, quick, small) = rows.values()
    print(
        f"  ratio                                    {quick / slow:6.2f} of the processor's time, {small / large:.2f} of the size"
    )
    print("  goals for the report                     at most 2 s of the processor, at most 1 MB")


if __name__ == "__main__":
    main()
