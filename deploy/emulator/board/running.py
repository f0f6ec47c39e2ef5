"""The emulated board while it runs, as its daemon knows it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.board.profiles import Emulation
from deploy.emulator.board.boards import EmulatedBoard
from deploy.emulator.board.faults import PROGRAM_FAULTS, FaultFile
from deploy.emulator.board.injector import Injector
from deploy.emulator.protocol.releases import Release, find_release
from deploy.emulator.sandbox.rootfs import BOARD_LOG, PARAMETERS_SET, PROGRAM_FAULTS_FILE
from deploy.emulator.sandbox.views import Started, View


@dataclass(frozen=True, kw_only=True)
class RunningBoard:
    """A board that is up; `view` is how its sandbox shows it."""

    settings: EmulatedBoard
    shown: Emulation
    folder: Path
    """The board's folder under a name that is also valid inside the sandbox."""
    view: View

    @property
    def release(self) -> Release:
        return find_release(self.settings.version)

    @property
    def faults(self) -> FaultFile:
        return FaultFile(folder=self.folder)

    def run_shell(self, line: bytes) -> Started:
        """Starts ``/bin/sh -c LINE`` on the board. Raises OSError."""
        return self.view.run_shell(line, self._environment)

    def run_terminal(self, end: int) -> subprocess.Popen[bytes]:
        """Starts an interactive shell on a terminal of the board. Raises OSError."""
        return self.view.run_terminal(end, self._environment)

    def parameter(self, name: str) -> str:
        """A system parameter: as a program of the board has set it, or as the image has it; empty without one."""
        with contextlib.suppress(OSError):
            for line in self.to_host(PARAMETERS_SET).read_text(errors="replace").splitlines():
                key, _, value = line.partition(" = ")
                if key == name:
                    return value
        return self.shown.parameters.get(name, "")

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.shown.environment, "COLUMNS": "80", "OHFORGE_BOARD_LOG": BOARD_LOG}

    def spoil_programs(self, faults: Injector) -> None:
        """Gives the programs of a command their faults, which the scripts that start qemu read from a file."""
        used = {name: fault for name in PROGRAM_FAULTS if (fault := faults.use(name)) is not None}
        lines = [f"_{name.replace('-', '_')}={fault.get('bytes', 1):.0f}\n" for name, fault in used.items()]
        file = self.to_host(PROGRAM_FAULTS_FILE)
        with contextlib.suppress(OSError):
            if lines:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("".join(lines))
            else:
                file.unlink(missing_ok=True)

    def to_host(self, path: str) -> Path:
        """Where a path of the board lies for this process; one without a folder lies in the root."""
        return self.view.to_host(path if path.startswith("/") else f"/{path}")

    def is_running_program(self, stat: os.stat_result) -> bool:
        """Whether a file is the program of a process on the board, which makes it "busy"."""
        return self.view.is_running_program(stat)
