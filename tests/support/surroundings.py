"""What else runs on this computer is not seen by the tests, and nothing of theirs stays when they are over.

A run of the tests has a temporary folder, a port for hdc's server, settings' folders and a PATH of its own; so has each
worker of pytest-xdist. All processes below inherit the variable `RUN`, by which they are found.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.emulated import free_port
from tests.support.waiting import wait_until

PORT = "OHOS_HDC_SERVER_PORT"
RUN = "TESTS_RUN_IN"
"""Variable: the folder of the whole run."""
USERS_FOLDER, USERS_PORT = "TESTS_USERS_TMPDIR", "TESTS_USERS_PORT"
"""Variables: the temporary folder and the port of hdc's server as the user has them."""
OURS = "ohforge-*"
"""The names that ohforge gives to its temporary folders."""
PATIENCE_SECONDS = 10.0


def users_server() -> dict[str, str]:
    """The variables that lead to the hdc server which the user has: only for a real hdc that was named."""
    return {"TMPDIR": os.environ[USERS_FOLDER], PORT: os.environ[USERS_PORT]}


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Those of one process of pytest."""

    folder: Path
    first: bool
    """Whether this is the process that was started by the user, and no worker of it."""

    @classmethod
    def enter(cls) -> Surroundings:
        """Makes them, and moves this process there."""
        first = RUN not in os.environ
        if first:
            os.environ[USERS_FOLDER] = os.environ.get("TMPDIR") or "/tmp"
            os.environ[USERS_PORT] = os.environ.get(PORT) or "8710"
            # pytest's own folders stay where they are looked for when a test has failed.
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", os.environ[USERS_FOLDER])
        # Short, because the address of a socket has room for 107 bytes.
        folder = Path(tempfile.mkdtemp(prefix="t-", dir=os.environ.get(RUN) or os.environ[USERS_FOLDER]))
        if first:
            os.environ[RUN] = str(folder)
            os.environ["PATH"] = path_without("hdc", folder)
        os.environ[PORT] = str(free_port())
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        for variable, name in (("DATA_DIR", "data"), ("CACHE_DIR", "cache"), ("LEASE_DIR", "leases")):
            os.environ[f"OHFORGE_{variable}"] = str(folder / name)
        return cls(folder=folder, first=first)

    def folder_for_test(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="", dir=self.folder))

    def what_is_left(self) -> list[str]:
        """What of the run is still there, after it had time to go; processes are ended."""
        with contextlib.suppress(AssertionError):
            wait_until("the end of the run", lambda: not self._left(), PATIENCE_SECONDS, pause=0.1)
        left = self._left()
        for process in _processes_of(os.environ[RUN]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return left

    def _left(self) -> list[str]:
        # The user's own temporary folder is not looked at: others may use ohforge meanwhile.
        folders = [str(path) for folder in (self.folder, *self.folder.glob("t-*")) for path in folder.glob(OURS)]
        return folders + [f"process {number}: {line}" for number, line in _processes_of(os.environ[RUN]).items()]

    def leave(self) -> None:
        """Removes everything, when the last worker has ended."""
        if self.first:
            shutil.rmtree(self.folder, ignore_errors=True)


def path_without(program: str, folder: Path) -> str:
    """PATH, in which folders that have the program are replaced by folders of links to everything else there."""
    found = []
    for at, place in enumerate(os.environ.get("PATH", "").split(os.pathsep)):
        if not (Path(place) / program).exists():
            found.append(place)
            continue
        others = folder / f"path-{at}"
        others.mkdir()
        for path in Path(place).iterdir():
            if path.name != program:
                (others / path.name).symlink_to(path)
        found.append(str(others))
    return os.pathsep.join(found)


def _processes_of(run: str) -> dict[int, str]:
    """Processes that were started below this one in the run, zombies left out, with their command lines."""
    mark = f"\0{RUN}={run}\0".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in b"\0" + (folder / "environ").read_bytes():
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if line:
                    found[int(folder.name)] = line[:200]
    return found
