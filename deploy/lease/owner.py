"""Who holds a lease, told so that any process of this computer can see whether the holder still lives."""

from __future__ import annotations

import os
import pwd
import socket
import time
from dataclasses import dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
START_FIELD = 19
"""Place of ``starttime`` after the command's name in ``/proc/PID/stat`` (proc(5): field 22)."""


ENDED = ("Z", "X")
"""States of a process that has ended, but whose parent has not looked yet."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A user, and one process of that user unless `pid` is 0."""

    user: str
    uid: int
    host: str
    pid: int
    started: int
    """Clock ticks between the kernel's start and the process's; 0 when that cannot be read."""
    boot: str
    """Which start of the kernel the process numbers and `steady_time` belong to."""
    namespace: str
    """Which numbering of processes `pid` belongs to: containers have their own."""

    def describe(self) -> str:
        """The owner in a sentence."""
        return f"{self.user} (process {self.pid} on {self.host})" if self.pid else f"{self.user} (on {self.host})"

    def is_me(self) -> bool:
        """Whether it is this very process."""
        mine = current_owner()
        # Not by the host's name, which may change in the middle.
        return self.pid != 0 and all(
            getattr(self, name) == getattr(mine, name) for name in ("pid", "started", "boot", "namespace")
        )

    def is_dead(self) -> bool:
        """True when the process is certainly gone; False when it lives or cannot be seen from here."""
        if self.host == socket.gethostname() and self.boot != boot_id():
            return True
        if self.boot != boot_id() or self.namespace != _namespace() or not self.pid:
            return False
        started = start_time(self.pid)
        if started:
            return self.started not in (0, started)
        return not _exists(self.pid)


def current_owner() -> Owner:
    """This process."""
    return Owner(
        user=_user_name(),
        uid=os.getuid(),
        host=socket.gethostname(),
        pid=os.getpid(),
        started=start_time(os.getpid()),
        boot=boot_id(),
        namespace=_namespace(),
    )


def current_user() -> Owner:
    """The user of this process, for a lease that outlives it."""
    return Owner(
        user=_user_name(),
        uid=os.getuid(),
        host=socket.gethostname(),
        pid=0,
        started=0,
        boot=boot_id(),
        namespace=_namespace(),
    )


def steady_time() -> float:
    """Seconds since the kernel's start: the same for all processes, goes on while the computer sleeps, never jumps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_id() -> str:
    """Differs after every start of the kernel; empty where the kernel does not tell."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def start_time(pid: int) -> int:
    """When a process was started, in clock ticks since the kernel's start; 0 when it cannot be seen."""
    try:
        # The command's name may hold blanks and brackets itself.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(words[START_FIELD]) if words[0] not in ENDED else 0
    except (OSError, ValueError, IndexError):
        return 0


def _exists(pid: int) -> bool:
    """Whether there is such a process although its start cannot be seen: one of another user, or no Linux."""
    if Path("/proc/self/stat").exists() and Path(f"/proc/{pid}").exists():
        return False  # start_time has seen that it has ended.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _user_name() -> str:
    # Not from the environment, which su and sudo leave as it was.
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
