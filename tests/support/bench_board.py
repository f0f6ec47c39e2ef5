"""A board whose llama-bench, or mslite, is a script that prints what the real one would, at speeds that a test decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import cooling, measure
from bench.conditions import Conditions, CpuPolicy
from bench.plan import read_repetitions
from bench.request import BenchRequest
from deploy.board.protocol import Board
from deploy.launch.launch import Launch
from tests.support.run_requests import make_request

SCRIPT = """#!/bin/sh
while [ $# -gt 1 ]; do case $1 in -t) t=$2;; -p) p=$2;; -n) n=$2;; esac; shift; done
c=$(cat {counter} 2>/dev/null || echo 0); c=$((c+1)); echo $c >{counter}
say() {{ printf '{{"n_threads": %d, "n_prompt": %d, "n_gen": %d, "n_depth": 0, "samples_ns": [ %d ], "new key": 1}}\\n' $t $1 $2 $3; }}
echo 'load: warming up' >&2
[ "$p" = 0 ] || say $p 0 $(({prefill_ns} * p / t))
[ "$n" = 0 ] || say 0 $n $(({decode_ns} * n / t))
{end}
"""

MSLITE = """#!/bin/sh
while [ $# -gt 1 ]; do case $1 in --threads) t=$2;; --loops) n=$2;; --device) d=$2;; esac; shift; done
printf 'engine: Engine of a test\\ndevice asked for: %s\\nload: 0.100 ms\\nwarmup 1: 99.000 ms\\n' "$d"
i=0; while [ $i -lt $n ]; do i=$((i+1)); us={microseconds}; echo "loop $i: $((us/1000)).$(printf %03d $((us%1000))) ms"; done
echo 'output data is:'
{end}
echo 'result: complete'
"""

POLICY = CpuPolicy(
    name="policy0",
    cpus="0 1 2 3",
    governor="performance",
    current_hz=1_800_000_000,
    lowest_hz=408_000_000,
    highest_hz=1_800_000_000,
    hardware_lowest_hz=408_000_000,
    hardware_highest_hz=1_992_000_000,
)
CALM = Conditions(
    policies=(POLICY,),
    temperatures={"soc-thermal (thermal_zone0)": 42.5},
    cooling={"thermal-cpufreq-0 (cooling_device0)": 0},
    other_clocks={},
    online_cpus="0-3",
    load=(0.1, 0.2, 0.3),
    uptime=1000.0,
    cpu_busy=500.0,
    memory_bytes=4_000_000_000,
    available_bytes=3_000_000_000,
    swap_bytes=0,
    swap_free_bytes=0,
    swapped_in=0,
    swapped_out=0,
    major_faults=10,
)
"""A board with a fixed clock on which nothing else goes on."""


def changed(**changes: object) -> Conditions:
    return dataclasses.replace(CALM, **changes)  # type: ignore[arg-type]


def write_bench(
    folder: Path,
    *,
    prefill_ns: str = "10000000",
    decode_ns: str = "100000000",
    end: str = "",
    counter: Path | None = None,
) -> Path:
    """The script. Speeds are nanoseconds per token and thread, as the shell computes them.

    ``$c`` counts the calls, by a file of the board.
    """
    program = folder / "llama-bench"
    text = SCRIPT.format(counter=counter or folder / "counter", prefill_ns=prefill_ns, decode_ns=decode_ns, end=end)
    program.write_text(text)
    return program


def write_mslite(folder: Path, microseconds: str, *, end: str = "") -> Path:
    """A script as mslite; of a loop, as the shell computes it from the threads ``$t`` and the loop's number ``$i``."""
    program = folder / "mslite"
    program.write_text(MSLITE.format(microseconds=microseconds, end=end))
    return program


def use_bench(
    monkeypatch: pytest.MonkeyPatch,
    program: Path,
    board: Board,
    conditions: Callable[[], Conditions] | None = lambda: CALM,
) -> None:
    """Lets benches run `program` on `board`, under these conditions; None: the board's own."""
    run = dataclasses.replace(make_request(program), engine=f"{program.name} 0.0", program=program.name)
    monkeypatch.setattr(measure, "choose_board", lambda session, name: board)
    monkeypatch.setattr(measure, "ready_product", lambda session, board, request: Launch(board=board, run=run))
    if conditions is not None:
        for module in (measure, cooling):
            monkeypatch.setattr(module, "read_conditions", lambda session, board: conditions())


def bench_of(*models: Path, repetitions: str = "6", **changes: object) -> BenchRequest:
    request = BenchRequest(
        models=tuple(map(str, models)),
        threads=(1, 2),
        n_prompt=8,
        n_gen=4,
        repetitions=read_repetitions(repetitions),
        seed=1,
        at_most=3600.0,
    )
    return dataclasses.replace(request, **changes)  # type: ignore[arg-type]
