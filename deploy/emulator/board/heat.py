"""A board that becomes hot: played, since nothing here can become as hot as a board."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from deploy.board.profiles import Emulation
from deploy.emulator.sandbox.views import View

PERIOD_SECONDS = 0.1
REST_SECONDS = 1.0
"""After the last program, in which nothing cools yet."""
STEP_MILLIDEGREES = 6000
POLICY = "/sys/devices/system/cpu/cpufreq/policy0"
ZONES = "/sys/class/thermal"
COOLING = f"{ZONES}/cooling_device0"


@dataclass(frozen=True, kw_only=True)
class Heat:
    """Lowers the highest clock by one of its steps after each so many seconds in which programs run, and raises it again
    by one after as many in which none does; temperatures go with it.
    """

    view: View
    shown: Emulation
    seconds: float

    def begin(self) -> None:
        """Starts to, for as long as this process lives."""
        most = len(self.shown.frequencies_khz) - 1
        folder = self.view.to_host(COOLING)
        folder.mkdir(exist_ok=True)
        for name, text in (("type", "thermal-cpufreq-0"), ("max_state", str(most)), ("cur_state", "0")):
            (folder / name).write_text(f"{text}\n")
        threading.Thread(target=self._run, args=(most,), daemon=True).start()

    def _run(self, most: int) -> None:
        heat, shown = 0.0, 0
        last = worked = time.monotonic()
        pause = threading.Event()
        while not pause.wait(PERIOD_SECONDS):
            now = time.monotonic()
            if self.view.programs():
                heat, worked = heat + (now - last) / self.seconds, now
            elif now - worked > REST_SECONDS:
                heat -= (now - last) / self.seconds
            heat, last = min(max(heat, 0.0), float(most)), now
            if int(heat) != shown:
                shown = int(heat)
                self._show(shown)

    def _show(self, step: int) -> None:
        clock = self.shown.frequencies_khz[-1 - step]
        values = {
            **{f"{POLICY}/{name}": clock for name in ("scaling_max_freq", "scaling_cur_freq", "cpuinfo_cur_freq")},
            **{
                f"{ZONES}/thermal_zone{number}/temp": start + step * STEP_MILLIDEGREES
                for number, start in enumerate(self.shown.thermal_zones.values())
            },
            f"{COOLING}/cur_state": step,
        }
        for path, value in values.items():
            with contextlib.suppress(OSError):
                _overwrite(self.view.to_host(path), value)


def _overwrite(place: Path, value: int) -> None:
    """Without a moment in which the file is empty: whoever samples it keeps it open."""
    file = os.open(place, os.O_WRONLY)
    try:
        os.pwrite(file, f"{value}\n".ljust(16, "\n").encode(), 0)
    finally:
        os.close(file)
