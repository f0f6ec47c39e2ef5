"""The state of a board: what is there is read, and what is not there is null."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.conditions import parse_conditions, read_conditions
from core.errors import LostConnection
from core.session import Session
from deploy.board.survey import ATTEMPTS
from tests.support.local_board import LocalBoard

RK3568 = """/sys/devices/system/cpu/cpufreq/policy0/related_cpus=0 1 2 3
/sys/devices/system/cpu/cpufreq/policy0/scaling_governor=interactive
/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq=408000
/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq=408000
/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq=1992000
/sys/class/thermal/thermal_zone0/type=soc-thermal
/sys/class/thermal/thermal_zone0/temp=42500
/sys/class/thermal/thermal_zone1/type=gpu-thermal
/sys/class/thermal/cooling_device0/type=thermal-cpufreq-0
/sys/class/thermal/cooling_device0/cur_state=2
/sys/class/devfreq/dmc/governor=dmc_ondemand
/sys/class/devfreq/dmc/cur_freq=1056000000
/sys/class/power_supply/battery/type=Battery
/sys/class/power_supply/battery/status=Discharging
/sys/class/power_supply/usb/online=0
/proc/loadavg=0.52 0.58 0.59 1/389 12345
/proc/uptime=350735.47 234388.90
/proc/stat=cpu  10132153 290696 3084719 46828483 16683 0 25195 0 175628 0
/sys/devices/system/cpu/online=0-2,5
@@memory
MemTotal:        2021724 kB
MemAvailable:    1203456 kB
SwapTotal:        524284 kB
SwapFree:         500000 kB
@@paging
pgmajfault 4711
pswpin 12
pswpout 34
@@end
"""


def test_every_file_of_a_board_is_understood_in_the_units_of_the_record() -> None:
    found = parse_conditions(RK3568)
    (policy,) = found.policies
    assert (policy.name, policy.cpus, policy.governor, policy.is_fixed) == ("policy0", "0 1 2 3", "interactive", False)
    assert (policy.current_hz, policy.highest_hz, policy.hardware_highest_hz) == (408_000_000, 1_992_000_000, None)
    assert found.temperatures == {"soc-thermal (thermal_zone0)": 42.5, "gpu-thermal (thermal_zone1)": None}
    assert found.cooling == {"thermal-cpufreq-0 (cooling_device0)": 2}
    assert found.other_clocks == {"dmc": {"governor": "dmc_ondemand", "hz": 1_056_000_000}}
    assert found.supplies == {
        "battery": {"type": "Battery", "online": None, "status": "Discharging"},
        "usb": {"type": None, "online": 0, "status": None},
    }
    assert (found.load, found.uptime, found.cores) == ((0.52, 0.58, 0.59), 350735.47, 4)
    # user + nice + system + irq + softirq + steal, in ticks of 10 ms
    assert found.cpu_busy == pytest.approx((10132153 + 290696 + 3084719 + 0 + 25195 + 0) / 100)
    assert (found.available_bytes, found.swap_bytes) == (1203456 * 1024, 524284 * 1024)
    assert (found.major_faults, found.swapped_in, found.swapped_out) == (4711, 12, 34)


def test_what_a_board_does_not_have_is_null_and_never_0() -> None:
    found = parse_conditions("@@memory\n@@paging\n@@end\n").as_json()
    empty = {"policies": (), "temperatures": {}, "cooling": {}, "other_clocks": {}, "supplies": {}}
    assert {key: value for key, value in found.items() if value is not None} == empty


@pytest.mark.parametrize("line", ["/proc/loadavg=", "/proc/loadavg=x", "/proc/stat=cpu", "/proc/uptime=soon"])
def test_a_file_with_nonsense_in_it_is_as_one_that_is_not_there(line: str) -> None:
    found = parse_conditions(f"{line}\n@@memory\n@@paging\n@@end\n")
    assert (found.load, found.uptime, found.cpu_busy) == (None, None, None)


def test_the_boards_own_shell_reads_its_files(session: Session, tmp_path: Path) -> None:
    found = read_conditions(session, LocalBoard(tmp_path / "board"))
    assert found.cores == int(subprocess.check_output(["nproc", "--all"])) or found.cores == os.cpu_count()
    kib = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())["MemTotal:"]
    assert found.memory_bytes == int(kib) * 1024
    assert found.uptime is not None and found.uptime > 0


def test_an_answer_that_is_cut_short_is_asked_for_again_and_then_told(session: Session, tmp_path: Path) -> None:
    board = LocalBoard(tmp_path / "board")
    board.replies["@@end"] = ""
    with pytest.raises(LostConnection, match="did not say its conditions"):
        read_conditions(session, board)
    assert len(board.calls) == ATTEMPTS
