"""What sampling a board costs: CPU time of the agent, built for this computer, while a program runs that does nothing.

Baseline: the same run without samples. Goal: at most 1 % of one CPU more than that, at the shortest interval of a bench
(0.2 s). The sensors of a board (two zones, four clocks) are files in memory: this computer has none, or others.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity
from core.process import RealRunner
from core.session import Session
from deploy.agent.agent import AgentRun, build_agent, run_options
from deploy.agent.frames import FrameDecoder

SECONDS = 10.0
GOAL = 0.01
SENSORS = """
mount -t tmpfs sensors /sys/class/thermal && mount -t tmpfs sensors /sys/devices/system/cpu || exit 1
for n in 0 1; do mkdir /sys/class/thermal/thermal_zone$n; echo 42500 >/sys/class/thermal/thermal_zone$n/temp; done
for n in 0 1 2 3; do d=/sys/devices/system/cpu/cpu$n/cpufreq; mkdir -p $d; echo 1992000 >$d/scaling_cur_freq; done
exec "$@"
"""


def measure(program: Path, seconds: float, sample_seconds: float) -> tuple[float, int]:
    """Share of one CPU that the agent used, and how many samples came."""
    samples: list[object] = []
    decoder = FrameDecoder(on_sample=samples.append)
    sensors = ["unshare", "--map-root-user", "--mount", "sh", "-c", SENSORS, "sensors"]
    words = [
        *sensors,
        str(program),
        *run_options(AgentRun(sample_seconds=sample_seconds), seconds=60),
        "--",
        "sleep",
        str(seconds),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 65536):
            decoder.feed(chunk)
    elapsed = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    decoder.finish()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used / elapsed, len(samples)


def main() -> int:
    session = Session(console=Console(verbosity=Verbosity.QUIET), runner=RealRunner())
    program, _ = build_agent(session, "x86_64")
    print("CPU time of the agent beside a program that sleeps, as a share of one CPU")
    without, _ = measure(program, SECONDS, 0)
    print(f"  no samples (baseline)   {without:.3%}")
    worst = 0.0
    for pause in (1.0, 0.2):
        used, count = measure(program, SECONDS, pause)
        worst = max(worst, used - without)
        print(f"  every {pause:g} s, {count} samples   {used:.3%}")
    print(f"  at most {worst:.3%} more: {'reached' if worst <= GOAL else 'NOT REACHED'} ({GOAL:.0%})")
    return 0 if worst <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
