"""hdc as a door to a board: one hdc process per command, and no answer that is not proven.

hdc ends with status 0 whatever happened, says ``[Fail]`` on standard output, cuts files short in silence and leaves
programs running. So a command is done when its marker came back (`deploy.board.script`), a file has arrived when hdc said
so with the right size (and `deploy.transfer.push` has compared its hash), and what must not go on running is ended by a
second hdc that reports whether it is dead.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from core.deadline import Deadline
from core.errors import (
    BoardError,
    ContentDiffers,
    DeadlineExpired,
    HdcNotFound,
    HostToolMissing,
    Interrupted,
    LostConnection,
    OhforgeError,
    RemoteFolderMissing,
    TransferError,
    UsageError,
)
from core.patience import Patience
from core.process import OnOutput, Result
from core.session import Session
from core.spool import spool_folder
from deploy.board.protocol import Profile, ShellResult
from deploy.board.script import (
    ARGUMENT_LIMIT,
    BAD_SCRIPT,
    NO_FOLDER,
    MarkerReader,
    Stage,
    UntilMarker,
    last_lines,
    new_token,
    stop_command,
    stop_unnumbered,
    wrap_command,
    wrap_file,
)
from deploy.hdc.errors import Fault, confirm_request, find_fault, make_error, what_hdc_said, without_log_lines
from deploy.hdc.paths import check_key, check_local_file, check_remote_path, harmless_source, harmless_target

T = TypeVar("T")
STOP_SECONDS = 15.0
RETRIES = Patience(pause=0.5, growth=2, times=3)
"""For attempts when hdc refused for a reason that passes."""
PROBE_SECONDS = 5.0
PROBES = Patience(pause=0.3, growth=1.5, times=4)
"""For questions to a board that was connected just now: it may swallow the first command."""
CONFIRMATION = Patience(pause=1.0)
"""For looking whether a board's user has confirmed."""
FINISHED = re.compile(r"FileTransfer finish, Size:(\d+), File count = (\d+)")
TCP_KEY = re.compile(r"[\w.-]+:\d{1,5}")


@dataclass(frozen=True, kw_only=True)
class Hdc:
    """How hdc is called: the real program, or the stand-in of the emulated boards."""

    argv: tuple[str, ...]
    title: str
    environment: Mapping[str, str] = field(default_factory=dict)
    emulated: bool = False
    renew: Callable[[Session], Hdc] | None = None
    """Ends the server and returns an hdc with a new one; None when the server is not ours to end."""

    def call(
        self, session: Session, words: tuple[str, ...], *, deadline: Deadline, on_stdout: OnOutput | None = None
    ) -> Result:
        """Runs one hdc command. Its exit status means nothing. Raises HdcNotFound when there is no such program."""
        environment = dict(self.environment)
        try:
            return session.runner.run([*self.argv, *words], deadline=deadline, env=environment, on_stdout=on_stdout)
        except HostToolMissing as error:
            raise HdcNotFound(f"hdc cannot be started: {error.message}") from error


class HdcBoard:
    """A board behind hdc (implements `deploy.board.protocol.Board`). `pause` waits the given seconds between attempts."""

    def __init__(
        self, session: Session, hdc: Hdc, serial: str, profile: Profile, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        check_key(serial)
        self._session = session
        self._serial = serial
        self._profile = profile
        self._pause = pause
        self.hdc = hdc

    @property
    def serial(self) -> str:
        return self._serial

    @property
    def profile(self) -> Profile:
        return self._profile

    @property
    def emulated(self) -> bool:
        return self.hdc.emulated

    def shell(
        self, script: str, *, deadline: Deadline, folder: str = "", on_output: OnOutput | None = None
    ) -> ShellResult:
        """See `Board.shell`. A script that is too long for an argument is pushed as a file first."""
        if "\0" in script:
            raise UsageError("A command for a board cannot contain a NUL character.")

        def wrap(token: str) -> str:
            return wrap_command(script, token, folder or "/")

        if len(os.fsencode(wrap(new_token()))) >= ARGUMENT_LIMIT:
            return self._shell_by_file(script, folder, deadline, on_output)
        return self._attempt(deadline, lambda: self._run_wrapped(wrap, folder, deadline, on_output))

    def send(self, local: Path, remote: str, *, deadline: Deadline) -> None:
        """See `Board.send`."""
        check_local_file(local)
        check_remote_path(remote)
        size = local.stat().st_size
        with harmless_source(local) as source:
            self._attempt(deadline, lambda: self._transfer("send", str(source), remote, size, deadline))

    def receive(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        """See `Board.receive`. `local` may hold a part of the file when this raises."""
        check_remote_path(remote)
        with harmless_target(local) as target:
            self._attempt(deadline, lambda: self._transfer("receive", remote, str(target), None, deadline))

    # attempts ------------------------------------------------------------------------------------

    def _attempt(self, deadline: Deadline, once: Callable[[], T]) -> T:
        """Calls `once`, again when hdc did nothing for a reason that passes or that can be mended."""
        pauses, mended = RETRIES.pauses(), set[str]()
        while True:
            try:
                return once()
            except _Refused as refused:
                fault = refused.fault
                if fault is None or deadline.expired or not self._mend(refused, fault, pauses, mended, deadline):
                    if fault is not None and fault.server_remembers and self._is_tcp:
                        self._free_server()
                    raise self._error(refused) from None

    def _mend(
        self, refused: _Refused, fault: Fault, pauses: Iterator[float], mended: set[str], deadline: Deadline
    ) -> bool:
        """Does what is to be done about a refusal; False when there is nothing, or no more."""
        if fault.asks_user or (fault.new_server and self.hdc.renew is not None and self._is_tcp):
            if fault.id in mended:
                return False
            mended.add(fault.id)
            if fault.asks_user:
                return self._wait_for_user(deadline)
            self._free_server()
            self._reconnect(deadline)
            return True
        passes = fault.transient or (fault.reconnect and self._is_tcp)
        pause = next(pauses, None) if passes else None
        if pause is None:
            return False
        self._session.console.detail(f"{self._serial}: {what_hdc_said(refused.text)}; trying again")
        self._pause(min(pause, deadline.remaining))
        if fault.reconnect and self._is_tcp:
            self._reconnect(deadline)
        return True

    @property
    def _is_tcp(self) -> bool:
        return TCP_KEY.fullmatch(self._serial) is not None and not self.emulated

    def _reconnect(self, deadline: Deadline) -> None:
        """Asks hdc to connect a TCP board again: it never does so by itself. The next attempt shows whether it worked."""
        waiting = deadline.within(10, f"hdc to connect {self._serial} again")
        said = self.hdc.call(self._session, ("tconn", self._serial), deadline=waiting)
        self._session.console.detail(f"tconn {self._serial}: {what_hdc_said(said.text)}")
        if "Connect OK" in said.text:
            with contextlib.suppress(_Refused, LostConnection):
                self._probe(deadline)

    def make_ready(self, deadline: Deadline) -> None:
        """Waits until the board answers: after it was connected its user may have to confirm, and the first command
        may be swallowed. Raises BoardUnauthorised, BoardOffline, LostConnection, DeadlineExpired."""
        self._attempt(deadline, lambda: self._probe(deadline))

    def _probe(self, deadline: Deadline) -> None:
        for pause in PROBES.pauses():
            answer = MarkerReader(token := new_token())
            words = ("-t", self._serial, "shell", wrap_command("true", token))
            waiting = deadline.within(PROBE_SECONDS, f"a sign of life of board {self._serial}")
            with contextlib.suppress(DeadlineExpired):
                self.hdc.call(self._session, words, deadline=waiting, on_stdout=answer.feed)
            answer.finish()
            if answer.stage is Stage.ENDED:
                return
            refused = _Refused(answer.preamble.decode("utf-8", "replace").strip(), "shell")
            if refused.fault is not None:
                raise refused
            self._pause(min(pause, deadline.remaining))
        raise LostConnection(f"Board {self._serial} gave no answer to {PROBES.times} questions.")

    def _wait_for_user(self, deadline: Deadline) -> bool:
        """Waits until the board's user has confirmed; False when the time is over."""
        waiting = deadline.within(self._session.settings.timeouts.authorise, f"the user of board {self._serial}")
        self._session.console.info(confirm_request(self._serial, waiting.remaining))
        for _ in CONFIRMATION.rounds(waiting, self._pause):
            try:
                self._probe(waiting)
                return True
            except LostConnection:
                continue
            except _Refused as still:
                if still.fault is None or not still.fault.asks_user:
                    raise self._error(still) from None
        return False

    def _free_server(self) -> str:
        """Ends the board's own hdc server, which may be stuck on the board; a sentence says what that means."""
        if self.hdc.renew is None:
            return (
                f"Other boards of this hdc server may hang too until {self._serial} is unplugged or `hdc kill` is run."
            )
        self.hdc = self.hdc.renew(self._session)
        return "Its own hdc server was ended, so nothing else hangs on it."

    def _error(self, refused: _Refused) -> OhforgeError:
        otherwise = TransferError if refused.during in ("send", "receive") else BoardError
        subject = f"Board {self._serial}" + (f", {refused.what}" if refused.what else "")
        return make_error(refused.fault, refused.text, subject=subject, otherwise=otherwise)

    # shell ---------------------------------------------------------------------------------------

    def _run_wrapped(
        self, wrap: Callable[[str], str], folder: str, deadline: Deadline, on_output: OnOutput | None
    ) -> ShellResult:
        token = new_token()
        reader = MarkerReader(token, on_output)
        started = time.monotonic()
        words = ("-t", self._serial, "shell", wrap(token))
        until = UntilMarker.of(deadline, reader)
        said = b""
        try:
            result = self.hdc.call(self._session, words, deadline=until, on_stdout=reader.feed)
            said = result.stderr
            reader.finish()
        except DeadlineExpired as late:
            reader.finish()
            if reader.stage is not Stage.ENDED:
                raise DeadlineExpired(
                    f"{late.message} {self._stop(reader, token)}", output=last_lines(reader)
                ) from None
            self._tell_of_rest(reader)
        except KeyboardInterrupt:
            reader.finish()
            raise Interrupted(f"Interrupted. {self._stop(reader, token)}") from None
        except HdcNotFound:
            raise
        except BaseException:
            self._session.console.detail(self._stop(reader, token))
            raise
        return self._judge(reader, token, said, folder, time.monotonic() - started)

    def _tell_of_rest(self, reader: MarkerReader) -> None:
        """hdc goes on after the command's end: somebody else still holds the output open, or much is on its way before."""
        self._session.console.warn(
            f"the command has ended, but something that it started still runs on board {self._serial}, with the output "
            f"open (`kill -KILL -- -{reader.pid}` there ends it), or the link is slow"
        )

    def _judge(self, reader: MarkerReader, token: str, said: bytes, folder: str, seconds: float) -> ShellResult:
        """What the markers prove. Without the last one nothing is known, whatever else was printed."""
        if reader.stage is Stage.NOT_STARTED:
            text = (said + b"\n" + reader.preamble).decode("utf-8", "replace").strip()
            refused = _Refused(text, "shell")
            if refused.fault is not None or "[Fail]" in text:
                raise refused
            raise LostConnection(
                f"Board {self._serial} gave no answer: the command may not have been started."
                + (f" hdc said: {what_hdc_said(text)}" if text else "")
            )
        if reader.status == NO_FOLDER:
            raise RemoteFolderMissing(f"Board {self._serial} has no folder {folder}.")
        if reader.status == BAD_SCRIPT:
            raise _ScriptDamaged
        if not re.fullmatch(r"\d{1,3}", reader.status):
            raise LostConnection(
                f"The link to board {self._serial} ended while a command ran: how it ended is not known. "
                + self._stop(reader, token),
                output=last_lines(reader),
            )
        return ShellResult(
            exit_code=int(reader.status), output=reader.output, seconds=seconds, truncated=reader.truncated
        )

    def _shell_by_file(self, script: str, folder: str, deadline: Deadline, on_output: OnOutput | None) -> ShellResult:
        remote = f"{self._profile.device_dir}/ohforge-{new_token()}.sh"
        content = os.fsencode(script) + b"\n"
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()

        def wrap(token: str) -> str:
            return wrap_file(remote, digest, token, folder or "/")

        with spool_folder() as spare:
            local = spare / "script.sh"
            local.write_bytes(content)
            for _ in range(2):
                self.send(local, remote, deadline=deadline)
                with contextlib.suppress(_ScriptDamaged):
                    return self._attempt(deadline, lambda: self._run_wrapped(wrap, folder, deadline, on_output))
        raise ContentDiffers(f"A script did not reach board {self._serial} unharmed, twice; it was not run.")

    def _stop(self, reader: MarkerReader, token: str) -> str:
        """Ends what a wrapped command still runs on the board; a sentence says whether that is certain."""
        name = f"process {reader.pid}" if reader.pid is not None else "the command"
        script = stop_unnumbered(token) if reader.pid is None else stop_command(reader.pid, token)
        why = "it ignores being killed"
        try:
            for _ in range(2):
                answer = MarkerReader(own := new_token())
                words = ("-t", self._serial, "shell", wrap_command(script, own))
                waiting = Deadline.after(STOP_SECONDS, f"the end of {name}")
                self.hdc.call(self._session, words, deadline=waiting, on_stdout=answer.feed)
                answer.finish()
                if answer.output.split()[-1:] == [b"dead"]:
                    return f"Nothing of it runs on board {self._serial} any more."
                if answer.stage is not Stage.NOT_STARTED:
                    break
                text = answer.preamble.decode("utf-8", "replace")
                why = f"hdc said: {what_hdc_said(text) or 'nothing'}"
                fault = find_fault(text, "shell")
                if fault is None or not fault.reconnect or not self._is_tcp:
                    break
                self._reconnect(waiting)
        except DeadlineExpired as late:
            why = late.message
            if self.hdc.renew is not None:
                self._free_server()
        except OhforgeError as error:
            why = error.message
        except KeyboardInterrupt:
            why = "ending it was interrupted too"
        return f"Note: {name} may still run on board {self._serial} ({why})."

    # files ---------------------------------------------------------------------------------------

    def _transfer(self, direction: str, source: str, target: str, size: int | None, deadline: Deadline) -> None:
        """One ``file send`` or ``file recv``; `size` in bytes when it is known beforehand."""
        verb = "send" if direction == "send" else "recv"
        words = ("-t", self._serial, "file", verb, source, target)
        try:
            result = self.hdc.call(self._session, words, deadline=deadline)
        except DeadlineExpired as late:
            # A server that writes to a board which does not read serves nobody else until it is ended.
            raise DeadlineExpired(f"{late.message} {self._free_server()}", remedy=late.remedy) from None
        text = without_log_lines(f"{result.text}\n{result.error_text}").strip()
        finished = FINISHED.search(text)
        what = f"sending {source} to {target}" if direction == "send" else f"receiving {source}"
        if finished is None or "[Fail]" in text:
            everything = f"{result.text}\n{result.error_text}".strip()
            if not text and find_fault(everything, direction) is None:
                raise LostConnection(f"The link to board {self._serial} ended while {what}; only a part has arrived.")
            raise _Refused(everything, direction, what)
        if direction == "receive" and not Path(target).is_file():
            raise TransferError(f"Board {self._serial}, {what}: hdc reported success, but there is no file.")
        arrived = Path(target).stat().st_size if direction == "receive" else size
        if int(finished[1]) != arrived or int(finished[2]) != 1:
            raise TransferError(
                f"Board {self._serial}, {what}: {finished[1]} bytes in {finished[2]} file(s) were reported, "
                f"not {arrived} in one."
            )


class _Refused(Exception):
    """hdc said that it did not do what it was asked."""

    def __init__(self, text: str, during: str, what: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.during = during
        self.what = what
        self.fault: Fault | None = find_fault(text, during)


class _ScriptDamaged(Exception):
    """A pushed script is not what was sent."""
