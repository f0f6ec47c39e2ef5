"""The sandbox made of Linux namespaces, which is taken wherever the kernel allows it.

In namespaces the board has its own users, mounts, processes, network and host name; its root is a tmpfs, `/data` is
the board's folder; ARM programs are started through a binfmt_misc of its own, so nothing of this machine changes.

The daemon has the board's root, but its processes are not the board's: programs live in a namespace of processes
within the daemon's, from where nothing outside can be seen, and are confined further (`confinement`). So what the
daemon holds of this machine, descriptors, memory and environment, has no name on the board.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from core.errors import HostUnsupported
from deploy.emulator.sandbox import syscalls as sys
from deploy.emulator.sandbox.binfmt import register_emulators
from deploy.emulator.sandbox.confinement import confine
from deploy.emulator.sandbox.plan import Plan
from deploy.emulator.sandbox.rootfs import BOOT, DAEMON_SHOWN, DISK_FOLDERS, INIT, boot_text, lay_out
from deploy.emulator.sandbox.views import Started, is_program_of, list_processes, on_terminal

ROOT_BYTES = 512 * 1024 * 1024
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
NAMESPACES = (
    sys.CLONE_NEWUSER | sys.CLONE_NEWPID | sys.CLONE_NEWUTS | sys.CLONE_NEWIPC | sys.CLONE_NEWCGROUP | sys.CLONE_NEWNET
)
READ_ONLY_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs")
HIDDEN_PROC = (
    *("kcore", "keys", "key-users", "kmsg", "kallsyms", "modules", "timer_list", "sched_debug", "latency_stats"),
    *("kpagecount", "kpageflags", "kpagecgroup", "vmallocinfo", "slabinfo", "pagetypeinfo", "iomem", "ioports"),
    *("config.gz", "acpi", "scsi", "asound", "driver", "mtrr"),
)
"""What tells of this machine's kernel and hardware: empty on the board."""
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1


def leave_host(*, network: bool) -> None:
    """Puts this process (which must have one thread) into namespaces of its own; the next child is process 1 there.

    With `network` it keeps this machine's network. Raises HostUnsupported saying what forbids it.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        sys.unshare(NAMESPACES & ~sys.CLONE_NEWNET if network else NAMESPACES)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except OSError as error:
        raise HostUnsupported(f"User namespaces are forbidden here ({error}).", remedy=_who_forbids()) from error


def build_sandbox(plan: Plan, folder: int) -> NamespaceView:
    """Mounts the board's root and moves into it; to be called by process 1 of the namespaces.

    `folder` is a descriptor of the board's folder, which becomes the working directory: no path leads there from the
    new root. Raises HostUnsupported naming the step that the kernel refused.
    """
    root = plan.mount_point
    try:
        # Not before this: pivot_root would also move the keeper, if it had the same mounts.
        sys.unshare(sys.CLONE_NEWNS)
        sys.mount("none", "/", flags=sys.MS_REC | sys.MS_PRIVATE)
        sys.mount("tmpfs", str(root), "tmpfs", sys.MS_NODEV | sys.MS_NOSUID, f"mode=755,size={ROOT_BYTES}")
        for name, mode in (("tmp", "1777"), ("sys", "755")):
            (root / name).mkdir()
            sys.mount("tmpfs", str(root / name), "tmpfs", sys.MS_NOSUID | sys.MS_NODEV, f"mode={mode}")
        lay_out(root, plan.files, plan.tools, plan.libraries)
        for path in plan.read_only:
            sys.mount(str(root / path), str(root / path), flags=sys.MS_BIND)
            flags = sys.MS_BIND | sys.MS_REMOUNT | sys.MS_RDONLY | sys.MS_NOSUID | sys.MS_NODEV
            sys.mount("none", str(root / path), flags=flags)
        _mount_disk(root, plan)
        _mount_devices(root)
        sys.hide_process()
        inside = Inside.start(root / "proc")
        register_emulators(root, plan.tools, plan.arches, plan.registered)
        _shut_proc(root)
        _show_proc(root, plan.files.proc)
        if not plan.network:
            _bring_up_loopback()
        sys.set_host_name(plan.host_name)
        _enter(root)
        os.fchdir(folder)
        shown = inside.run_daemon_shown()
    except OSError as error:
        remedy = _who_forbids() if error.errno in (errno.EPERM, errno.EACCES) else ""
        raise HostUnsupported(f"The kernel refused to build the emulated board: {error}.", remedy=remedy) from error
    return NamespaceView(inside=inside, shown=shown)


@dataclass(frozen=True, kw_only=True)
class Inside:
    """The namespace of the board's own processes, as descriptors: that one, and the one around it."""

    inner: int
    outer: int

    @classmethod
    def start(cls, proc: Path) -> Inside:
        """Makes the namespace with its process 1, and mounts its /proc. Raises OSError."""
        outer = os.open("/proc/self/ns/pid", os.O_RDONLY)
        reader, writer = os.pipe()
        sys.unshare(sys.CLONE_NEWPID)
        if os.fork() == 0:
            os.close(reader)
            _run_child(lambda: _be_init(proc, writer))
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            # It ends when init has mounted /proc and become the board's own program.
            if refused := answer.read():
                raise OSError(int(refused), os.strerror(int(refused)), str(proc))
        inside = cls(inner=os.open("/proc/self/ns/pid_for_children", os.O_RDONLY), outer=outer)
        sys.enter_pid_namespace(outer)
        return inside

    def run_daemon_shown(self) -> int:
        """Starts what the board's own programs see of the daemon, whose process is out of their sight; returns when they do."""
        answer, writer = os.pipe()
        shown = self._fork(lambda: _be_daemon_shown(writer))
        os.close(writer)
        with os.fdopen(answer, "rb") as said:
            said.readline()
        return shown

    def end_programs(self) -> None:
        """Kills all processes of the board but its process 1."""
        os.waitpid(self._fork(lambda: os.kill(-1, signal.SIGKILL)), 0)

    def _fork(self, act: Callable[[], object]) -> int:
        sys.enter_pid_namespace(self.inner)
        child = os.fork()
        if child == 0:
            _run_child(act)
        sys.enter_pid_namespace(self.outer)
        return child


def _run_child(act: Callable[[], object]) -> NoReturn:
    try:
        act()
    finally:
        os._exit(0)


def _be_init(proc: Path, writer: int) -> None:
    try:
        sys.mount("proc", str(proc), "proc", sys.MS_NOSUID | sys.MS_NODEV | sys.MS_NOEXEC)
        # Who ignores this has no dead children to wait for, and execve keeps it.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        _become(INIT, ["sleep", str(2**31 - 1)], proc.parent)
    except OSError as error:
        os.write(writer, str(error.errno).encode())


def _be_daemon_shown(started: int) -> None:
    """A shell that says a line to `started`, then waits for what never comes: toybox cannot have the daemon's name."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    os.write(writer, b"echo\n")
    _become(DAEMON_SHOWN, ["/system/bin/hdcd"], Path("/"), stdin=reader, stdout=started)


def _become(program: str, words: list[str], root: Path, *, stdin: int | None = None, stdout: int | None = None) -> None:
    """Replaces this process by a program of the board that only waits, and has nothing of this machine."""
    os.chdir(root)
    nothing = os.open("dev/null", os.O_RDWR)
    for number, source in enumerate((stdin, stdout, None)):
        os.dup2(nothing if source is None else source, number)
    confine()
    os.execve(program, words, {})  # noqa: S606


def _who_forbids() -> str:
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        return "Allow them with: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)."
    for name, wanted in (("kernel.unprivileged_userns_clone", "1"), ("user.max_user_namespaces", "15000")):
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.exists() and path.read_text().strip() == "0":
            return f"Allow them with: sudo sysctl {name}={wanted}."
    return "In a container start it with --security-opt seccomp=unconfined."


def _mount_devices(root: Path) -> None:
    for name in DEVICES:
        source, target = Path("/dev") / name, root / "dev" / name
        target.touch()
        sys.mount(str(source), str(target), flags=sys.MS_BIND)
        # They are this machine's own: as root one could change their modes. Writing to a device needs no more than this.
        flags = sys.MS_RDONLY | sys.MS_NOSUID | sys.MS_NOEXEC | sys.inherited_flags(source)
        sys.mount("none", str(target), flags=sys.MS_BIND | sys.MS_REMOUNT | flags)
    for name in ("shm", "pts"):
        (root / "dev" / name).mkdir()
    sys.mount("tmpfs", str(root / "dev/shm"), "tmpfs", sys.MS_NOSUID | sys.MS_NODEV, "mode=1777")
    sys.mount(
        "devpts", str(root / "dev/pts"), "devpts", sys.MS_NOSUID | sys.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"
    )
    (root / "dev/ptmx").symlink_to("pts/ptmx")
    (root / "dev/fd").symlink_to("/proc/self/fd")


def _show_proc(root: Path, names: Iterable[str]) -> None:
    for name in names:
        sys.mount(str(root / "system/emulator/proc" / name), str(root / "proc" / name), flags=sys.MS_BIND)


def _shut_proc(root: Path) -> None:
    """Not before the board's binfmt_misc is there, which this covers, and which goes on to work unseen."""
    flags = sys.MS_RDONLY | sys.MS_NOSUID | sys.MS_NODEV | sys.MS_NOEXEC
    for name in READ_ONLY_PROC:
        place = root / "proc" / name
        if place.exists():
            sys.mount(str(place), str(place), flags=sys.MS_BIND)
            sys.mount("none", str(place), flags=sys.MS_BIND | sys.MS_REMOUNT | flags)
    for name in HIDDEN_PROC:
        place = root / "proc" / name
        if place.is_dir():
            sys.mount("tmpfs", str(place), "tmpfs", flags, "size=4k")
        elif place.exists():
            sys.mount(str(root / "dev/null"), str(place), flags=sys.MS_BIND)


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _mount_disk(root: Path, plan: Plan) -> None:
    target = str(root / "data")
    if plan.disk_bytes is not None:
        sys.mount("tmpfs", target, "tmpfs", sys.MS_NOSUID | sys.MS_NODEV, f"mode=771,size={plan.disk_bytes}")
    else:
        locked = sys.inherited_flags(plan.disk)
        if locked & sys.MS_NOEXEC:
            raise HostUnsupported(
                f"{plan.disk} lies on a file system that forbids programs (mount option noexec).",
                remedy="Move the boards with OHFORGE_EMULATOR_HOME to a file system that allows them.",
            )
        sys.mount(str(plan.disk), target, flags=sys.MS_BIND)
        sys.mount("none", target, flags=sys.MS_BIND | sys.MS_REMOUNT | sys.MS_NOSUID | sys.MS_NODEV | locked)
    for folder in DISK_FOLDERS:
        (root / "data" / folder).mkdir(parents=True, exist_ok=True)


def _enter(root: Path) -> None:
    os.chdir(root)
    old = root / "mnt"
    sys.pivot_root(str(root), str(old))
    os.chdir("/")
    sys.unmount("/mnt", sys.MNT_DETACH)
    sys.mount("none", "/", flags=sys.MS_REMOUNT | sys.MS_BIND | sys.MS_RDONLY | sys.MS_NOSUID | sys.MS_NODEV)


class NamespaceView:
    """In namespaces the daemon has the board's own root and mounts, and sees its processes in /proc."""

    kind = "namespaces"
    memory_file = Path("/proc/meminfo")
    paging_file = Path("/proc/vmstat")

    def __init__(self, inside: Inside, shown: int) -> None:
        self._inside = inside
        self.shown = shown
        """The process that programs on the board see as their daemon."""
        # Namespace, capabilities and refused calls belong to a thread: one thread starts all programs.
        self._starter = ThreadPoolExecutor(max_workers=1, initializer=self._move_in)

    def restart(self) -> None:
        """Kills all programs, as a reboot does, which the board can tell afterwards."""
        self._inside.end_programs()
        Path("/proc", BOOT).write_text(boot_text())

    def show_daemon(self) -> None:
        """Shows the board's programs a daemon that was started anew; to be called by the parent of the one before."""
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.shown, os.WNOHANG)[0] == 0:
                os.kill(self.shown, signal.SIGKILL)
                os.waitpid(self.shown, 0)
        self.shown = self._inside.run_daemon_shown()

    def _move_in(self) -> None:
        sys.enter_pid_namespace(self._inside.inner)
        confine()

    def to_host(self, path: str) -> Path:
        return Path(path)

    def run_shell(self, line: bytes, environment: dict[str, str]) -> Started:
        reader, writer = os.pipe()
        try:
            process = self._start([b"/bin/sh", b"-c", line], reader, writer, environment)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return Started(process=process, output=reader)

    def run_terminal(self, end: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        return self._start([b"/bin/sh", b"-c", on_terminal(end)], end, end, environment)

    def terminate(self, shell: subprocess.Popen[bytes], number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(shell.pid, number)

    def programs(self) -> list[int]:
        return [number for number in list_processes() if not self._only_waits(number)]

    def _only_waits(self, number: int) -> bool:
        try:
            return str(Path(f"/proc/{number}/exe").readlink())[1:] in (INIT, DAEMON_SHOWN)
        except OSError:
            return False  # Dead, but not yet waited for.

    def is_running_program(self, stat: os.stat_result) -> bool:
        return is_program_of(self.programs(), stat, self.to_host)

    def may_write(self, place: Path) -> bool:
        return True

    def set_read_only(self, wanted: bool) -> None:
        shown = os.statvfs("/data").f_flag
        if bool(shown & os.ST_RDONLY) == wanted:
            return
        flags = sys.MS_BIND | sys.MS_REMOUNT | sys.inherited_flags(Path("/data"))
        # A file that is open for writing keeps the disk writable; then the daemon's own refusal has to do.
        with contextlib.suppress(OSError):
            sys.mount("none", "/data", flags=flags | (sys.MS_RDONLY if wanted else 0))

    def _start(
        self, argv: list[bytes], stdin: int, stdout: int, environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        return self._starter.submit(
            subprocess.Popen,
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stdout,
            cwd="/",
            env=environment,
            start_new_session=True,
        ).result()
