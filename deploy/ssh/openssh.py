"""The system's own ``ssh``, by which much goes several times as fast as by Python's encryption: a connection for each command.

It gets in just where our own connection has, or not at all. All that it knows stands in a configuration that is written
for it: the same computers on the way, users and keys, and of each computer only that key by which our connection knows it.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from core.deadline import Deadline
from core.errors import DeadlineExpired, HostToolMissing
from core.process import RealRunner
from core.spool import spool_folder
from deploy.board.script import quote
from deploy.ssh.address import Hop
from deploy.ssh.login import CONNECT_SECONDS, FAST_CIPHERS
from deploy.ssh.start_files import AfterToken

BEGIN_SECONDS = 30.0
"""Within which a command must have begun; else the connection that is there is the quicker one."""
QUESTIONS = 2
"""Whether the other end still answers, without an answer, after which a link is dead: before a transfer counts as stalled."""
USUAL_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")
LOST = 255
"""The status by which ssh tells that it is not the command's."""
FIXED = """\
Host *
  BatchMode yes
  CheckHostIP no
  ClearAllForwardings yes
  ControlMaster no
  ControlPath none
  EscapeChar none
  ForwardAgent no
  ForwardX11 no
  GlobalKnownHostsFile /dev/null
  LogLevel ERROR
  PermitLocalCommand no
  PreferredAuthentications publickey
  RequestTTY no
  StrictHostKeyChecking yes
  UpdateHostKeys no
  VerifyHostKeyDNS no
"""
"""Nothing is asked of anybody, nothing but the command's streams passes, and no key is learnt."""


class NotLetIn(Exception):
    """The command was not begun; why, as the end of a sentence."""

    def __init__(self, reason: str, *, other_key: bool = False) -> None:
        super().__init__(reason)
        self.other_key = other_key
        """Whether somebody answered who has another key than the one that is known."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """A computer that our own connection goes to or through: where it was found, and the key that it has shown."""

    hop: Hop
    address: str
    key: str
    """As in a file of known hosts: its kind and Base64."""


@dataclass(frozen=True, kw_only=True)
class OpenSsh:
    """Runs commands on the last of `way`. `silent_seconds`: after which a link by which nothing comes is taken for dead."""

    program: str
    way: Sequence[Known]
    silent_seconds: float

    @classmethod
    def find(cls, way: Sequence[Known], silent_seconds: float) -> OpenSsh | None:
        """None where there is no ``ssh``, or its configuration has no words for the names that are needed."""
        program = shutil.which("ssh")
        found = cls(program=program or "", way=way, silent_seconds=silent_seconds)
        try:
            found._configuration(Path("/"))
        except ValueError:
            return None
        return found if program is not None else None

    def run(
        self,
        command: str,
        *,
        deadline: Deadline,
        on_output: Callable[[bytes], object] | None = None,
        on_errors: Callable[[bytes], object] = lambda chunk: None,
        source: IO[bytes] | None = None,
        sink: IO[bytes] | None = None,
    ) -> int | None:
        """Runs a command line of the other side's shell; its status, None when that never came.

        It reads `source` from where that stands, and writes to `sink`, or to `on_output`; what it, and ssh, say on standard
        error comes to `on_errors`. Raises NotLetIn when it was not begun, and then nothing was written; DeadlineExpired.
        """
        token = f"OHF{secrets.token_hex(8)}"
        # What the start files of the user's shell print comes before.
        words = f"echo {token} >&2; {command}" if sink is not None else f"echo {token} >&2; echo {token}; {command}"
        output = AfterToken(token=token, hand_on=on_output or (lambda chunk: None))
        said = _Said(token=token.encode(), hand_on=on_errors)
        limit = _UntilBegun(
            at=deadline.at, seconds=deadline.seconds, waits_for=deadline.waits_for, whole=deadline, said=said
        )
        with spool_folder() as folder:
            (folder / "config").write_text(self._configuration(folder))
            known = (f"{_name(number)} {each.key}\n" for number, each in enumerate(self.way))
            (folder / "known_hosts").write_text("".join(known))
            argv = [self.program, "-F", str(folder / "config"), "--", _name(len(self.way) - 1)]
            try:
                result = RealRunner().run(
                    [*argv, f"exec /bin/sh -c {quote(words)}"],
                    deadline=limit,
                    on_stdout=output.add,
                    on_stderr=said.add,
                    stdin=source,
                    stdout=sink,
                    end_if_killed=True,
                )
            except DeadlineExpired:
                if said.begun or deadline.expired:
                    raise
                raise NotLetIn(f"no command was begun within {BEGIN_SECONDS:.0f} s") from None
            except HostToolMissing as missing:
                raise NotLetIn(missing.message) from None
        if not said.begun:
            raise NotLetIn(said.reason or f"it ended with status {result.exit_code}", other_key=said.tells_of_a_key)
        return result.exit_code if 0 <= result.exit_code < LOST else None

    def _configuration(self, folder: Path) -> str:
        """Raises ValueError for a name that cannot be written there."""
        interval = max(1, round(self.silent_seconds / (QUESTIONS + 2)))
        return FIXED + "\n".join(
            [
                f"  ConnectTimeout {CONNECT_SECONDS:.0f}",
                f"  ServerAliveInterval {interval}",
                f"  ServerAliveCountMax {QUESTIONS}",
                f"  UserKnownHostsFile {_word(folder / 'known_hosts')}",
                *(line for number in range(len(self.way)) for line in self._host(number)),
                "",
            ]
        )

    def _host(self, number: int) -> Iterator[str]:
        known = self.way[number]
        hop = known.hop
        yield f"Host {_name(number)}"
        yield f"  HostName {_word(known.address)}"
        yield f"  HostKeyAlias {_name(number)}"
        yield f"  Port {hop.port}"
        yield f"  User {_plain(hop.user)}"
        yield f"  Ciphers {_plain(hop.ciphers or '^' + ','.join(FAST_CIPHERS))}"
        usual = (Path("~/.ssh").expanduser() / name for name in USUAL_KEYS)
        keys = [str(key) for key in (*map(Path, hop.keys), *usual) if key.is_file()]
        yield from (f"  IdentityFile {_word(key)}" for key in keys or ["none"])
        if hop.agent is not None:
            yield f"  IdentityAgent {_word(hop.agent) if hop.agent else 'none'}"
        if number:
            yield f"  ProxyJump {_name(number - 1)}"
        elif hop.command:
            yield f"  ProxyCommand {hop.command.replace('%', '%%')}"


def _name(number: int) -> str:
    return f"ohforge-{number}"


def _word(value: str | Path) -> str:
    """A value of those kinds in which a percent sign begins what is filled in."""
    return _quoted(str(value).replace("%", "%%"))


def _plain(text: str) -> str:
    """A value of those kinds that differ between versions in what a percent sign does."""
    return _quoted(text if "%" not in text else "")


def _quoted(text: str) -> str:
    if not text or re.search(r'["\\\n\r]|\$\{', text):
        raise ValueError(f"the configuration of ssh has no words for {text!r}")
    return f'"{text}"'


@dataclass(kw_only=True)
class _Said:
    """What comes on standard error: a token when the command begins, and before it what ssh says. What follows is handed on."""

    token: bytes
    hand_on: Callable[[bytes], object]
    text: bytes = b""
    begun: bool = False
    started: float = field(default_factory=time.monotonic)

    def add(self, chunk: bytes) -> None:
        if not self.begun:
            self.text += chunk
            _, begins, chunk = self.text.partition(self.token)
            self.begun = bool(begins)
        if self.begun:
            self.hand_on(chunk)

    @property
    def reason(self) -> str:
        lines = [line.strip(" .@\r") for line in self.text.decode("utf-8", "replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")

    @property
    def tells_of_a_key(self) -> bool:
        return b"Host key verification failed" in self.text


@dataclass(frozen=True, kw_only=True)
class _UntilBegun(Deadline):
    """A deadline that comes early when a command does not begin."""

    whole: Deadline
    said: _Said

    @property
    def remaining(self) -> float:
        left = self.whole.remaining
        if self.said.begun:
            return left
        return min(left, max(0.0, self.said.started + BEGIN_SECONDS - time.monotonic()))

    def error(self) -> DeadlineExpired:
        return self.whole.error()
