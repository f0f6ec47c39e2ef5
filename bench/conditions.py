"""The state of a board that a measurement depends on: clocks, governors, temperatures, memory, swap, load.

The files are those of the kernel's documentation (``Documentation/admin-guide/pm/cpufreq.rst``,
``driver-api/thermal/sysfs-api.rst``, ``filesystems/proc.rst``). What a board does not have is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from core.deadline import Deadline
from core.errors import LostConnection
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.survey import ask_again

ANSWER_SECONDS = 60.0
POLICY_FILES = (
    *("related_cpus", "scaling_governor", "scaling_cur_freq", "scaling_min_freq", "scaling_max_freq"),
    *("cpuinfo_min_freq", "cpuinfo_max_freq"),
)
BOOT = "/proc/sys/kernel/random/boot_id"
FILES = ("/proc/loadavg", "/proc/uptime", "/proc/stat", "/sys/devices/system/cpu/online", BOOT)
TICKS_PER_SECOND = 100
"""Of the times in ``/proc/stat``: USER_HZ, which is 100 on every Linux."""


@dataclass(frozen=True, kw_only=True)
class CpuPolicy:
    """CPUs that share one clock. Frequencies in Hz."""

    name: str
    cpus: str | None
    governor: str | None
    current_hz: int | None
    lowest_hz: int | None
    highest_hz: int | None
    """As the governor may choose now; below `hardware_highest_hz` when something holds it down."""
    hardware_lowest_hz: int | None
    hardware_highest_hz: int | None

    @property
    def is_fixed(self) -> bool:
        """Whether the clock cannot change by load."""
        return self.governor == "performance" or (self.lowest_hz is not None and self.lowest_hz == self.highest_hz)


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """A board at one moment. Temperatures in °C, memory in bytes, times in seconds since the board's start."""

    policies: tuple[CpuPolicy, ...]
    temperatures: Mapping[str, float | None]
    cooling: Mapping[str, int | None]
    """State of each cooling device; above 0: it is at work."""
    other_clocks: Mapping[str, Mapping[str, str | int | None]]
    """Governor and Hz of memory, GPU and NPU, by the names of devfreq."""
    online_cpus: str | None
    load: tuple[float, ...] | None
    """Programs that wanted to run, as a mean over 1, 5 and 15 minutes."""
    uptime: float | None
    cpu_busy: float | None
    """Seconds of all CPUs together that were not idle, since the start."""
    memory_bytes: int | None
    available_bytes: int | None
    swap_bytes: int | None
    swap_free_bytes: int | None
    swapped_in: int | None
    """Pages since the start, as are the next two."""
    swapped_out: int | None
    major_faults: int | None
    supplies: Mapping[str, Mapping[str, str | int | None]] = field(default_factory=dict)
    """Type, status (such as ``Discharging``) and whether it gives power (1) of each power supply, by its name."""
    boot: str | None = None
    """What the kernel calls the time since its start; another one after each."""

    @property
    def cores(self) -> int | None:
        """CPUs that are online; None when the board does not say."""
        parts = [part.split("-") for part in (self.online_cpus or "").split(",") if part]
        return sum(int(part[-1]) - int(part[0]) + 1 for part in parts) or None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def conditions_from(content: Mapping[str, Any]) -> Conditions:
    """Those of a record."""
    return Conditions(**{**content, "policies": tuple(CpuPolicy(**policy) for policy in content["policies"])})


def clocks_of(content: Mapping[str, Any]) -> list[list[Any]]:
    """What the conditions of a record say of the clocks, but for what they just are."""
    keys = ("name", "governor", "lowest_hz", "highest_hz")
    return [[policy[key] for key in keys] for policy in content.get("policies", ())]


def read_conditions(session: Session, board: Board) -> Conditions:
    """Asks the board, which changes nothing there. Raises what `Board.shell` raises."""
    script = render_script("conditions", policy_files=POLICY_FILES, files=FILES)
    deadline = Deadline.after(ANSWER_SECONDS, f"the answer of board {board.serial}")

    def ask() -> Conditions:
        text = board.shell(script, deadline=deadline).text
        if not text.rstrip().endswith("@@end"):
            raise LostConnection(f"Board {board.serial} did not say its conditions to the end.")
        return parse_conditions(text)

    return ask_again(session, ask)


def parse_conditions(text: str) -> Conditions:
    """Understands what ``templates/board/conditions.sh.j2`` prints."""
    files, _, rest = text.partition("@@memory")
    memory, _, paging = rest.partition("@@paging")
    found = dict(re.findall(r"^(/[^=\n]+)=(.*?)\r?$", files, re.MULTILINE))
    sizes = {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB", memory, re.MULTILINE)}
    pages = {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)\s*$", paging, re.MULTILINE)}
    load = re.match(r"([\d.]+) ([\d.]+) ([\d.]+) ", found.get("/proc/loadavg", ""))
    uptime = re.match(r"[\d.]+", found.get("/proc/uptime", ""))
    return Conditions(
        policies=tuple(_read_policy(found, folder) for folder in _folders(found, r".*/cpufreq/policy\d+")),
        temperatures=_read_zones(found),
        cooling={
            _name(found, folder): _whole(found.get(f"{folder}/cur_state"))
            for folder in _folders(found, r".*/cooling_device\d+")
        },
        other_clocks={
            folder.rpartition("/")[2]: {
                "governor": found.get(f"{folder}/governor"),
                "hz": _whole(found.get(f"{folder}/cur_freq")),
            }
            for folder in _folders(found, "/sys/class/devfreq/[^/]+")
        },
        online_cpus=found.get("/sys/devices/system/cpu/online"),
        load=tuple(map(float, load.groups())) if load else None,
        uptime=float(uptime[0]) if uptime else None,
        cpu_busy=_busy_seconds(found.get("/proc/stat", "")),
        memory_bytes=sizes.get("MemTotal"),
        available_bytes=sizes.get("MemAvailable"),
        swap_bytes=sizes.get("SwapTotal"),
        swap_free_bytes=sizes.get("SwapFree"),
        swapped_in=pages.get("pswpin"),
        swapped_out=pages.get("pswpout"),
        major_faults=pages.get("pgmajfault"),
        supplies={
            folder.rpartition("/")[2]: {
                "type": found.get(f"{folder}/type"),
                "online": _whole(found.get(f"{folder}/online")),
                "status": found.get(f"{folder}/status"),
            }
            for folder in _folders(found, "/sys/class/power_supply/[^/]+")
        },
        boot=found.get(BOOT),
    )


def _folders(found: Mapping[str, str], pattern: str) -> list[str]:
    """The folders of that form of which a file was shown, in the order of their numbers."""
    folders = {path.rpartition("/")[0] for path in found}
    return sorted(
        (folder for folder in folders if re.fullmatch(pattern, folder)), key=lambda folder: (len(folder), folder)
    )


def _read_policy(found: Mapping[str, str], folder: str) -> CpuPolicy:
    def hertz(name: str) -> int | None:
        kilohertz = _whole(found.get(f"{folder}/{name}"))
        return kilohertz * 1000 if kilohertz is not None else None

    return CpuPolicy(
        name=folder.rpartition("/")[2],
        cpus=found.get(f"{folder}/related_cpus"),
        governor=found.get(f"{folder}/scaling_governor"),
        current_hz=hertz("scaling_cur_freq"),
        lowest_hz=hertz("scaling_min_freq"),
        highest_hz=hertz("scaling_max_freq"),
        hardware_lowest_hz=hertz("cpuinfo_min_freq"),
        hardware_highest_hz=hertz("cpuinfo_max_freq"),
    )


def _read_zones(found: Mapping[str, str]) -> dict[str, float | None]:
    zones = {}
    for folder in _folders(found, r".*/thermal_zone\d+"):
        thousandths = _whole(found.get(f"{folder}/temp"))
        zones[_name(found, folder)] = thousandths / 1000 if thousandths is not None else None
    return zones


def _name(found: Mapping[str, str], folder: str) -> str:
    """The type of a zone or device, with its number, since several may be of one type."""
    number = folder.rpartition("/")[2]
    kind = found.get(f"{folder}/type")
    return f"{kind} ({number})" if kind else number


def _busy_seconds(line: str) -> float | None:
    """Of the first line of ``/proc/stat``: all times but idle and iowait; guests are in user already."""
    ticks = [int(number) for number in re.findall(r"\d+", line)][:8] if line.startswith("cpu ") else []
    return (sum(ticks) - sum(ticks[3:5])) / TICKS_PER_SECOND if len(ticks) >= 5 else None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text.strip()) else None
