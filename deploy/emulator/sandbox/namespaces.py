"""The sandbox made of Linux namespaces, which is taken wherever the kernel allows it.

In namespaces the board has its own users, mounts, processes and host name; its root is a tmpfs, `/data` is the
board's folder; ARM programs are started through a binfmt_misc of its own, so nothing of this machine changes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from core.errors import HostUnsupported
from deploy.emulator.sandbox import syscalls as sys
from deploy.emulator.sandbox.binfmt import register_emulators
from deploy.emulator.sandbox.plan import Plan
from deploy.emulator.sandbox.rootfs import DISK_FOLDERS, lay_out
from deploy.emulator.sandbox.views import Started, is_program_of, list_processes, on_terminal

ROOT_BYTES = 512 * 1024 * 1024
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
NAMESPACES = sys.CLONE_NEWUSER | sys.CLONE_NEWPID | sys.CLONE_NEWUTS | sys.CLONE_NEWIPC


def leave_host() -> None:
    """Puts this process (which must have one thread) into namespaces of its own; the next child is process 1 there.

    Raises HostUnsupported saying what forbids it.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        sys.unshare(NAMESPACES)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    except OSError as error:
        raise HostUnsupported(f"User namespaces are forbidden here ({error}).", remedy=_who_forbids()) from error


def build_sandbox(plan: Plan) -> None:
    """Mounts the board's root and moves into it; to be called by process 1 of the namespaces.

    Raises HostUnsupported naming the step that the kernel refused.
    """
    root = plan.mount_point
    try:
        # Not before this: pivot_root would also move the keeper, if it had the same mounts.
        sys.unshare(sys.CLONE_NEWNS)
        sys.mount("none", "/", flags=sys.MS_REC | sys.MS_PRIVATE)
        sys.mount("tmpfs", str(root), "tmpfs", sys.MS_NODEV | sys.MS_NOSUID, f"mode=755,size={ROOT_BYTES}")
        for folder, mode in (("tmp", "1777"), ("sys", "755")):
            (root / folder).mkdir()
            sys.mount("tmpfs", str(root / folder), "tmpfs", sys.MS_NOSUID | sys.MS_NODEV, f"mode={mode}")
        lay_out(root, plan.files, plan.tools, plan.libraries)
        _mount_disk(root, plan)
        _mount_devices(root)
        sys.mount("proc", str(root / "proc"), "proc", sys.MS_NOSUID | sys.MS_NODEV | sys.MS_NOEXEC)
        _show_proc(root, plan.files.proc)
        register_emulators(root, plan.tools, plan.arches, plan.registered)
        sys.set_host_name(plan.host_name)
        _enter(root)
    except OSError as error:
        raise HostUnsupported(f"The kernel refused to build the emulated board: {error}.") from error


def _who_forbids() -> str:
    restricted = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    if restricted.exists() and restricted.read_text().strip() == "1":
        return "Allow them with: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or install proot."
    for name, wanted in (("kernel.unprivileged_userns_clone", "1"), ("user.max_user_namespaces", "15000")):
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.exists() and path.read_text().strip() == "0":
            return f"Allow them with: sudo sysctl {name}={wanted}, or install proot."
    return "In a container start it with --security-opt seccomp=unconfined, or install proot (sudo apt install proot)."


def _mount_devices(root: Path) -> None:
    for name in DEVICES:
        _bind_file(Path("/dev") / name, root / "dev" / name)
    for name in ("shm", "pts"):
        (root / "dev" / name).mkdir()
    sys.mount("tmpfs", str(root / "dev/shm"), "tmpfs", sys.MS_NOSUID | sys.MS_NODEV, "mode=1777")
    sys.mount(
        "devpts", str(root / "dev/pts"), "devpts", sys.MS_NOSUID | sys.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"
    )
    (root / "dev/ptmx").symlink_to("pts/ptmx")
    (root / "dev/fd").symlink_to("/proc/self/fd")


def _bind_file(source: Path, target: Path) -> None:
    target.touch()
    sys.mount(str(source), str(target), flags=sys.MS_BIND)


def _show_proc(root: Path, names: Iterable[str]) -> None:
    for name in names:
        sys.mount(str(root / "system/emulator/proc" / name), str(root / "proc" / name), flags=sys.MS_BIND)


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


@dataclass(frozen=True, kw_only=True)
class NamespaceView:
    """In namespaces the daemon has the board's own root, processes and mounts."""

    kind: str = "namespaces"
    memory_file: Path = Path("/proc/meminfo")

    def to_host(self, path: str) -> Path:
        return Path(path)

    def run_shell(self, line: bytes, environment: dict[str, str]) -> Started:
        reader, writer = os.pipe()
        try:
            process = _start([b"/bin/sh", b"-c", line], reader, writer, environment)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return Started(process=process, output=reader)

    def run_terminal(self, end: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        return _start([b"/bin/sh", b"-c", on_terminal(end)], end, end, environment)

    def terminate(self, shell: subprocess.Popen[bytes], number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(shell.pid, number)

    def programs(self) -> list[int]:
        return [number for number in list_processes() if number not in (1, os.getpid())]

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


def _start(argv: list[bytes], stdin: int, stdout: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv, stdin=stdin, stdout=stdout, stderr=stdout, cwd="/", env=environment, start_new_session=True
    )
