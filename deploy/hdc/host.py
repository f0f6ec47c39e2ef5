"""A computer that has boards, on which hdc is run by its sshd: a lab's, reached from a laptop.

What runs there is a shell that waits for hdc, and ends it when the link is gone: when ohforge was killed here, or when
the time is over, should the link be dead without a word. Nothing but hdc and a usual Linux is needed there. Files lie in
a folder of the user's cache meanwhile, where those for boards stay (`deploy.transfer.staging`).
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.deadline import Deadline
from core.errors import Failure, HdcNotFound, LostConnection, NotEnoughSpace, TransferError, UsageError
from core.interrupts import interrupts_held
from core.process import OnOutput, Result
from core.session import Session
from deploy.board.profiles import UNKNOWN_BOARD, load_profile
from deploy.board.protocol import Board
from deploy.board.script import quote
from deploy.hdc.paths import is_taken_by_hdc
from deploy.ssh.board import LONGEST_COMMAND, SshBoard
from deploy.ssh.link import LinkHadEnded

NOT_FOUND = (126, 127)
"""Statuses of a shell that could not start a program; hdc's own is always 0."""
SPARE_SECONDS = 30
"""After its deadline hdc is ended there, whatever became of the link."""
SMALL_SECONDS = 30.0
NO_ROOM = 75
MAKE_ROOM = "Make room there; `ohforge board.clean` of a board of that host removes what ohforge put on the host too."
PORTS = range(20_000, 30_000)
"""From which those are taken that hdc listens at there: below those that systems give to anybody."""


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Where the content of a local file lies on the host: bytes from `offset` on of the file `path`."""

    path: str
    offset: int = 0
    size: int | None = None
    """None: all of it."""


class HdcHost(SshBoard):
    """A computer on which hdc runs."""

    def __init__(self, session: Session, serial: str, *, accept_new: bool = False) -> None:
        super().__init__(session, serial, lambda: load_profile(UNKNOWN_BOARD), accept_new=accept_new)
        self.staged: dict[Path, Staged] = {}
        """What need not be sent there any more."""

    def call(self, argv: Sequence[str], *, deadline: Deadline, on_stdout: OnOutput | None = None) -> Result:
        """Runs hdc there, as `core.process.Runner` does here.

        Raises HdcNotFound, DeadlineExpired, LostConnection when how it ended is not known, and what `SshLink.open` does.
        """
        self._session.console.detail(f"+ [{self.serial}] {shlex.join(argv)}")
        started, stdout, stderr = time.monotonic(), bytearray(), bytearray()

        take = stdout.extend if on_stdout is None else on_stdout  # Who reads it himself needs no copy.
        status = self._run(_watched(argv, deadline), deadline, take, on_errors=stderr.extend)
        if status is None:
            raise LostConnection(
                f"The link to the host {self.serial} ended while hdc ran there.",
                remedy=f"Look with `ssh -v` whether the host answers, then run again; `ohforge board.info --board {self.serial}` "
                "tells too.",
            )
        if status in NOT_FOUND:
            raise self._not_found(argv[0], bytes(stderr))
        return Result(
            argv=tuple(argv),
            exit_code=status,
            stdout=bytes(stdout),
            stderr=bytes(stderr),
            seconds=time.monotonic() - started,
        )

    @property
    def about_its_folder(self) -> str:
        """What helps when nothing can be written to the folder where files lie there."""
        folder = self.profile.device_dir
        return (
            f"See with `ssh {self.serial} ls -ld {quote(folder)}` whose it is; its storage may be read-only. "
            "XDG_CACHE_HOME in the environment of its sshd's commands names another place."
        )

    def takes(self, argv: Sequence[str]) -> bool:
        """Whether the words are short enough for a command line there, quoted twice as they have to be."""
        return len(os.fsencode(quote(shlex.join(argv)))) < LONGEST_COMMAND

    @contextlib.contextmanager
    def called_if_lost(self, argv: Sequence[str]) -> Iterator[None]:
        """Lets hdc be run there when the link ends before the block does."""
        waiting = Deadline.after(SMALL_SECONDS, f"a command on the host {self.serial}")
        with contextlib.ExitStack() as open_channel:
            try:
                command = f"{shlex.join(argv)} >/dev/null 2>&1"
                open_channel.enter_context(self.connect(waiting).run_when_lost(command, waiting))
            except LinkHadEnded as ended:
                raise LostConnection(f"The host {self.serial} takes no command: {ended}.") from None
            yield

    # files ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def source(self, local: Path, deadline: Deadline) -> Iterator[str]:
        """A path there with the content of `local`; what is not staged is sent, and removed afterwards."""
        staged = self.staged.get(local.absolute())
        if staged is not None and staged.size is None:
            yield staged.path
            return
        with self._spare_file() as spare:
            if staged is None:
                self.send(local, spare, deadline=deadline)
            else:
                cut = f"tail -c +{staged.offset + 1} {quote(staged.path)} | head -c {staged.size} >{quote(spare)}"
                self._must(cut, deadline)
            yield spare

    @contextlib.contextmanager
    def target(self, local: Path, deadline: Deadline) -> Iterator[str]:
        """A path there; what lies there at the end is fetched as `local`, and removed."""
        with self._spare_file() as spare:
            yield spare
            self.receive(spare, local, deadline=deadline)

    def size_of(self, path: str, deadline: Deadline) -> int | None:
        """Bytes of a file there; None when there is none."""
        with contextlib.suppress(ValueError):
            return int(self._must(f"wc -c <{quote(path)} 2>/dev/null || echo none", deadline))
        return None

    def find_port(self) -> int:
        """A port there that probably nobody uses."""
        return PORTS[secrets.randbelow(len(PORTS))]

    @contextlib.contextmanager
    def _spare_file(self) -> Iterator[str]:
        """A file for this user's eyes, under a name that `board.clean` and the limit of what is staged know."""
        folder = f"{self.profile.device_dir}/ohforge/store"
        spare = f"{folder}/{secrets.token_hex(32)}.part"
        if not is_taken_by_hdc(spare):
            raise UsageError(
                f"hdc cannot take the folder {folder} of the host {self.serial}.",
                remedy="Let XDG_CACHE_HOME there name a folder without quotes, percent signs and backslashes.",
            )
        waiting = Deadline.after(SMALL_SECONDS, f"a file on the host {self.serial}")
        self._must(f"umask 077; mkdir -p {quote(folder)} && : >{quote(spare)}", waiting)
        try:
            yield spare
        finally:
            with interrupts_held(), contextlib.suppress(Failure):
                waiting = Deadline.after(SMALL_SECONDS, f"a file on the host {self.serial} to be removed")
                self.shell(f"rm -f {quote(spare)}", deadline=waiting)

    def _must(self, script: str, deadline: Deadline) -> str:
        """What a small script says there. Raises TransferError when it fails, NotEnoughSpace for a full disk."""
        result = self.shell(script, deadline=deadline)
        if result.exit_code != 0:
            error = NotEnoughSpace if "No space left" in result.text or "quota" in result.text else TransferError
            said = result.text.strip() or result.exit_code
            remedy = MAKE_ROOM if error is NotEnoughSpace else self.about_its_folder
            raise error(f"The host {self.serial} has no place for a file: {said}.", remedy=remedy)
        return result.text

    def _ask_folder(self, usual: str) -> str:
        del usual  # A host is no board, whatever folders it has.
        said = bytearray()
        waiting = Deadline.after(SMALL_SECONDS, f"the folders of the host {self.serial}")
        self._run("echo ${XDG_CACHE_HOME:-$HOME/.cache}/ohforge/stage", waiting, said.extend)
        folder = said.decode("utf-8", "replace").strip()
        if not folder.startswith("/"):
            raise LostConnection(f"The host {self.serial} did not say where its user's cache is: {folder!r}.")
        return folder

    def _not_found(self, program: str, said: bytes) -> HdcNotFound:
        text = said.decode("utf-8", "replace").strip()
        return HdcNotFound(
            f"hdc cannot be started on the host {self.serial}: {text or program}.",
            remedy="It is in `toolchains` of an ohos-sdk for that computer: put it on the PATH that `ssh "
            f"{self.serial} env` shows, or name its path there with ohforge.boards.NAME.hdc.",
        )


def title_of(board: Board) -> str:
    """What a board, or a host that is sent to as one, is called within a sentence."""
    return f"the host {board.serial}" if isinstance(board, HdcHost) else f"board {board.serial}"


def _watched(argv: Sequence[str], deadline: Deadline) -> str:
    """hdc by a shell that ends it, and not the server that it may have started, when its standard input ends or too late."""
    seconds = math.ceil(deadline.remaining) + SPARE_SECONDS
    return (
        # Once hdc runs nothing else may write: what does by a link that has ended is killed for it.
        f"exec 3<&0; {shlex.join(argv)} </dev/null 3<&- & _h=$!; exec >/dev/null 2>&1; "
        "(read _l <&3; kill -TERM $_h) & _w=$!; exec 3<&-; "
        f"(trap 'kill $!; exit' TERM; sleep {seconds} & wait $!; kill -TERM $_h) & _a=$!; "
        "wait $_h; _st=$?; kill $_w $_a; exit $_st"
    )
