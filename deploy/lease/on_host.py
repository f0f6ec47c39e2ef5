"""The file of a lease on the computer that has the board, so that all who come to the board by it know of each other.

It is the file that ohforge uses there itself. Whoever comes by SSH reads it, and writes it under the same lock (``flock``)
when it is still what was read. Its times are those of the host's clock: other computers' clocks may be wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

from core.deadline import Deadline
from core.errors import Busy, CannotWrite
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.lease.shared_file import LOCK_SECONDS, SharedFile, decode, encode

SECONDS = 30.0
CLOCKS_AGREE_SECONDS = 2
"""Below which two clocks are taken for right: the host's is read in whole seconds, over a link."""
TIMES = ("since", "until")
ANSWERS = {
    "busy": (Busy, f"another process has held it for {LOCK_SECONDS:g} s, which should take milliseconds"),
    "no flock": (CannotWrite, "there is no flock on the host (Debian package util-linux)"),
    "no file": (CannotWrite, "it is a link or no file, or may not be written there"),
}
"""What the host says when it has not written, by what becomes of it."""

WHERE = (
    "Such notes lie in /var/tmp/ohforge-leases there, or where OHFORGE_LEASE_DIR in the environment of its sshd's commands "
    "says: all who use its boards must be able to write there. See with `ssh {serial} ls -la /var/tmp/ohforge-leases`."
)


class ChangedMeanwhile(Exception):
    """The file is not what was read any more; nothing was written."""


class HostFile:
    """The file `name` in the host's folder of leases: that of its variable OHFORGE_LEASE_DIR, else the usual one."""

    def __init__(self, host: Board, name: str) -> None:
        self._host = host
        self._name = name
        self._ahead: int | None = None
        """Seconds that the host's clock is ahead of this one; one number for all, or leases would differ by noise."""

    def read(self) -> dict[str, Any]:
        """What the file holds; nothing when it is not there or damaged."""
        return self._look()[0].value

    @contextlib.contextmanager
    def change(self) -> Iterator[SharedFile]:
        """The file, which is written at the end of the block when it was changed.

        Raises ChangedMeanwhile, Busy, CannotWrite, and what `Board.shell` raises.
        """
        shared, content = self._look()
        before = json.dumps(shared.value, sort_keys=True)
        yield shared
        if json.dumps(shared.value, sort_keys=True) != before or shared.damaged:
            self._write(shared.value, content)

    def _look(self) -> tuple[SharedFile, bytes]:
        """What the file holds, and its bytes."""
        script = render_script("read_lease", file=self._name)
        answer = self._host.shell(script, deadline=self._deadline())
        clock, _, content = answer.output.partition(b"\n")
        if not clock.isdigit():
            raise CannotWrite(
                f"The host {self._host.serial} does not tell who uses a board: {answer.text[:200]!r}.",
                remedy=WHERE.format(serial=self._host.serial),
            )
        if self._ahead is None:
            ahead = round(int(clock) + 0.5 - time.time())
            self._ahead = ahead if abs(ahead) > CLOCKS_AGREE_SECONDS else 0
        shared = decode(content) if content else SharedFile()
        return SharedFile(value=_shifted(shared.value, -self._ahead), damaged=shared.damaged), content

    def _write(self, value: dict[str, Any], was: bytes) -> None:
        script = render_script(
            "write_lease",
            file=self._name,
            spare=f".{secrets.token_hex(8)}",
            empty=_line({}),
            was=hashlib.sha256(was or encode({})).hexdigest(),
            content=_line(_shifted(value, self._ahead or 0)),
            seconds=round(LOCK_SECONDS),
        )
        lines = self._host.shell(script, deadline=self._deadline()).text.strip().splitlines()
        # What programs there say of a fault comes before.
        said = lines[-1] if lines else ""
        if said == "changed":
            raise ChangedMeanwhile
        if said != "written":
            error, why = ANSWERS.get(said, (CannotWrite, f"the host says {said[-200:]!r}"))
            remedy = WHERE.format(serial=self._host.serial) if error is CannotWrite else None
            raise error(
                f"The note of who uses a board of the host {self._host.serial} cannot be changed: {why}.", remedy=remedy
            )

    def _deadline(self) -> Deadline:
        return Deadline.after(SECONDS, f"the note of who uses a board of the host {self._host.serial}")


def _line(value: dict[str, Any]) -> str:
    """The one line that the file is."""
    return encode(value).decode().rstrip("\n")


def _shifted(value: dict[str, Any], seconds: int) -> dict[str, Any]:
    """The same leases with times of another clock."""
    return {
        kind: {
            name: entry + seconds if name in TIMES and isinstance(entry, int | float) else entry
            for name, entry in lease.items()
        }
        if isinstance(lease, dict)
        else lease
        for kind, lease in value.items()
    }
