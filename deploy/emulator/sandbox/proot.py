"""The sandbox for machines that forbid namespaces: proot, which needs no privilege.

It has the same root and the same disk, but shows the processes of this machine, runs programs of this
machine's own CPU, and cannot make the disk read-only.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from core.errors import HostToolMissing, HostUnsupported
from core.files import remove_tree
from deploy.emulator.sandbox.plan import Plan
from deploy.emulator.sandbox.rootfs import DISK_FOLDERS, lay_out
from deploy.emulator.sandbox.views import Started, is_program_of, list_processes, on_terminal

START_SECONDS = 20.0
MOST_LINKS = 40


def build_sandbox(plan: Plan) -> ProotView:
    """Writes the board's root into a folder. Raises HostToolMissing without proot, HostUnsupported when it fails."""
    program = shutil.which("proot")
    if program is None:
        raise HostToolMissing(
            "The program 'proot' is not on this machine.", remedy="Install it: sudo apt install proot."
        )
    if plan.read_only:
        raise HostUnsupported("Without namespaces nothing keeps a program from changing the board's files.", remedy="")
    root = plan.mount_point.with_name("proot-root")
    remove_tree(root)
    root.mkdir()
    lay_out(root, plan.files, plan.tools, plan.libraries)
    (root / "system/emulator/io").mkdir()
    for folder in DISK_FOLDERS:
        (plan.disk / folder).mkdir(parents=True, exist_ok=True)
    view = ProotView(
        program=program, root=root, disk=plan.disk, shell=str(plan.tools.shell), proc=tuple(plan.files.proc)
    )
    _probe(view)
    return view


@dataclass(frozen=True, kw_only=True)
class ProotView:
    """The board as its daemon sees it from outside of proot."""

    program: str
    root: Path
    disk: Path
    shell: str
    proc: tuple[str, ...]
    kind: str = "proot"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def memory_file(self) -> Path:
        return self.root / "system/emulator/proc/meminfo"

    @property
    def paging_file(self) -> Path:
        return self.root / "system/emulator/proc/vmstat"

    def to_host(self, path: str) -> Path:
        """Follows the links of the board as the board would."""
        left = list(PurePosixPath("/", path).parts[1:])
        here: list[str] = []
        links = 0
        while left:
            part = left.pop(0)
            if part == "..":
                here = here[:-1]
                continue
            place = self._place([*here, part])
            if not place.is_symlink() or links > MOST_LINKS:
                here.append(part)
                continue
            links += 1
            target = PurePosixPath(place.readlink())
            here = [] if target.is_absolute() else here
            left = [*(part for part in target.parts if part != "/"), *left]
        return self._place(here)

    def run_shell(self, line: bytes, environment: dict[str, str]) -> Started:
        # proot keeps its own standard output open for as long as any program lives, so the board's programs must
        # have another one: a named pipe, which the shell opens itself and of which it then tells by one byte.
        name = f"system/emulator/io/{next(self._numbers)}"
        pipe = self.root / name
        os.mkfifo(pipe)
        try:
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            writer = os.open(pipe, os.O_WRONLY)
            script = f'exec </{name} >/{name} 2>&1; echo; exec /bin/sh -c "$1"'.encode()
            try:
                process = self._start([b"/system/emulator/sh", b"-c", script, b"sh", line], environment)
                _wait_for_byte(reader, process)
            except BaseException:
                os.close(reader)
                raise
            finally:
                os.close(writer)
        finally:
            pipe.unlink()
        os.set_blocking(reader, True)
        return Started(process=process, output=reader)

    def run_terminal(self, end: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        # proot holds the terminal open until the shell has opened it for itself.
        return self._start([b"/bin/sh", b"-c", on_terminal(end)], environment, end)

    def terminate(self, shell: subprocess.Popen[bytes], number: int) -> None:
        for child in children_of(shell.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    def programs(self) -> list[int]:
        return [number for number in descendants_of(os.getppid()) if number != os.getpid()]

    def is_running_program(self, stat: os.stat_result) -> bool:
        return is_program_of(self.programs(), stat, self.to_host)

    def may_write(self, place: Path) -> bool:
        """The board's root is read-only, which the folder that stands for it is not."""
        return any(place.is_relative_to(folder) for folder in (self.disk, self.root / "tmp", Path("/dev")))

    def set_read_only(self, wanted: bool) -> None:
        """proot has no mounts of its own; the daemon refuses by itself."""

    def _place(self, parts: list[str]) -> Path:
        return self.disk.joinpath(*parts[1:]) if parts[:1] == ["data"] else self.root.joinpath(*parts)

    def _start(
        self, argv: list[bytes], environment: dict[str, str], terminal: int | None = None
    ) -> subprocess.Popen[bytes]:
        binds = [f"{self.root}/system/emulator/proc/{name}:/proc/{name}" for name in self.proc]
        options = [word for bind in ("/dev", "/proc", *binds, f"{self.disk}:/data") for word in ("-b", bind)]
        emulator = f"{self.shell} /system/emulator/run-foreign"
        return subprocess.Popen(
            [self.program, "-r", self.root, *options, "-0", "-w", "/", "-q", emulator, "/bin/setsid", *argv],
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            start_new_session=True,
        )


def _wait_for_byte(reader: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if select.select([reader], [], [], 0.1)[0]:
            os.read(reader, 1)
            return
        if process.poll() is not None:
            raise OSError(f"proot ended with status {process.returncode}")
    process.kill()
    raise OSError(f"proot did not start a shell within {START_SECONDS:g} s")


def _probe(view: ProotView) -> None:
    try:
        started = view.run_shell(b"echo up", {})
    except OSError as error:
        raise HostUnsupported(
            f"proot does not work here either: {error}.",
            remedy="It needs ptrace: in a container add --cap-add SYS_PTRACE.",
        ) from error
    os.close(started.output)
    started.process.wait(timeout=START_SECONDS)


def children_of(number: int) -> list[int]:
    """Processes whose parent is that one."""
    return [process for process in list_processes() if _parent_of(process) == number]


def descendants_of(number: int) -> list[int]:
    """All processes below that one."""
    parents = {process: _parent_of(process) for process in list_processes()}
    found = [number]
    for each in found:
        found += [process for process, parent in parents.items() if parent == each]
    return found[1:]


def end_descendants(spare: int = 0) -> None:
    """Kills all processes below this one, which must be the one to which orphans are handed."""
    while left := [number for number in descendants_of(os.getpid()) if number != spare]:
        for number in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def _parent_of(number: int) -> int:
    try:
        return int((Path("/proc") / str(number) / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return -1
