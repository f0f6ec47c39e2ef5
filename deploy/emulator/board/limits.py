"""Real limits for the programs of an emulated board: control groups of this machine's kernel, of version 1 or 2.

What the kernel or its administrator forbids is an error: no limit is played. Formats: Documentation/admin-guide/cgroup-v1
and cgroup-v2.rst of Linux.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import HostUnsupported
from deploy.emulator.board.boards import EmulatedBoard
from deploy.emulator.sandbox.views import View, is_emulator

PERIOD_SECONDS = 0.2
STEP_BYTES = 1024 * 1024
CPU_PERIOD_US = 100_000
REMEDY = "Run as root, in a container that may write control groups, or take the limit from the board's settings."


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Open files by which the groups are used from inside the sandbox, where they have no path."""

    folders: tuple[Path, ...]
    joins: tuple[int, ...]
    memory: int
    """Bytes for programs; 0: no limit of memory."""
    memory_limit: int = -1
    memory_usage: int = -1

    def join(self) -> None:
        """Moves this process, and all that it will start, into the groups."""
        for descriptor in self.joins:
            os.write(descriptor, b"0")

    def memory_in_use(self) -> int:
        """Bytes that all processes in the groups have together; 0 where memory is not limited."""
        return int(os.pread(self.memory_usage, 32, 0)) if self.memory else 0

    def hold_memory(self, view: View, disk: Path, before: int) -> None:
        """Limits memory, but for what is not the programs': the daemon's, and that of the CPU emulators.

        To be called by the daemon once it is up; `before` is what was in use when it was not.
        """
        if self.memory:
            _forget_pages(disk)
            daemon = max(self.memory_in_use() - before, 0)
            threading.Thread(target=self._follow, args=(view, daemon), daemon=True).start()

    def remove(self) -> None:
        """Removes the groups, once their last process has ended."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _follow(self, view: View, daemon: int) -> None:
        set_to = 0
        pause = threading.Event()
        while True:
            wanted = self.memory + daemon + sum(_emulators_own_bytes(number) for number in view.programs())
            if abs(wanted - set_to) >= STEP_BYTES:
                # Lowering it fails while the kernel cannot free as much; the next round tries again.
                with contextlib.suppress(OSError):
                    self._set_memory(wanted)
                    set_to = wanted
            pause.wait(PERIOD_SECONDS)

    def _set_memory(self, size: int) -> None:
        os.pwrite(self.memory_limit, str(size).encode(), 0)


def make_limits(board: EmulatedBoard) -> Limits | None:
    """The groups for a board's limits, None when it has none; to be called before the sandbox is entered.

    Raises HostUnsupported naming the file that cannot be had or written.
    """
    wanted: list[tuple[str, Callable[[Path, bool], None]]] = []
    if board.memory_limit:
        wanted.append(("memory", _refuse_swap))
    if board.storage_rate:
        device = _device_of(board.disk)
        wanted.append(("io", lambda group, unified: _limit_storage(group, unified, device, board.storage_rate)))
    if board.cpu_quota:
        wanted.append(("cpu", lambda group, unified: _limit_cpu(group, unified, board.cpu_quota)))
    if not wanted:
        return None
    folders: list[Path] = []
    unified = True
    try:
        for controller, limit in wanted:
            parent, unified = _find_parent(controller)
            _remove_empty(parent, board.serial)
            folder = parent / f"ohforge-{board.serial}-{os.getpid()}"
            folder.mkdir(exist_ok=True)
            if folder not in folders:
                folders.append(folder)
            limit(folder, unified)
        limits = Limits(
            folders=tuple(folders),
            joins=tuple(os.open(folder / "cgroup.procs", os.O_WRONLY) for folder in folders),
            memory=board.memory_limit,
        )
        if not board.memory_limit:
            return limits
        memory, unified = folders[0], _find_parent("memory")[1]
        return Limits(
            folders=limits.folders,
            joins=limits.joins,
            memory=board.memory_limit,
            memory_limit=os.open(memory / ("memory.max" if unified else "memory.limit_in_bytes"), os.O_WRONLY),
            memory_usage=os.open(memory / ("memory.current" if unified else "memory.usage_in_bytes"), os.O_RDONLY),
        )
    except OSError as error:
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise HostUnsupported(f"This computer lets no limit be set: {error}.", remedy=REMEDY) from error


def _find_parent(controller: str) -> tuple[Path, bool]:
    """The group below which one for the board is made, and whether it is of version 2."""
    legacy = {"io": "blkio"}.get(controller, controller)
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    for path, kind, options in _mounts():
        if kind == "cgroup" and legacy in options:
            names = next(names for names in own if legacy in names.split(","))
            return path / own[names].lstrip("/"), False
    for path, kind, _ in _mounts():
        if kind == "cgroup2":
            mine = path / own[""].lstrip("/")
            # But at the root, a group with processes of its own can hand no controller on.
            parent = path if mine == path else mine.parent
            handed_on = parent / "cgroup.subtree_control"
            if controller not in handed_on.read_text().split():
                handed_on.write_text(f"+{controller}")
            return parent, True
    raise HostUnsupported(f"This computer has no control groups for {controller!r}.", remedy=REMEDY)


def _mounts() -> Iterator[tuple[Path, str, list[str]]]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, path, kind, options, *_ = line.split()
        if kind.startswith("cgroup"):
            yield Path(path), kind, options.split(",")


def _remove_empty(parent: Path, serial: str) -> None:
    """What keepers left that were killed."""
    for folder in parent.glob(f"ohforge-{serial}-*"):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _refuse_swap(group: Path, unified: bool) -> None:
    swap = group / ("memory.swap.max" if unified else "memory.swappiness")
    if swap.exists():
        swap.write_text("0")


def _limit_storage(group: Path, unified: bool, device: str, rate: int) -> None:
    if unified:
        (group / "io.max").write_text(f"{device} rbps={rate} wbps={rate}")
    else:
        for way in ("read", "write"):
            (group / f"blkio.throttle.{way}_bps_device").write_text(f"{device} {rate}")


def _limit_cpu(group: Path, unified: bool, processors: float) -> None:
    quota = round(processors * CPU_PERIOD_US)
    if unified:
        (group / "cpu.max").write_text(f"{quota} {CPU_PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))


def _device_of(folder: Path) -> str:
    """``MAJOR:MINOR`` of the disk below a folder; rates belong to whole disks."""
    number = folder.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not device.exists():
        raise HostUnsupported(
            f"{folder} lies on no block device of its own, so its rate cannot be limited.",
            remedy="Move the boards with OHFORGE_EMULATOR_HOME to a disk with ext4, XFS or the like.",
        )
    place = device.resolve()
    return (place.parent if (place / "partition").exists() else place).joinpath("dev").read_text().strip()


def _forget_pages(disk: Path) -> None:
    """Drops the file pages of the disk, which count for whoever read them before, and would be read for free."""
    # Without recursion: programs on the board decide how deep their folders are.
    folders = [str(disk)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError), Path(entry.path).open("rb") as opened:
                        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _emulators_own_bytes(number: int) -> int:
    """What a CPU emulator needs for itself: translated code, which alone may be written and executed, and its heap."""
    if not is_emulator(number):
        return 0
    own, counted = 0, False
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{number}/smaps").read_text().splitlines():
            words = line.split()
            if "-" in words[0]:
                counted = words[1].startswith("rwx") or words[-1] in ("[heap]", "[stack]")
            elif counted and words[0] == "Rss:":
                own += int(words[1]) * 1024
    return own
