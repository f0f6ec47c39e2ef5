"""A command for a board, wrapped so that its exit status comes back through hdc, which never carries it.

hdc ends with status 0 whatever happened on the board. So the wrapper prints two markers with a random token:
``TOKEN:P:<pid>:<secret>`` before the command and ``<secret>:X:<status>`` after it. No ``X`` marker means that nobody knows how
the command ended. In the wrapper the token stands only as a variable's value, so no echo of the script (``set -x``,
``ps``) can be taken for a marker. The secret is random and made on the board, because whatever runs there can read the
wrapper in ``/proc``; it is told before the command begins, and stands in no command line, no environment and no file.
A kernel that does not give one leaves it at the token. The last marker follows the output directly, without a newline of its own, so that
every line of output can be handed on at once.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from core.deadline import Deadline
from core.errors import DeadlineExpired, LostConnection, RemoteFolderMissing
from core.process import OnOutput
from deploy.board.protocol import ShellResult

ARGUMENT_LIMIT = 60_000
"""Bytes that a script may have as an argument of hdc: from 61 438 on it arrives empty, with status 0."""
LINGER_SECONDS = 2.0
"""How long hdc may go on after the marker: something in the background still holds the output open."""
KEEP_OUTPUT = 4 * 1024 * 1024
KEEP_PREAMBLE = 64 * 1024
RANDOM = "/proc/sys/kernel/random/uuid"
"""Gives another 122 random bits each time it is read, to a shell without any program."""
NO_FOLDER = "C"
BAD_SCRIPT = "S"


def new_token() -> str:
    return f"OHF{secrets.token_hex(8)}"


def quote(text: str) -> str:
    """`text` as one word of a POSIX shell."""
    if re.fullmatch(r"[\w@%+=:,./-]+", text, re.ASCII):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def wrap_command(command: str, token: str, folder: str = "/", *, says_start: bool = False) -> str:
    """The one argument of ``hdc shell`` that runs `command` by a shell of its own, in `folder`, with closed input.

    The shell of hdc leads a process group, and only it is told (SIGTERM) when the link or the client ends: its trap
    hands that on to the whole group. ``wait`` stands there because a trap runs at once in it, while a foreground
    command would hold the trap back. The blank at the end makes hdc quote the argument as a whole.
    A group's number follows ``kill -TERM`` directly: dash and busybox take no ``--`` there.

    With `says_start` the first marker is left to `command`, as ``$_started``: what it prints together with that comes 40 ms
    earlier over TCP, where a second small packet waits until the first is acknowledged.
    """
    if says_start:
        return _around(f"({command}\n)", token, folder, start="_started=")
    return _around(f"sh -c {quote(command)}", token, folder)


def wrap_file(path: str, md5: str, token: str, folder: str = "/") -> str:
    """As `wrap_command`, for a script that was pushed to `path`, because it is too long for an argument.

    The file is only run when its MD5 is `md5`, for a transfer may change bytes, and it is removed in any case.
    """
    name = quote(path)
    check = f'case "$(md5sum <{name})" in {md5}*) ;; *) rm -f {name}; echo $_ok:X:{BAD_SCRIPT}; exit;; esac; '
    return _around(f"sh {name}", token, folder, before=check, after=f"rm -f {name}; ")


def _around(command: str, token: str, folder: str, *, start: str = "echo ", before: str = "", after: str = "") -> str:
    hand_on = 'trap "" TERM; kill -TERM -$$; sleep 1; kill -KILL -$$'
    return (
        f"_oh={token}; _ok=; read -r _ok 2>/dev/null <{RANDOM}; : ${{_ok:=$_oh}}; {start}$_oh:P:$$:$_ok; {before}"
        f"cd {quote(folder)} 2>/dev/null || {{ echo $_ok:X:{NO_FOLDER}; exit; }}; "
        f"trap '{hand_on}' TERM; "
        f"{command} </dev/null & wait $! 2>/dev/null; _st=$?; trap - TERM; {after}echo $_ok:X:$_st "
    )


def stop_command(pid: int, token: str) -> str:
    """A script that ends the process group `pid` of a wrapped command and says ``dead`` or ``alive``.

    A number may be in use again by now, so nothing is touched when the leader has another command line. A leader
    that is gone or a zombie (no command line) is ours: while its group lives its number is not given away.
    """
    line = "/proc/$p/cmdline"
    return (
        f"p={pid}; "
        f"if grep -qz . {line} 2>/dev/null && ! grep -qz {token} {line} 2>/dev/null; then echo dead; exit; fi; "
        "kill -TERM -$p 2>/dev/null; n=0; "
        "while kill -0 -$p 2>/dev/null; do n=$((n+1)); "
        "[ $n -ge 5 ] && kill -KILL -$p 2>/dev/null; "
        f"[ $n -ge 25 ] && {{ {_ANY_LEFT}; exit; }}; "
        "sleep 0.2 2>/dev/null || sleep 1; done; echo dead"
    )


_ANY_LEFT = (
    # Zombies that nobody collects keep the group, but do not run. Fields after the name: state, parent, group.
    "for f in /proc/[0-9]*/stat; do read -r l <$f || continue; set -- ${l##*\\) }; "
    '[ "$3" = $p ] && [ "$1" != Z ] && { echo alive; exit; }; done 2>/dev/null; echo dead'
)


def stop_unnumbered(token: str) -> str:
    """As `stop_command`, for a command whose ``P`` marker never came: it is looked for by the token in its command line.

    The pattern is written so that it does not fit the command line of the search itself.
    """
    pattern = f"[{token[0]}]{token[1:]}"
    return (
        f"for p in $(pgrep -f '{pattern}'); do kill -TERM -$p 2>/dev/null; done; sleep 1; "
        f"for p in $(pgrep -f '{pattern}'); do kill -KILL -$p 2>/dev/null; kill -KILL $p 2>/dev/null; done; "
        f"sleep 1; if [ -n \"$(pgrep -f '{pattern}')\" ]; then echo alive; else echo dead; fi"
    )


class KeptEnd:
    """The end of a stream that may be endless: at least its last `KEEP_OUTPUT` bytes, all of it when it is shorter."""

    def __init__(self) -> None:
        self.truncated = False
        self._kept = bytearray()

    @property
    def content(self) -> bytes:
        return bytes(self._kept)

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        if len(self._kept) > 2 * KEEP_OUTPUT:
            del self._kept[:-KEEP_OUTPUT]
            self.truncated = True


class Stage(Enum):
    """How far the output of a wrapped command has come."""

    NOT_STARTED = "not started"
    RUNNING = "running"
    ENDED = "ended"


class MarkerReader:
    """Takes the raw output of a wrapped command in chunks of any size and parts it from the marker lines.

    What the command printed is handed on at once, byte for byte, except what might be the beginning of the marker;
    its last `KEEP_OUTPUT` bytes are kept. What hdc itself said before the command began is `preamble`.
    """

    def __init__(self, token: str, on_output: OnOutput | None = None) -> None:
        self.stage = Stage.NOT_STARTED
        self.pid: int | None = None
        self.status = ""
        self.preamble = b""
        self.ended_at: float | None = None
        """When the last marker came, on the monotonic clock."""
        self._first = re.compile(rb"(?:^|\n)" + token.encode() + rb":P:(\d+)(?::([\w-]+))?\r?\n")
        self._token = token.encode()
        self._last = b""
        self._kept = KeptEnd()
        self._pending = b""
        self._hand_on = on_output

    @property
    def output(self) -> bytes:
        return self._kept.content

    @property
    def truncated(self) -> bool:
        return self._kept.truncated

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        if self.stage is Stage.ENDED:
            return
        self._pending += chunk
        if self.stage is Stage.NOT_STARTED:
            self._look_for_start()
        if self.stage is Stage.RUNNING:
            self._look_for_end()

    def finish(self) -> None:
        """Says that no more will come: what was held back is handed on."""
        if self.stage is Stage.RUNNING:
            self._emit(self._pending)
        elif self.stage is Stage.NOT_STARTED:
            self.preamble = self._pending
        self._pending = b""

    def _look_for_start(self) -> None:
        found = self._first.search(self._pending)
        if found is None:
            self._pending = self._pending[-KEEP_PREAMBLE:]
            return
        self.preamble = self._pending[: found.start()]
        self.pid = int(found[1])
        self._last = (found[2] or self._token) + b":X:"
        self._pending = self._pending[found.end() :]
        self.stage = Stage.RUNNING

    def _look_for_end(self) -> None:
        at = self._pending.find(self._last)
        if at < 0:
            at = len(self._pending) - _overlap(self._pending, self._last)
            self._emit(self._pending[:at])
            self._pending = self._pending[at:]
            return
        self._emit(self._pending[:at])
        self._pending = self._pending[at:]
        line_end = self._pending.find(b"\n", len(self._last))
        if line_end < 0:
            return
        self.status = self._pending[len(self._last) : line_end].strip().decode("ascii", "replace")
        self._pending = b""
        self.stage = Stage.ENDED
        self.ended_at = time.monotonic()

    def _emit(self, text: bytes) -> None:
        if not text:
            return
        self._kept.add(text)
        if self._hand_on is not None:
            self._hand_on(text)


def _overlap(text: bytes, marker: bytes) -> int:
    """Length of the longest end of `text` that `marker` begins with."""
    for length in range(min(len(text), len(marker) - 1), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0


@dataclass(frozen=True, kw_only=True)
class UntilMarker(Deadline):
    """A deadline that comes soon after the marker has come."""

    whole: Deadline
    reader: MarkerReader

    @classmethod
    def of(cls, whole: Deadline, reader: MarkerReader) -> UntilMarker:
        return cls(at=whole.at, seconds=whole.seconds, waits_for=whole.waits_for, whole=whole, reader=reader)

    @property
    def remaining(self) -> float:
        left = self.whole.remaining
        if self.reader.ended_at is None:
            return left
        return min(left, max(0.0, self.reader.ended_at + LINGER_SECONDS - time.monotonic()))

    def error(self) -> DeadlineExpired:
        return self.whole.error()


def last_lines(reader: MarkerReader) -> str:
    """The end of what a command printed, for a message."""
    return "\n".join(reader.output.decode("utf-8", "replace").splitlines()[-10:])


def rest_goes_on(reader: MarkerReader, serial: str) -> str:
    """A sentence for when the output goes on after the command's end: somebody holds it open, or much is on its way."""
    return (
        f"the command has ended, but something that it started still runs on board {serial}, with the output "
        f"open (`kill -KILL -{reader.pid}` there ends it), or the link is slow"
    )


def conclude(reader: MarkerReader, *, serial: str, folder: str, seconds: float, stop: Callable[[], str]) -> ShellResult:
    """What the markers of a command that was begun prove. Without the last one nothing is known, whatever was printed.

    `stop` ends what may still run, and gives a sentence on that. Raises RemoteFolderMissing, LostConnection.
    """
    if reader.status == NO_FOLDER:
        raise RemoteFolderMissing(f"Board {serial} has no folder {folder}.")
    if not re.fullmatch(r"\d{1,3}", reader.status):
        raise LostConnection(
            f"The link to board {serial} ended while a command ran: how it ended is not known. {stop()}",
            output=last_lines(reader),
        )
    return ShellResult(exit_code=int(reader.status), output=reader.output, seconds=seconds, truncated=reader.truncated)
