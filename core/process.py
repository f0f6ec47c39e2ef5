"""The one way in which ohforge runs other programs.

Each runs in a process group of its own, with closed standard input and a deadline; its output is
streamed to a callback and kept; the whole group is ended when the time is over, when the user
presses Ctrl-C, or when the callback raises. Who presses it again and again has no patience, but nothing is left running.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from core.deadline import Deadline
from core.errors import HostToolMissing
from core.interrupts import interrupts_held
from core.last_will import SHELL, done_if_killed

OnOutput = Callable[[bytes], object]
KEEP_BYTES = 16 * 1024 * 1024
GRACE_SECONDS = 2.0
LOOK_SECONDS = 0.2
"""How often a deadline is looked at, which may have been drawn in."""
_running: set[subprocess.Popen[bytes]] = set()
"""What was started and has not been seen to end."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a program ended. `exit_code` is negative for a signal, as in `subprocess`."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    truncated: bool = False
    """True when more than `KEEP_BYTES` came on a stream: then the kept bytes are its end."""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    def last_lines(self, count: int = 10) -> str:
        """The end of what was printed, stderr after stdout: what a person wants to see of a failure."""
        both = (self.text.rstrip() + "\n" + self.error_text.rstrip()).strip()
        return "\n".join(both.splitlines()[-count:])


class Runner(Protocol):
    """Runs programs on the host; `RealRunner` is the real one, `core.testing.FakeRunner` the one for tests."""

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        deadline: Deadline,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        stdin: bytes | None = None,
    ) -> Result: ...


class RealRunner:
    """Runs programs for real. `echo` is told each command line before it starts."""

    def __init__(self, echo: Callable[[str], None] | None = None) -> None:
        self._echo = echo

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        deadline: Deadline,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        stdin: bytes | IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        end_if_killed: bool = False,
    ) -> Result:
        """Runs `argv` and returns how it ended, whatever its exit status.

        `env` is added to this process's environment; an empty value removes the name. `stdin` is
        the whole input, or a file that the program itself reads from where that stands; without it the program reads
        end-of-file at once. With `stdout` it writes to that file, and nothing of it is kept. With `end_if_killed` it is
        ended as soon as this process is dead, however it died.

        Raises HostToolMissing when the program does not exist, DeadlineExpired (with what was printed so far
        in ``details``) when the time is over.
        """
        words = tuple(os.fspath(word) for word in argv)
        if self._echo is not None:
            self._echo(f"+ {shlex.join(words)}")
        started = time.monotonic()
        process = _start(words, cwd, env, subprocess.PIPE if isinstance(stdin, bytes) else stdin, stdout)
        streams = {process.stdout: _Kept(on_stdout), process.stderr: _Kept(on_stderr)}
        try:
            with _ended_if_killed(process) if end_if_killed else contextlib.nullcontext():
                if not _pump(process, streams, stdin if isinstance(stdin, bytes) else b"", deadline):
                    raise deadline.error()
        except BaseException:
            end_group(process)
            raise
        finally:
            if process.returncode is not None:
                _running.discard(process)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        kept_out, kept_err = streams[process.stdout], streams[process.stderr]
        return Result(
            argv=words,
            exit_code=process.returncode,
            stdout=bytes(kept_out.data),
            stderr=bytes(kept_err.data),
            seconds=time.monotonic() - started,
            truncated=kept_out.dropped or kept_err.dropped,
        )


class _Kept:
    """One stream's output: handed on at once, and its last `KEEP_BYTES` kept."""

    def __init__(self, hand_on: OnOutput | None) -> None:
        self.data = bytearray()
        self.dropped = False
        self._hand_on = hand_on

    def add(self, chunk: bytes) -> None:
        self.data += chunk
        if len(self.data) > 2 * KEEP_BYTES:
            del self.data[:-KEEP_BYTES]
            self.dropped = True
        if self._hand_on is not None:
            self._hand_on(chunk)


def _start(
    words: tuple[str, ...],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdin: int | IO[bytes] | None,
    stdout: IO[bytes] | None,
) -> subprocess.Popen[bytes]:
    merged = {**os.environ, **(env or {})}
    for name in [name for name, value in (env or {}).items() if value == ""]:
        del merged[name]
    try:
        with interrupts_held():
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=merged,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE if stdout is None else stdout,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            _running.add(process)
            return process
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise
        raise HostToolMissing(f"The program {words[0]!r} is not on this machine.") from error
    except PermissionError as error:
        raise HostToolMissing(
            f"The program {words[0]!r} may not be executed.", remedy="Check its mode bits and the mount options."
        ) from error


def _pump(
    process: subprocess.Popen[bytes],
    streams: Mapping[IO[bytes] | None, _Kept],
    stdin: bytes,
    deadline: Deadline,
) -> bool:
    """Moves bytes until all streams end and the process is gone; False when the time was over first."""
    to_write = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        for pipe in streams:
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            if deadline.expired:
                return False
            for key, _ in selector.select(min(deadline.remaining, LOOK_SECONDS)):
                if key.fileobj is process.stdin:
                    to_write = _write_some(process, selector, to_write)
                    continue
                chunk = os.read(key.fd, 65536)
                if chunk:
                    streams[key.fileobj].add(chunk)  # type: ignore[index]
                else:
                    selector.unregister(key.fileobj)
    try:
        process.wait(timeout=deadline.remaining)
    except subprocess.TimeoutExpired:
        return False
    return True


def _write_some(process: subprocess.Popen[bytes], selector: selectors.BaseSelector, to_write: memoryview) -> memoryview:
    assert process.stdin is not None
    try:
        to_write = to_write[os.write(process.stdin.fileno(), to_write[:65536]) :]
    except BrokenPipeError:
        to_write = memoryview(b"")
    if not to_write:
        selector.unregister(process.stdin)
        process.stdin.close()
    return to_write


def _ended_if_killed(process: subprocess.Popen[bytes]) -> contextlib.AbstractContextManager[None]:
    return done_if_killed([SHELL, "-c", 'kill -KILL "-$0"', str(process.pid)])


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all of its group: SIGTERM, a grace period, then SIGKILL; that at once when this is interrupted."""
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not _signal_group(process, number):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GRACE_SECONDS)
    except BaseException:
        _signal_group(process, signal.SIGKILL)
        raise
    process.poll()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """False when nothing of the group is there."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def usable_cores() -> int:
    """How many cores this process may use; macOS does not tell, so there it is how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def kill_all_running() -> None:
    """Kills whatever this process has started and has not seen to end."""
    for process in list(_running):
        _signal_group(process, signal.SIGKILL)


atexit.register(kill_all_running)
