"""The few Linux calls that the sandbox needs and that Python 3.11 does not offer."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError naming the target."""
    _check(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() or None,
            ctypes.c_ulong(flags),
            data.encode() or None,
        ),
        target,
    )


def inherited_flags(path: Path) -> int:
    """Mount flags of the file system of `path`, which a user namespace may not drop."""
    shown = os.statvfs(path).f_flag
    table = {os.ST_NOSUID: MS_NOSUID, os.ST_NODEV: MS_NODEV, os.ST_NOEXEC: MS_NOEXEC, os.ST_NOATIME: MS_NOATIME}
    return sum(flag for bit, flag in table.items() if shown & bit)


def unmount(target: str, flags: int = 0) -> None:
    _check(_libc.umount2(os.fsencode(target), flags), target)


def pivot_root(new_root: str, put_old: str) -> None:
    call = _PIVOT_ROOT[platform.machine()]
    _check(_libc.syscall(call, os.fsencode(new_root), os.fsencode(put_old)), "pivot_root")


def set_host_name(name: str) -> None:
    data = name.encode()
    _check(_libc.sethostname(data, len(data)), "sethostname")


def die_with_parent(signal_number: int) -> None:
    """The kernel sends this process the signal when its parent ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def take_orphans() -> None:
    """Makes this process the parent of all descendants whose own parent ends."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_process_name(name: str) -> None:
    """What ``ps`` shows as this process's short name."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0), "prctl")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
