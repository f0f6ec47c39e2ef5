"""What speaks against a measurement, each by a cause on an emulated board, through hdc; and clocks that are pinned there.

The agent is the real one, under qemu. The script in place of llama-bench does what the cause takes, in the repetitions only.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import cooling, measure
from bench.llama import measure_llama
from bench.record import read_bench
from core.patience import Patience
from core.session import PROJECT, Session
from deploy.agent import agent as agent_module
from deploy.board.protocol import Board
from deploy.emulator.board.boards import create_board, stop_board
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.agents import build_agent
from tests.support.bench_board import bench_of, use_bench, write_bench
from tests.support.board_runs import SERIAL, TMP, soon, use_boards
from tests.support.waiting import wait_until

CPUFREQ = "/sys/devices/system/cpu/cpufreq/policy0"
ZONES = "/sys/class/thermal"
Measure = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def own_boards(home: Path, shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    agent = build_agent(shared_cache, "arm32")
    note = {"arm32": [str(agent.path), hashlib.sha256(agent.path.read_bytes()).hexdigest()]}
    (tmp_path / "cache" / "agent").mkdir(parents=True)
    content = json.dumps({"sources": agent_module._sources(), "agents": note})
    (tmp_path / "cache" / "agent" / "built.json").write_text(content)
    use_boards(home, tmp_path, monkeypatch)
    monkeypatch.setattr(cooling, "LOOKS", Patience(pause=0.1))
    yield
    stop_board(create_board(SERIAL, home=home, throttle=0, fixed_governor=False, swap=False, memory_kib=0))


@pytest.fixture
def measured(session: Session, board: Board, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """A bench on the board with some settings; `end` is what its script does last in a repetition, `$c` counts its calls."""

    def measure(
        end: str = "", *, settings: dict[str, Any] | None = None, speed: dict[str, str] | None = None, **asked: Any
    ) -> dict[str, Any]:
        create_board(SERIAL, home=home, **(settings or {}))
        end = f'[ "$n" = 2 ] || {{ {end or ":"}; }}'
        program = write_bench(tmp_path, counter=Path(TMP) / "counter", end=end, **(speed or {}))
        use_bench(monkeypatch, program, board, conditions=None)
        request = bench_of(write_tiny_gguf(tmp_path / "tiny.gguf"), **{"threads": (1,), "repetitions": "1", **asked})
        outcome = measure_llama(session.with_settings(run_engine="auto"), request)
        return read_bench(outcome.record)

    return measure


def said(board: Board, script: str) -> str:
    return board.shell(script, deadline=soon()).text.strip()


def sentences(content: dict[str, Any]) -> dict[str, str]:
    return {flag["name"]: flag["sentence"] for flag in content["flags"]}


def test_a_board_that_becomes_hot_lowers_its_clock_while_it_works_and_is_as_before_when_it_rests(
    board: Board, home: Path
) -> None:
    create_board(SERIAL, home=home, throttle=0.2)
    assert said(board, f"cat {CPUFREQ}/scaling_max_freq {ZONES}/cooling_device0/type") == "1992000\nthermal-cpufreq-0"
    # The steps of deploy/board/profiles/dayu200.yaml, 6 degrees each.
    hot = (
        f"until [ $(cat {ZONES}/cooling_device0/cur_state) -ge 3 ]; do sleep 0.05; done; cat {CPUFREQ}/scaling_cur_freq"
    )
    assert int(said(board, hot)) <= 1416000
    assert int(said(board, f"{hot} >/dev/null; cat {ZONES}/thermal_zone0/temp")) >= 42500 + 3 * 6000
    wait_until("cooling down", lambda: said(board, f"cat {ZONES}/thermal_zone0/temp") == "42500")
    assert "emulated, played: throttle" in said(board, "param get const.build.ver.physical")


def test_throttling_and_other_load_are_flagged_and_a_start_temperature_is_waited_for(measured: Measure) -> None:
    # The second repetition works until the clock is as low as it gets.
    until_hot = f"until [ $(cat {CPUFREQ}/scaling_max_freq) = 408000 ]; do sleep 0.05; done; sleep 1"
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        content = measured(
            f'[ "$c" -lt 4 ] || {{ {until_hot}; }}', settings={"throttle": 0.3}, repetitions="2", start_below=43.0
        )
    finally:
        for process in busy:
            process.kill()
            process.wait()
    found = sentences(content)
    assert {"throttled", "frequency-drop", "other-load"} <= set(found)
    assert "warm-start" not in found and content["valid"] is False
    assert content["plan"]["start_below"] == 43.0
    assert content["board"]["facts"]["parameters"]["const.build.ver.physical"] == "emulated, played: throttle"


BY_CLOCK = {"decode_ns": f"(100000000 * 1992 / ($(cat {CPUFREQ}/scaling_cur_freq) / 1000))"}
"""A program that takes as long for a token as the board's clock lets it."""


def set_clock(kilohertz: str) -> str:
    return f"for f in scaling_max_freq scaling_cur_freq; do echo {kilohertz} >{CPUFREQ}/$f; done"


def test_a_board_that_becomes_slower_from_one_repetition_to_the_next_is_flagged(
    measured: Measure, board: Board
) -> None:
    # $c counts the calls: 1 is the probe, 2 the warm-up. After each the clock goes down by a step of 140 MHz.
    said(board, f"rm -f {TMP}/counter")
    content = measured(
        set_clock("$((1992000 - c * 140000))"), speed=BY_CLOCK, n_prompt=0, repetitions="6", start_below=50.0
    )
    said(board, set_clock("1992000"))
    found = sentences(content)
    assert "throttled" in found
    # The first two repetitions at 1712 and 1572 MHz, the last two at 1152 and 1012: 1082 / 1642.
    assert found["drift"] == "decode became 34% slower from the first third of the repetitions to the last"
    assert "imprecise" not in found and "outliers" not in found


def test_one_repetition_at_another_clock_and_one_that_began_warm_are_flagged(measured: Measure, board: Board) -> None:
    # Call 5 is the third repetition: before it the board is made slow and hot, after it it is as before.
    said(board, f"rm -f {TMP}/counter")
    hot, calm = (f"echo {degrees} >{ZONES}/thermal_zone0/temp" for degrees in (61000, 42500))
    slow = f"case $c in 4) {set_clock('1104000')}; {hot};; 5) {set_clock('1992000')}; {calm};; esac"
    content = measured(slow, speed=BY_CLOCK, n_prompt=0, repetitions="6", start_below=50.0, cool_within=0.2)
    found = sentences(content)
    assert found["outliers"] == "decode of repetition 3 lies apart from the others"
    assert found["warm-start"] == "the board had 61 °C at the start of repetition 3; below 50 was asked for"


def test_a_board_that_is_started_anew_between_two_repetitions_is_flagged(
    measured: Measure, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = 0

    def wait(*_: object) -> float:
        nonlocal starts
        starts += 1
        if starts == 3:  # Before the first repetition that counts.
            stop_board(create_board(SERIAL, home=home))
        return 40.0

    monkeypatch.setattr(measure, "wait_until_cool", wait)
    found = sentences(measured(repetitions="1", start_below=50.0, n_prompt=0))
    assert found["restarted"] == "the board was started anew meanwhile"
    assert found["imprecise"] == "decode has 1 sample; the interval of a median takes 6"


def test_swapping_is_flagged(measured: Measure) -> None:
    # 80 MB of letters in a variable of the shell, on a board that has 60 MB for programs.
    eat = (
        "x=abcdefgh; while [ ${#x} -lt 80000000 ]; do x=$x$x; done; "
        "while grep -q 'pswpout 0000000000' /proc/vmstat; do sleep 0.1; done"
    )
    content = measured(eat, settings={"memory_kib": 60_000, "swap": True})
    assert "to or from swap meanwhile" in sentences(content)["swap"]
    after = content["conditions"]["after"]
    assert after["swapped_out"] > 0 and after["swap_bytes"] == 1048572 * 1024


def test_a_model_that_is_read_from_storage_again_is_flagged(measured: Measure, board: Board) -> None:
    direct = "dd if=tiny.gguf of=/dev/null bs=65536 iflag=direct"
    if "records in" not in said(
        board, f"head -c 65536 /dev/zero >{TMP}/x; cd {TMP}; {direct.replace('tiny.gguf', 'x')} 2>&1"
    ):
        pytest.skip("the board's disk lies on a file system that reads no file past its cache")
    assert "storage is measured, not the CPU" in sentences(measured(f"{direct} 2>/dev/null"))["storage"]


def test_clocks_are_pinned_while_a_program_runs_and_set_back(measured: Measure, board: Board) -> None:
    look = f"cat {CPUFREQ}/scaling_governor {CPUFREQ}/scaling_min_freq"
    content = measured(f"{look} >>{TMP}/seen", pin=True)
    assert said(board, f"cat {TMP}/seen; rm {TMP}/seen") == "\n".join(["performance", "1992000"] * 2)
    assert said(board, look) == "ondemand\n408000"
    pin = content["pin"]
    assert (pin["held"], pin["why"], content["notes"]) == (True, "", [])
    assert pin["policies"] == [
        {
            "name": "policy0",
            "governor": "performance",
            "lowest_hz": 1992000000,
            "highest_hz": 1992000000,
            "found_governor": "ondemand",
            "found_lowest_hz": 408000000,
        }
    ]


def test_a_clock_that_does_not_stay_pinned_is_flagged_and_set_back_all_the_same(
    measured: Measure, board: Board
) -> None:
    content = measured(f"echo powersave >{CPUFREQ}/scaling_governor", pin=True)
    assert sentences(content)["unpinned"] == "scaling_governor of policy0 did not stay as it was pinned"
    assert said(board, f"cat {CPUFREQ}/scaling_governor") == "ondemand"


def test_a_governor_that_cannot_be_chosen_is_said_and_done_without(measured: Measure) -> None:
    content = measured(settings={"fixed_governor": True}, pin=True)
    assert (content["pin"]["asked"], content["pin"]["held"], content["state"]) == (True, False, "done")
    assert "scaling_governor of policy0: Read-only file system" in content["pin"]["why"]
    assert any(note.startswith("the clocks could not be pinned: ") for note in content["notes"])


KILLED = """
import sys
from pathlib import Path
from core.console import Console
from core.process import RealRunner
from core.session import Session
from core.settings import Settings
from deploy.hdc.choose import choose_board
from deploy.launch.launch import run_program
from deploy.launch.request import LaunchRequest
from deploy.run.conditions import Conditions
from deploy.run.options import RunOptions
script, runs, cache, leases = sys.argv[1:]
settings = Settings(runs_dir=runs, cache_dir=cache, lease_dir=leases, run_engine="agent")
session = Session(settings=settings, console=Console(), runner=RealRunner())
options = RunOptions(conditions=Conditions(pin=True, sample_seconds=0.5))
run_program(session, LaunchRequest(program=script, board="dayu200", options=options))
"""


@pytest.fixture
def pinning(board: Board, home: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another ohforge, which runs a program with pinned clocks until there is a file ``stop``."""
    create_board(SERIAL, home=home)
    said(board, f"rm -f {TMP}/stop")
    script = tmp_path / "wait.sh"
    script.write_text(f"#!/bin/sh\nuntil [ -e {TMP}/stop ]; do sleep 0.1; done\n")
    words = [sys.executable, "-c", KILLED, script, tmp_path / "runs", tmp_path / "cache", tmp_path / "leases"]
    with subprocess.Popen(list(map(str, words)), cwd=PROJECT, start_new_session=True) as process:
        try:
            wait_until("pinning", lambda: said(board, f"cat {CPUFREQ}/scaling_governor") == "performance")
            yield process
        finally:
            process.kill()
            process.wait(120)


def wait_until_set_back(board: Board) -> None:
    wait_until("setting back", lambda: said(board, f"cat {CPUFREQ}/scaling_governor") == "ondemand")
    assert said(board, f"cat {CPUFREQ}/scaling_min_freq") == "408000"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_pinned_clocks_are_set_back_when_ohforge_is_ended(
    board: Board, pinning: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    pinning.send_signal(number)
    pinning.wait(120)
    wait_until_set_back(board)


@pytest.mark.parametrize("victim", ["agent", "guard"])
def test_pinned_clocks_are_set_back_when_agent_or_guard_is_killed(
    board: Board, pinning: subprocess.Popen[bytes], victim: str
) -> None:
    # Both are one program; the guard has no parent but the board's first process.
    is_victim = '[ "$2" = 1 ]' if victim == "guard" else '[ "$2" != 1 ]'
    kill = (
        "for p in /proc/[0-9]*; do read -r l <$p/stat && set -- ${l##*) } && words=$(cat $p/cmdline) || continue; "
        f"case $words in /system/emulator/qemu*ohforge-agent*run--deadline*) {is_victim} && kill -9 ${{p#/proc/}} && echo killed;; esac; "
        "done 2>/dev/null"
    )
    assert said(board, kill) == "killed"
    said(board, f"touch {TMP}/stop")
    wait_until_set_back(board)
