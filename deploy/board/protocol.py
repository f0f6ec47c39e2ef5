"""What a board is to the rest of ohforge: something that runs scripts and takes and gives files."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from core.deadline import Deadline
from core.process import OnOutput
from core.session import Session

MAY_RUN_ON = "Note:"
"""Begins the end of an error's message, which says what of a command may still run on the board."""


@dataclass(frozen=True, kw_only=True)
class ShellResult:
    """How a script on a board ended: its true exit status (128 + n for signal n) and its merged output."""

    exit_code: int
    output: bytes
    seconds: float
    """Time as seen from the host, link included."""
    truncated: bool = False

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What is known of a kind of board before it is asked; read from ``deploy/board/profiles/*.yaml``."""

    name: str
    title: str
    soc: str
    cpu: str
    """CPU tuning that fits, for example ``cortex-a55``."""
    cores: int
    memory_bytes: int
    arches: tuple[str, ...]
    """Arches whose programs run; the first is the one of the userland."""
    static_only: tuple[str, ...]
    """Arches of which only static programs run (no loader on the board)."""
    device_dir: str = "/data/local/tmp"
    memory_rate: float = 0.0
    """Bytes a second that its memory is read with; 0: not known."""
    storage_rate: float = 0.0
    """Bytes a second that a file is read with from its storage, from begin to end; 0: not known."""
    emulated: bool = False


class Lender(Protocol):
    """Who must give a board out before anybody works on it, such as the coordinator of a lab."""

    def lend(self, session: Session) -> AbstractContextManager[None]:
        """Has the board while the block runs; waits ``ohforge.timeouts.lease`` seconds for it. Raises BoardBusy, LabUnreached."""

    def as_json(self) -> dict[str, str]:
        """Who it is, for records."""


class Board(Protocol):
    """A board that is connected. Every call is either right or raises one of ``core.errors``."""

    lender: Lender | None
    """Who gives the board out, beside the lease of this computer; None: nobody."""

    @property
    def serial(self) -> str: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def emulated(self) -> bool: ...

    @property
    def host(self) -> Board | None:
        """The computer that has the board, itself as a board over SSH; None when it is this one, or there is none."""

    def shell(
        self,
        script: str,
        *,
        deadline: Deadline,
        folder: str = "",
        on_output: OnOutput | None = None,
        says_start: bool = False,
    ) -> ShellResult:
        """Runs a shell script in one round trip, with closed standard input, in `folder` of the board.

        With `says_start` the script, which must be one of our own, prints ``$_started`` as its first line.
        On the deadline or on Ctrl-C the whole process group on the board is ended. Raises DeadlineExpired,
        LostConnection (the exit status never arrived), PermissionOnBoard, NoBoard, …
        """

    def send(self, local: Path, remote: str, *, deadline: Deadline) -> None:
        """Copies one file to the board, unverified; `deploy.transfer.push` verifies. Raises TransferError, NoSpaceOnBoard, …"""

    def receive(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        """Copies one file from the board, unverified. Raises RemoteFileMissing, TransferError, …"""
