"""How the daemon reaches the board's files and processes, which depends on the kind of sandbox."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

EMULATOR = b"/system/emulator/qemu-"
PROGRAM_WORD = 7
"""Index of the program in the command line by which the sandbox starts qemu."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """A shell that runs, and the descriptor from which all that is written to its output is read."""

    process: subprocess.Popen[bytes]
    output: int


class View(Protocol):
    """The board as its daemon sees it."""

    @property
    def kind(self) -> str:
        """The sandbox's name."""

    @property
    def memory_file(self) -> Path:
        """The file that programs on the board read as /proc/meminfo."""

    @property
    def paging_file(self) -> Path:
        """The same for /proc/vmstat, where the board has one of its own."""

    def to_host(self, path: str) -> Path:
        """Where a path of the board lies for this process."""

    def run_shell(self, line: bytes, environment: dict[str, str]) -> Started:
        """Starts ``/bin/sh -c LINE`` as the leader of a session, in folder /.

        Standard output and error are one pipe; standard input is the read end of the same pipe, as with hdcd.
        Raises OSError.
        """

    def run_terminal(self, end: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Starts an interactive shell whose controlling terminal is `end`. Raises OSError."""

    def terminate(self, shell: subprocess.Popen[bytes], number: int) -> None:
        """Sends a signal to a shell that was started here, and to nothing else."""

    def programs(self) -> list[int]:
        """Processes on the board besides init and the daemon."""

    def is_running_program(self, stat: os.stat_result) -> bool:
        """Whether a file is the program of a process. The kernel refuses to overwrite those, but qemu hides them."""

    def may_write(self, place: Path) -> bool:
        """False when a place (as `to_host` gives it) is on a read-only file system, whatever the kernel says."""

    def set_read_only(self, wanted: bool) -> None:
        """Makes the disk read-only, or writable again."""


def on_terminal(end: int) -> bytes:
    """What sh runs to get a terminal: a session leader that opens one has it as its controlling terminal."""
    terminal = os.ttyname(end).encode()
    return b"exec <%b >%b 2>&1 /bin/sh -i" % (terminal, terminal)


def list_processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def is_emulator(number: int) -> bool:
    """Whether a process is a CPU emulator that runs a program of the board."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(number) / "cmdline").read_bytes().startswith(EMULATOR)
    return False


def is_program_of(processes: Iterable[int], stat: os.stat_result, to_host: Callable[[str], Path]) -> bool:
    """Whether one of the processes runs the file, by itself or under qemu."""
    for number in processes:
        folder = Path("/proc") / str(number)
        with contextlib.suppress(OSError, IndexError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            emulated = words[0].startswith(EMULATOR)
            named = os.fsdecode(words[PROGRAM_WORD] if emulated else words[0])
            # Under proot the link to the program leads to proot's own loader; then the name has to do.
            places = [to_host(named)] if emulated else [folder / "exe", *([to_host(named)] if "/" in named else [])]
            if any(_is_file(place, stat) for place in places):
                return True
    return False


def _is_file(place: Path, stat: os.stat_result) -> bool:
    try:
        found = place.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino)
