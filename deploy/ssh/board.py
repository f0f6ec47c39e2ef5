"""A board over SSH: commands and files through channels of one connection, which is made anew when it broke.

Files travel through ``cat`` and not by SFTP: the sshd of small boards (dropbear) has none, and ``cat`` says why it
cannot write. What a command started ends with the link: it is watched for on the board by a shell that reads from it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from core.deadline import Deadline
from core.errors import (
    BoardOffline,
    DeadlineExpired,
    Failure,
    Interrupted,
    LostConnection,
    NoSpaceOnBoard,
    OhforgeError,
    PermissionOnBoard,
    RemoteFileMissing,
    RemoteFolderMissing,
    TransferError,
    UsageError,
)
from core.patience import Patience
from core.process import OnOutput
from core.session import Session
from core.spool import spool_folder
from deploy.board.protocol import Lender, Profile, ShellResult
from deploy.board.script import (
    MarkerReader,
    Stage,
    UntilMarker,
    conclude,
    last_lines,
    new_token,
    quote,
    rest_goes_on,
    stop_command,
    stop_unnumbered,
    wrap_command,
)
from deploy.ssh.link import SILENT_SECONDS, LinkHadEnded, SshLink
from deploy.ssh.login import CONNECT_SECONDS

STOP_SECONDS = 15.0
ATTEMPTS = Patience(pause=0.5, growth=2, times=3)
"""At connecting anew; a board that is being started refuses at first."""
GONE_SECONDS = 60.0
"""After these attempts were in vain, in which it is tried once: each of the many steps that end a run would wait anew."""
GONE_CONNECT_SECONDS = 2.0
"""For that one attempt to reach the computer, which may answer nothing at all."""
LONGEST_COMMAND = 100_000
"""Bytes of a command line as it is sent, quoted; Linux takes 128 KiB as one argument."""
SAYS_NO = (
    (re.compile("No space left|Disk quota"), NoSpaceOnBoard),
    (re.compile("Read-only file system|Permission denied|Operation not permitted"), PermissionOnBoard),
    (re.compile("[Nn]onexistent|No such file or directory|Not a directory"), RemoteFolderMissing),
)
"""What ``sh``, ``cat`` and others say when they cannot write."""
NO_FILE, NO_RIGHT, MUCH = 66, 77, 75
"""Statuses by which a question tells why a file is not read: it is not there, it may not be, it is large."""
_WITH_LINK = (
    # The descriptor is copied first: what runs in the background loses its standard input. Over two pipes of sshd, what
    # went to standard error could come after the last marker.
    "exec 2>&1 3<&0; (read _l <&3; kill -TERM -$$) >/dev/null 2>&1 & _w=$!; exec 3<&-; ",
    "; kill $_w 2>/dev/null",
)
"""Around a command: ends its group when the standard input ends, as it does when the link is gone."""


def said_no(subject: str, text: str) -> OhforgeError:
    """The error for what a board says when it cannot write."""
    error = next((error for pattern, error in SAYS_NO if pattern.search(text)), TransferError)
    return error(f"{subject}: {text}.")


def check_reading(status: int | None, subject: str) -> None:
    """Raises what the status of a script means that was to give a file."""
    if status is None:
        raise LostConnection(f"{subject}: the link ended; only a part has arrived.")
    if status == NO_FILE:
        raise RemoteFileMissing(f"{subject}: there is no such file.")
    if status == NO_RIGHT:
        raise PermissionOnBoard(f"{subject}: it may not be read.")
    if status != 0:
        raise TransferError(f"{subject}: cat ended with status {status}.")


class SshBoard:
    """A board behind an sshd (implements `deploy.board.protocol.Board`).

    `read_profile` is called when something of the profile is needed, and then asks the board for its folder when
    `device_dir` names none.
    """

    emulated = False
    host = None

    def __init__(
        self,
        session: Session,
        serial: str,
        read_profile: Callable[[], Profile],
        *,
        device_dir: str = "",
        accept_new: bool = False,
    ) -> None:
        self._session = session
        self._read_profile = read_profile
        self._device_dir = device_dir
        self._accept_new = accept_new
        self._opened: SshLink | None = None
        self._opening = threading.Lock()
        self._gone_at = float("-inf")
        """When attempts to connect were in vain the last time."""
        self._gone: BoardOffline | None = None
        """Why they were."""
        self.serial = serial
        self.lender: Lender | None = None

    @functools.cached_property
    def profile(self) -> Profile:
        profile = self._read_profile()
        return dataclasses.replace(profile, device_dir=self._device_dir or self._ask_folder(profile.device_dir))

    def shell(
        self,
        script: str,
        *,
        deadline: Deadline,
        folder: str = "",
        on_output: OnOutput | None = None,
        says_start: bool = False,
    ) -> ShellResult:
        """See `Board.shell`. A script that is too long for an argument is sent as a file first; none says its start itself."""
        if "\0" in script:
            raise UsageError("A command for a board cannot contain a NUL character.")
        token = new_token()
        before, after = _WITH_LINK
        wrapped = f"{before}{wrap_command(script, token, folder or '/').rstrip()}{after}"
        if len(os.fsencode(quote(wrapped))) > LONGEST_COMMAND:
            return self._shell_by_file(script, folder, deadline, on_output)
        reader = MarkerReader(token, on_output)
        started = time.monotonic()
        try:
            self._run(wrapped, UntilMarker.of(deadline, reader), reader.feed)
            reader.finish()
        except DeadlineExpired as late:
            reader.finish()
            if reader.stage is not Stage.ENDED:
                raise DeadlineExpired(
                    f"{late.message} {self._stop(reader, token)}", output=last_lines(reader)
                ) from None
            self._session.console.warn(rest_goes_on(reader, self.serial))
        except KeyboardInterrupt:
            reader.finish()
            raise Interrupted(f"Interrupted. {self._stop(reader, token)}") from None
        said = reader.preamble.decode("utf-8", "replace").strip()
        if reader.stage is Stage.NOT_STARTED and said:
            raise LostConnection(f"Board {self.serial} did not begin the command. It said: {said}")
        seconds = time.monotonic() - started
        return conclude(
            reader, serial=self.serial, folder=folder, seconds=seconds, stop=lambda: self._stop(reader, token)
        )

    def send(self, local: Path, remote: str, *, deadline: Deadline) -> None:
        """See `Board.send`."""
        said = bytearray()
        with local.open("rb") as file:
            status = self.run_with_file(f"exec 2>&1; exec cat >{quote(remote)}", deadline, said.extend, source=file)
        subject = f"Board {self.serial}, sending {local} to {remote}"
        if status is None:
            raise LostConnection(f"{subject}: the link ended; only a part has arrived.")
        if status != 0:
            raise said_no(subject, said.decode("utf-8", "replace").strip() or f"status {status}")

    def receive(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        """See `Board.receive`. `local` may hold a part of the file when this raises."""
        path = quote(remote)
        may_be_read = f"exec 2>/dev/null; [ -f {path} ] || exit {NO_FILE}; [ -r {path} ] || exit {NO_RIGHT}"
        many, copy = self._link(deadline).many, f"exec cat <{path} 2>/dev/null"
        not_much = "" if many is None else f'[ "$(stat -Lc %s {path})" -ge {many} ] && exit {MUCH}; '
        subject = f"Board {self.serial}, receiving {remote}"
        with local.open("wb") as file:
            status = self._run(f"{may_be_read}; {not_much}{copy}", deadline, file.write)
            if status == MUCH and many is not None:
                status = self.run_with_file(copy, deadline, sink=file, size=many)
        check_reading(status, subject)

    def connect(self, deadline: Deadline) -> SshLink:
        """The board's connection, made when there is none (any more). Raises as `SshLink.open`."""
        return self._link(deadline)

    def close(self) -> None:
        """Ends the connection."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # the link ------------------------------------------------------------------------------------

    def run_with_file(
        self,
        script: str,
        deadline: Deadline,
        on_output: Callable[[bytes], object] = lambda chunk: None,
        *,
        on_errors: Callable[[bytes], object] | None = None,
        source: IO[bytes] | None = None,
        sink: IO[bytes] | None = None,
        size: int | None = None,
    ) -> int | None:
        """Runs a script that reads the rest of the file `source` or adds to `sink`; its status, None when the link ended.

        Many bytes (`size`, when they are no file's) go by the system's own ssh. Raises DeadlineExpired, LostConnection.
        """
        start = source.tell() if source is not None else 0
        count = size if source is None or size is not None else os.fstat(source.fileno()).st_size - start

        def do(link: SshLink) -> int | None:
            if source is not None:
                source.seek(start)
            refusal = link.refusal
            status = link.run_with_file(
                script,
                size=count or 0,
                deadline=deadline,
                on_output=on_output,
                on_errors=on_errors,
                source=source,
                sink=sink,
            )
            if link.refusal is not refusal:
                self._tell_of_refusal(link)
            return status

        return self._by_link(deadline, do)

    def _run(
        self,
        script: str,
        deadline: Deadline,
        on_output: Callable[[bytes], object],
        on_errors: Callable[[bytes], object] | None = None,
    ) -> int | None:
        return self._by_link(
            deadline,
            lambda link: link.run_script(script, deadline=deadline, on_output=on_output, on_errors=on_errors),
        )

    def _by_link(self, deadline: Deadline, do: Callable[[SshLink], int | None]) -> int | None:
        """Does something by the link, and once more when that had ended before."""
        link = self._link(deadline)
        try:
            status = do(link)
        except LinkHadEnded as ended:  # Between two commands, which shows only now.
            self._session.console.detail(f"the link to board {self.serial} had ended ({ended}); making it anew")
            link = self._link(deadline)
            try:
                status = do(link)
            except LinkHadEnded as again:
                raise LostConnection(f"Board {self.serial} takes no command: {again}.") from None
        if link.is_silent:
            self._session.console.warn(f"board {self.serial} has answered nothing for {SILENT_SECONDS:.0f} s")
        return status

    def _tell_of_refusal(self, link: SshLink) -> None:
        refusal = link.refusal
        assert refusal is not None
        if refusal.other_key:
            self._session.console.warn(
                f"somebody answered ssh as board {self.serial} with another key than the known one; nothing was sent there: "
                "files go by the connection that was checked"
            )
        else:
            self._session.console.detail(
                f"the system's ssh was not let in at board {self.serial} ({refusal}); files go by the connection that is open"
            )

    def _link(self, deadline: Deadline) -> SshLink:
        """The connection, made when there is none (any more)."""
        if not self._opening.acquire(timeout=deadline.remaining):
            raise deadline.error()
        try:
            if self._opened is None or not self._opened.is_open:
                self.close()
                self._opened = self._open(deadline)
            return self._opened
        finally:
            self._opening.release()

    def _open(self, deadline: Deadline) -> SshLink:
        is_gone = time.monotonic() - self._gone_at < GONE_SECONDS
        if is_gone and self._gone is not None and deadline.expired:
            raise BoardOffline(self._gone.message, remedy=self._gone.remedy)
        seconds = GONE_CONNECT_SECONDS if is_gone else CONNECT_SECONDS
        for pause in (*(() if is_gone else ATTEMPTS.pauses()), None):
            began = time.monotonic()
            try:
                return SshLink.open(
                    self.serial, deadline=deadline, accept_new=self._accept_new, connect_seconds=seconds
                )
            except BoardOffline as offline:
                # Who keeps silent is not being started.
                if pause is None or deadline.remaining <= pause or time.monotonic() - began > CONNECT_SECONDS / 2:
                    self._gone_at, self._gone = time.monotonic(), offline
                    raise
                self._session.console.detail(f"{offline.message} Trying again.")
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _ask_folder(self, usual: str) -> str:
        """The folder for files when the settings name none: the profile's where it is there, else the user's cache there."""
        said = bytearray()
        question = f"[ -w {usual} ] && echo {usual} || echo ${{XDG_CACHE_HOME:-$HOME/.cache}}"
        self._run(question, Deadline.after(STOP_SECONDS, f"the folders of board {self.serial}"), said.extend)
        return said.decode("utf-8", "replace").strip() or usual

    # commands ------------------------------------------------------------------------------------

    def _shell_by_file(self, script: str, folder: str, deadline: Deadline, on_output: OnOutput | None) -> ShellResult:
        remote = f"{self.profile.device_dir}/ohforge-{new_token()}.sh"
        with spool_folder() as spare:
            local = spare / "script.sh"
            local.write_bytes(os.fsencode(script) + b"\n")
            self.send(local, remote, deadline=deadline)
        by_file = f"sh {quote(remote)}; _st=$?; rm -f {quote(remote)}; exit $_st"
        return self.shell(by_file, deadline=deadline, folder=folder, on_output=on_output)

    def _stop(self, reader: MarkerReader, token: str) -> str:
        """Ends what a wrapped command still runs on the board; a sentence says whether that is certain."""
        name = f"process {reader.pid}" if reader.pid is not None else "the command"
        script = stop_unnumbered(token) if reader.pid is None else stop_command(reader.pid, token)
        said = bytearray()
        try:
            self._run(script, Deadline.after(STOP_SECONDS, f"what shall end {name}"), said.extend)
        except Failure as error:
            return f"Note: {name} may still run on board {self.serial} ({error.message.rstrip('.')})."
        except KeyboardInterrupt:
            return f"Note: {name} may still run on board {self.serial} (ending it was interrupted too)."
        if said.split()[-1:] == [b"dead"]:
            return f"Nothing of it runs on board {self.serial} any more."
        return f"Note: {name} may still run on board {self.serial} (it ignores being killed)."
