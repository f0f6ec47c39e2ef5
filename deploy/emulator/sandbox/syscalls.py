"""The few Linux calls that the sandbox needs and that Python 3.11 does not offer."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterable
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

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
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_CAPABILITY_VERSION = 0x20080522
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def enter_pid_namespace(descriptor: int) -> None:
    """Children that this thread starts from now on are in that namespace; the thread itself stays where it is."""
    _check(_libc.setns(descriptor, CLONE_NEWPID), "setns")


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


def hide_process() -> None:
    """Closes this process's memory, environment and descriptors in /proc to all without rights over its first user."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def keep_capabilities(kept: Iterable[int]) -> None:
    """Takes all other capabilities from this thread and from what it will start, for ever."""
    wanted, number = set(kept), 0
    while _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) >= 0:
        if number not in wanted:
            _check(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), "prctl")
        number += 1
    mask = sum(1 << number for number in wanted)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable, first of the lower 32, then of the others.
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)), "capset")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
