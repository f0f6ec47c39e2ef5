"""hdc as a door to a board: one hdc process per command, and no answer that is not proven.

hdc ends with status 0 whatever happened, says ``[Fail]`` on standard output, cuts files short in silence and leaves
programs running. So a command is done when its marker came back (`deploy.board.script`), a file has arrived when hdc said
so with the right size (and `deploy.transfer.push` has compared its hash), and what must not go on running is ended by a
second hdc that reports whether it is dead.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from core.deadline import Deadline
from core.errors import (
    BoardError,
    ContentDiffers,
    DeadlineExpired,
    Failure,
    HdcNotFound,
    Interrupted,
    LostConnection,
    OhforgeError,
    TransferError,
    UsageError,
)
from core.patience import Patience
from core.process import OnOutput
from core.session import Session
from core.spool import spool_folder
from deploy.board.protocol import MAY_RUN_ON, Lender, Profile, ShellResult
from deploy.board.script import (
    ARGUMENT_LIMIT,
    BAD_SCRIPT,
    MarkerReader,
    Stage,
    UntilMarker,
    conclude,
    last_lines,
    new_token,
    rest_goes_on,
    stop_command,
    stop_unnumbered,
    wrap_command,
    wrap_file,
)
from deploy.hdc.answers import Refused, ScriptDamaged, check_transfer
from deploy.hdc.errors import Fault, confirm_request, find_fault, make_error, what_hdc_said
from deploy.hdc.paths import check_key, check_local_file, check_remote_path
from deploy.hdc.program import Hdc

if TYPE_CHECKING:
    from deploy.hdc.host import HdcHost

T = TypeVar("T")
STOP_SECONDS = 15.0
RETRIES = Patience(pause=0.5, growth=2, times=3)
"""For attempts when hdc refused for a reason that passes."""
PROBE_SECONDS = 5.0
PROBES = Patience(pause=0.3, growth=1.5, times=4)
"""For questions to a board that was connected just now: it may swallow the first command."""
RESTARTS = Patience(pause=0.5, growth=1.5, times=6)
"""For a daemon that is being started anew while something is to be ended through it: 10 s in all."""
CONFIRMATION = Patience(pause=1.0)
"""For looking whether a board's user has confirmed."""
CONNECTED = re.compile(r"Connect OK|repeat operation")
TCP_KEY = re.compile(r"[\w.-]+:\d{1,5}")


class HdcBoard:
    """A board behind hdc (implements `deploy.board.protocol.Board`).

    `read_profile` is called when something of the profile is needed: a short command needs nothing of it, and reading
    takes longer than hdc. `pause` waits the given seconds between attempts.
    """

    def __init__(
        self,
        session: Session,
        hdc: Hdc,
        serial: str,
        read_profile: Callable[[], Profile],
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        check_key(serial)
        self._session = session
        self.key = serial
        """What hdc calls the board."""
        self._serial = hdc.serial_of(serial)
        self._read_profile = read_profile
        self._pause = pause
        self.hdc = hdc
        self.lender: Lender | None = None

    def in_session(self, session: Session) -> HdcBoard:
        """The same board for another session, such as one of another thread, with a runner of its own."""
        twin = copy.copy(self)
        twin._session = session
        return twin

    @property
    def serial(self) -> str:
        return self._serial

    @property
    def host(self) -> HdcHost | None:
        return self.hdc.host

    @functools.cached_property
    def profile(self) -> Profile:
        return self._read_profile()

    @property
    def emulated(self) -> bool:
        return self.hdc.emulated

    def shell(
        self,
        script: str,
        *,
        deadline: Deadline,
        folder: str = "",
        on_output: OnOutput | None = None,
        says_start: bool = False,
    ) -> ShellResult:
        """See `Board.shell`. A script that is too long for an argument is pushed as a file first."""
        if "\0" in script:
            raise UsageError("A command for a board cannot contain a NUL character.")

        def wrap(token: str) -> str:
            return wrap_command(script, token, folder or "/", says_start=says_start)

        word = wrap(new_token())
        if len(os.fsencode(word)) >= ARGUMENT_LIMIT or (self.host is not None and not self.host.takes([word])):
            return self._shell_by_file(script, folder, deadline, on_output)
        return self._attempt(deadline, lambda: self._run_wrapped(wrap, folder, deadline, on_output))

    def send(self, local: Path, remote: str, *, deadline: Deadline) -> None:
        """See `Board.send`."""
        check_local_file(local)
        check_remote_path(remote)
        size = local.stat().st_size
        with self.hdc.source(local, deadline) as source:
            self._attempt(deadline, lambda: self._transfer("send", str(source), remote, lambda: size, deadline))

    def receive(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        """See `Board.receive`. `local` may hold a part of the file when this raises."""
        check_remote_path(remote)
        with self.hdc.target(local, deadline) as target:
            size = functools.partial(self.hdc.size_of, str(target), deadline)
            self._attempt(deadline, lambda: self._transfer("receive", remote, str(target), size, deadline))

    # attempts ------------------------------------------------------------------------------------

    def _attempt(self, deadline: Deadline, once: Callable[[], T]) -> T:
        """Calls `once`, again when hdc did nothing for a reason that passes or that can be mended."""
        pauses, mended = RETRIES.pauses(), set[str]()
        while True:
            try:
                return once()
            except Refused as refused:
                last = refused
                try:
                    if not deadline.expired and self._mend(refused, pauses, mended, deadline):
                        continue
                except Refused as again:
                    last = again
                self.give_up(last.fault)
                raise self._error(last) from None

    def give_up(self, fault: Fault | None) -> bool:
        """Leaves the board's own server so that the next command finds its way; True when that asks the board's user."""
        if fault is not None and fault.server_remembers and self._is_tcp:
            remembered = self.hdc.renew is not None
            self._free_server()
            return remembered
        if fault is not None and fault.reconnect and self.hdc.connected is not None:
            self.hdc.connected(False)
        return False

    def _mend(self, refused: Refused, pauses: Iterator[float], mended: set[str], deadline: Deadline) -> bool:
        """Does what is to be done about a refusal; False when there is nothing, or no more. Raises Refused for another."""
        fault = refused.fault
        if fault is None:
            return False
        # A refusal from before this command counts no more: its user is asked anew, by another server.
        other_server = (fault.new_server or fault.server_remembers) and self.hdc.renew is not None and self._is_tcp
        if fault.asks_user or other_server:
            if fault.id in mended:
                return False
            mended.add(fault.id)
            if fault.asks_user:
                return self._wait_for_user(deadline)
            self._free_server()
            self.reconnect(deadline)
            return True
        passes = fault.transient or (fault.reconnect and self._is_tcp)
        pause = next(pauses, None) if passes else None
        if pause is None:
            return False
        self._session.console.detail(f"{self._serial}: {what_hdc_said(refused.text)}; trying again")
        self._pause(min(pause, deadline.remaining))
        if fault.reconnect and self._is_tcp:
            self.reconnect(deadline)
        return True

    @property
    def _is_tcp(self) -> bool:
        return TCP_KEY.fullmatch(self.key) is not None and not self.emulated

    def reconnect(self, deadline: Deadline) -> None:
        """Asks hdc to connect a TCP board again, as it never does by itself; the next attempt shows whether it worked.

        Others are connected by hdc.
        """
        if not self._is_tcp:
            return
        waiting = deadline.within(10, f"hdc to connect {self._serial} again")
        said = self.hdc.call(self._session, ("tconn", self.key), deadline=waiting)
        self._session.console.detail(f"tconn {self._serial}: {what_hdc_said(said.text)}")
        if self.hdc.connected is not None and CONNECTED.search(said.text):
            self.hdc.connected(True)
        if "Connect OK" in said.text:
            with contextlib.suppress(Refused, LostConnection):
                self._probe(deadline)

    def make_ready(self, deadline: Deadline) -> None:
        """Waits until the board answers: after it was connected its user may have to confirm, and the first command
        may be swallowed. Raises BoardUnauthorised, BoardOffline, LostConnection, DeadlineExpired."""
        self._attempt(deadline, lambda: self._probe(deadline))

    def _probe(self, deadline: Deadline) -> None:
        for pause in PROBES.pauses():
            answer = MarkerReader(token := new_token())
            words = ("-t", self.key, "shell", wrap_command("true", token))
            waiting = deadline.within(PROBE_SECONDS, f"a sign of life of board {self._serial}")
            with contextlib.suppress(DeadlineExpired):
                self.hdc.call(self._session, words, deadline=waiting, on_stdout=answer.feed)
            answer.finish()
            if answer.stage is Stage.ENDED:
                return
            refused = Refused(answer.preamble.decode("utf-8", "replace").strip(), "shell")
            if refused.fault is not None:
                raise refused
            self._pause(min(pause, deadline.remaining))
        raise LostConnection(f"Board {self._serial} gave no answer to {PROBES.times} questions.")

    def _wait_for_user(self, deadline: Deadline) -> bool:
        """Waits until the board's user has confirmed; False when the time is over. Raises Refused when he refuses."""
        waiting = deadline.within(self._session.settings.timeouts.authorise, f"the user of board {self._serial}")
        self._session.console.info(confirm_request(self._serial, waiting.remaining))
        for _ in CONFIRMATION.rounds(waiting, self._pause):
            try:
                self._probe(waiting)
                return True
            except LostConnection:
                continue
            except Refused as still:
                if still.fault is None or not still.fault.asks_user:
                    raise
        return False

    def _free_server(self) -> str:
        """Ends the board's own hdc server, which may be stuck on the board; a sentence says what that means."""
        if self.hdc.renew is None:
            return (
                f"Other boards of this hdc server may hang too until {self._serial} is unplugged or `hdc kill` is run."
            )
        self.hdc = self.hdc.renew(self._session)
        return "Its own hdc server was ended, so nothing else hangs on it."

    def _error(self, refused: Refused) -> OhforgeError:
        otherwise = TransferError if refused.during in ("send", "receive") else BoardError
        subject = f"Board {self._serial}" + (f", {refused.what}" if refused.what else "")
        return make_error(refused.fault, refused.text, subject=subject, typed=self.hdc.typed, otherwise=otherwise)

    # shell ---------------------------------------------------------------------------------------

    def _run_wrapped(
        self, wrap: Callable[[str], str], folder: str, deadline: Deadline, on_output: OnOutput | None
    ) -> ShellResult:
        token = new_token()
        reader = MarkerReader(token, on_output)
        started = time.monotonic()
        words = ("-t", self.key, "shell", wrap(token))
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
            self._session.console.warn(rest_goes_on(reader, self._serial))
        except KeyboardInterrupt:
            reader.finish()
            raise Interrupted(f"Interrupted. {self._stop(reader, token)}") from None
        except HdcNotFound:
            raise
        except LostConnection as lost:
            reader.finish()
            if reader.stage is not Stage.ENDED:
                raise LostConnection(
                    f"{lost.message} {self._stop(reader, token)}", remedy=lost.remedy, output=last_lines(reader)
                ) from None
        except BaseException:
            self._session.console.detail(self._stop(reader, token))
            raise
        return self._judge(reader, token, said, folder, time.monotonic() - started)

    def _judge(self, reader: MarkerReader, token: str, said: bytes, folder: str, seconds: float) -> ShellResult:
        """What the markers prove. Without the last one nothing is known, whatever else was printed."""
        if reader.stage is Stage.NOT_STARTED:
            text = (said + b"\n" + reader.preamble).decode("utf-8", "replace").strip()
            refused = Refused(text, "shell")
            if refused.fault is not None or "[Fail]" in text:
                raise refused
            raise LostConnection(
                f"Board {self._serial} gave no answer: the command may not have been started."
                + (f" hdc said: {what_hdc_said(text)}" if text else "")
            )
        if reader.status == BAD_SCRIPT:
            raise ScriptDamaged
        return conclude(
            reader, serial=self._serial, folder=folder, seconds=seconds, stop=lambda: self._stop(reader, token)
        )

    def _shell_by_file(self, script: str, folder: str, deadline: Deadline, on_output: OnOutput | None) -> ShellResult:
        remote = f"{self.profile.device_dir}/ohforge-{new_token()}.sh"
        content = os.fsencode(script) + b"\n"
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()

        def wrap(token: str) -> str:
            return wrap_file(remote, digest, token, folder or "/")

        with spool_folder() as spare:
            local = spare / "script.sh"
            local.write_bytes(content)
            for _ in range(2):
                self.send(local, remote, deadline=deadline)
                with contextlib.suppress(ScriptDamaged):
                    return self._attempt(deadline, lambda: self._run_wrapped(wrap, folder, deadline, on_output))
        raise ContentDiffers(f"A script did not reach board {self._serial} unharmed, twice; it was not run.")

    def _stop(self, reader: MarkerReader, token: str) -> str:
        """Ends what a wrapped command still runs on the board; a sentence says whether that is certain."""
        name = f"process {reader.pid}" if reader.pid is not None else "the command"
        script = stop_unnumbered(token) if reader.pid is None else stop_command(reader.pid, token)
        ending = Deadline.after(STOP_SECONDS, f"what shall end {name}")
        pauses = RESTARTS.pauses()
        try:
            while True:
                answer = MarkerReader(own := new_token())
                words = ("-t", self.key, "shell", wrap_command(script, own))
                self.hdc.call(self._session, words, deadline=ending, on_stdout=answer.feed)
                answer.finish()
                if answer.output.split()[-1:] == [b"dead"]:
                    return f"Nothing of it runs on board {self._serial} any more."
                if answer.stage is not Stage.NOT_STARTED:
                    return f"{MAY_RUN_ON} {name} may still run on board {self._serial} (it ignores being killed)."
                text = answer.preamble.decode("utf-8", "replace")
                why = f"hdc said: {what_hdc_said(text) or 'nothing'}"
                fault = find_fault(text, "shell")
                passes = fault is None or fault.transient or (fault.reconnect and self._is_tcp)
                pause = next(pauses, None) if passes and not ending.expired else None
                if pause is None:
                    break
                self._pause(min(pause, ending.remaining))
                self.reconnect(ending)
        except DeadlineExpired as late:
            why = late.message
            if self.hdc.renew is not None:
                self._free_server()
        except Failure as error:
            why = error.message
        except KeyboardInterrupt:
            why = "ending it was interrupted too"
        command = f"ohforge board.shell --board {self._serial} 'kill -KILL -{reader.pid}'"
        how = f" When the board answers again, `{command}` ends it." if reader.pid is not None else ""
        return f"{MAY_RUN_ON} {name} may still run on board {self._serial} ({why.rstrip('.')}).{how}"

    # files ---------------------------------------------------------------------------------------

    def _transfer(
        self, direction: str, source: str, target: str, size: Callable[[], int | None], deadline: Deadline
    ) -> None:
        """One ``file send`` or ``file recv``; `size` gives the bytes of the file here, asked when hdc says that it is done."""
        verb = "send" if direction == "send" else "recv"
        words = ("-t", self.key, "file", verb, source, target)
        try:
            result = self.hdc.call(self._session, words, deadline=deadline)
        except DeadlineExpired as late:
            # A server that writes to a board which does not read serves nobody else until it is ended.
            raise DeadlineExpired(f"{late.message} {self._free_server()}", remedy=late.remedy) from None
        check_transfer(result, self._serial, direction, source, target, size)
