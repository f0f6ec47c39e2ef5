"""The board's memory: what /proc/meminfo tells of it, and what happens when there is none left."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

from deploy.emulator.sandbox.rootfs import PAGE_KIB, memory_text, paging_text
from deploy.emulator.sandbox.views import View

PERIOD_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Watches the programs of a board with so many KiB: total, available to programs, swap.

    Swap is shown and not used, unless `swapping` is played: what programs need beyond the memory counts as swapped then.
    """

    view: View
    total: int
    available: int
    swap: int
    swapping: bool = False

    def watch(self) -> None:
        """Starts to watch, for as long as this process lives."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        shown = -1
        swapped = moved = 0
        pause = threading.Event()
        while not pause.wait(PERIOD_SECONDS):
            used = {number: _anonymous_kib(number) for number in self.view.programs()}
            total = sum(used.values())
            beyond = max(total - self.available, 0)
            if beyond > (self.swap if self.swapping else 0):
                # As the kernel of a board does: the largest goes.
                _kill(max(used, key=lambda number: used[number]))
            if total == shown:
                continue
            shown = total
            with contextlib.suppress(OSError):
                left = max(self.available - total, 0)
                free = max(self.swap - beyond, 0) if self.swapping else self.swap
                self.view.memory_file.write_text(memory_text(self.total, left, self.swap, free))
                if self.swapping:
                    moved += max(beyond - swapped, 0) // PAGE_KIB
                    swapped = beyond
                    with self.view.paging_file.open("r+") as file:
                        file.write(paging_text(moved))


def _kill(number: int) -> None:
    """By its entry in /proc, since the board's numbers are not those of this process."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        entry = os.open(f"/proc/{number}", os.O_RDONLY | os.O_DIRECTORY)
        try:
            signal.pidfd_send_signal(entry, signal.SIGKILL)
        finally:
            os.close(entry)


def _anonymous_kib(number: int) -> int:
    """Memory of a process that cannot be had back by dropping file pages, in KiB."""
    with contextlib.suppress(OSError, ValueError):
        for line in (Path("/proc") / str(number) / "status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    return 0
