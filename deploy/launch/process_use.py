"""What a running program has used so far, as the kernel counts it (``filesystems/proc.rst`` of its documentation)."""

from __future__ import annotations

import re
from dataclasses import dataclass

MINFLT, MAJFLT = 7, 9
"""Page faults in ``/proc/PID/stat``: fields 10 and 12, counted here from the third, which follows the name."""


@dataclass(frozen=True, kw_only=True)
class ProcessUse:
    """Counters of one process since its start. None: the board does not tell."""

    resident_bytes: int | None
    peak_bytes: int | None
    """The most that were resident at once (``VmHWM``)."""
    minor_faults: int | None
    major_faults: int | None
    read_bytes: int | None
    """From storage, page faults included."""


def parse_use(text: str) -> ProcessUse | None:
    """Understands what ``templates/board/marked.sh.j2`` prints; of several processes the largest. None: there is none."""
    found = [_parse_one(part) for part in text.split("@@process ")[1:]]
    return max(found, key=lambda use: use.peak_bytes or 0, default=None)


def _parse_one(text: str) -> ProcessUse:
    kib = {name: int(number) * 1024 for name, number in re.findall(r"^(Vm\w+):\s+(\d+) kB", text, re.MULTILINE)}
    read = re.search(r"^read_bytes: (\d+)", text, re.MULTILINE)
    stat = re.search(r"^stat: (.*)", text, re.MULTILINE)
    fields = stat[1].split() if stat else []
    return ProcessUse(
        resident_bytes=kib.get("VmRSS"),
        peak_bytes=kib.get("VmHWM"),
        minor_faults=int(fields[MINFLT]) if len(fields) > MAJFLT else None,
        major_faults=int(fields[MAJFLT]) if len(fields) > MAJFLT else None,
        read_bytes=int(read[1]) if read else None,
    )
