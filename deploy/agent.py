"""The agent: our helper program on a board (``native/agent``), as the host sees it.

It answers with what a shell cannot: standard output and error apart, exit code and signal apart, what the program
used, and SHA-256 at the speed of the CPU's own instructions. A board that cannot execute it is used without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import BuildError, OhforgeError, RunError, ToolchainError, UsageError
from core.process import OnOutput
from core.session import Session
from deploy.agent_frames import AGENT_VERSION, AgentReport, FrameDecoder, Sample
from deploy.board import Board
from deploy.script import quote

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "ohforge-agent"
ANSWER_SECONDS = 30.0
COMMAND_LIMIT = 50_000
"""Bytes of one command line; hdc drops what is longer than about 60 000."""
HASH_BYTES_PER_SECOND = 20e6
REPORT_SECONDS = 3.0
"""What the agent needs after its own deadline to end everything and to say so."""


@dataclass(frozen=True, kw_only=True)
class AgentHandle:
    """An agent that is on a board and was seen to run there. `engine` is what its SHA-256 works with."""

    path: str
    arch: str
    engine: str


@dataclass(frozen=True, kw_only=True)
class AgentRun:
    """A program to be run by the agent. `words` are the program and its arguments; the rest is left as it is by default."""

    words: Sequence[str]
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    """Variables to be removed."""
    seconds: float = 0.0
    """Deadline on the board; 0: somewhat less than what the call itself is given."""
    grace_seconds: float = 2.0
    """From SIGTERM to SIGKILL."""
    cpus: str = ""
    """CPUs that it may run on, such as ``0-3,6``."""
    nice: int | None = None
    limits: Mapping[str, str | int] = field(default_factory=dict)
    """Limits by their names in ulimit's manual (``as``, ``core``, ``nofile`` …), in bytes or pieces, or ``unlimited``."""
    sample_seconds: float = 0.0
    """Time between two samples of the board; 0: none are taken."""


@dataclass(frozen=True, kw_only=True)
class RemoteHash:
    """What the agent says of one file: its SHA-256 and size in bytes, or an errno."""

    sha256: str = ""
    size: int = 0
    errno: int = 0

    @property
    def error(self) -> str:
        return os.strerror(self.errno) if self.errno else ""


def agent_for(session: Session, board: Board) -> AgentHandle | None:
    """The agent on `board`, built and put there when needed; None when the board cannot run it.

    A run without it is right as well, so nothing is raised for want of it: the reason is shown with --verbose.
    Raises LostConnection and whatever else means that the board is gone.
    """
    for arch in board.profile.arches:
        try:
            program, sha256 = _build(session, arch)
        except (BuildError, ToolchainError) as error:
            session.console.detail(f"no agent for {arch}: {error.message}")
            continue
        handle = _ask(session, board, _path(board, arch, sha256)) or _place(session, board, arch, program, sha256)
        if handle is not None:
            return handle
    session.console.detail(f"board {board.serial} is used without the agent")
    return None


def run_program(
    board: Board,
    handle: AgentHandle,
    run: AgentRun,
    *,
    deadline: Deadline,
    on_stdout: OnOutput | None = None,
    on_stderr: OnOutput | None = None,
    on_sample: Callable[[Sample], None] | None = None,
) -> AgentReport:
    """Runs a program by the agent and says how it ended, whatever its status; output is handed on as it comes.

    Raises DeadlineExpired, LostConnection (nobody knows how it ended), RunError (the agent itself failed),
    ContentDiffers (output was changed on its way).
    """
    decoder = FrameDecoder(on_stdout=on_stdout, on_stderr=on_stderr, on_sample=on_sample)
    seconds = run.seconds or max(1.0, deadline.remaining - run.grace_seconds - REPORT_SECONDS)
    board.shell(run_command(handle, run, seconds=seconds), deadline=deadline, on_output=decoder.feed)
    return decoder.finish()


def run_command(handle: AgentHandle, run: AgentRun, *, seconds: float) -> str:
    """The command line for the board's shell. Raises UsageError for what cannot be said in it."""
    return _command_line(run_words(handle, run, seconds=seconds))


def run_words(handle: AgentHandle, run: AgentRun, *, seconds: float) -> list[str]:
    """The same as words, for a script that quotes them itself; `seconds` is the deadline on the board."""
    if not run.words:
        raise UsageError("There is no program to be run.")
    words = [handle.path, "run", f"--deadline={_milliseconds(seconds)}", f"--grace={_milliseconds(run.grace_seconds)}"]
    words += [f"--sample={_milliseconds(run.sample_seconds)}"] if run.sample_seconds else []
    words += [f"--cwd={run.folder}"] if run.folder else []
    words += [f"--cpus={run.cpus}"] if run.cpus else []
    words += [f"--nice={run.nice}"] if run.nice is not None else []
    words += [f"--limit={name}={value}" for name, value in run.limits.items()]
    words += [f"--unset={name}" for name in run.unset]
    words += [f"--env={name}={value}" for name, value in run.environment.items()]
    return [*words, "--", *run.words]


def hash_files(
    board: Board, handle: AgentHandle, files: Mapping[str, int], *, deadline: Deadline
) -> dict[str, RemoteHash]:
    """SHA-256 of files on the board, in as few calls as fit; `files` maps paths to the sizes that are expected.

    Raises DeadlineExpired, LostConnection, RunError when the agent does not answer for every file.
    """
    found: dict[str, RemoteHash] = {}
    for batch in _batches(handle, list(files)):
        seconds = ANSWER_SECONDS + sum(files[path] for path in batch) / HASH_BYTES_PER_SECOND
        waiting = deadline.within(seconds, f"the hashes of {len(batch)} files on board {board.serial}")
        result = board.shell(_command_line([handle.path, "hash", "--", *batch]), deadline=waiting)
        found.update(read_hashes(result.text, batch))
    return found


def read_hashes(text: str, paths: Sequence[str]) -> dict[str, RemoteHash]:
    """Takes apart what ``hash`` prints: one line for each path, in their order. Raises RunError when it is not so."""
    lines = [line.rstrip("\r").split(" ", 2) for line in text.split("\n") if line.strip()]
    if [line[-1] for line in lines] != list(paths) or any(len(line) != 3 or not line[1].isdigit() for line in lines):
        raise RunError(f"The agent did not answer for {len(paths)} file(s); it said: {text[-300:]!r}.")
    return {
        path: RemoteHash(errno=int(number)) if digest == "-" else RemoteHash(sha256=digest, size=int(number))
        for digest, number, path in lines
    }


def _build(session: Session, arch: str) -> tuple[Path, str]:
    from native.build import BuildRequest, ensure_built

    artifact = ensure_built(session, BuildRequest(target="agent", arch=arch, static=True)).artifact
    product = artifact.product(PROGRAM)
    return artifact.path_of(product), product.sha256


def _path(board: Board, arch: str, sha256: str) -> str:
    """Named by its content, so that a newer agent never takes the place of one that runs."""
    return f"{board.profile.device_dir}/ohforge/agent/{PROGRAM}-{arch}-{sha256[:16]}"


def _place(session: Session, board: Board, arch: str, program: Path, sha256: str) -> AgentHandle | None:
    from deploy.transfer import FileToPlace, place_files

    folder, name = _path(board, arch, sha256).rsplit("/", 1)
    try:
        place_files(session, board, [FileToPlace(local=program, name=name, executable=True, sha256=sha256)], folder)
    except OhforgeError as error:
        session.console.detail(f"the agent for {arch} could not be put on board {board.serial}: {error.message}")
        return None
    return _ask(session, board, f"{folder}/{name}")


def _ask(session: Session, board: Board, path: str) -> AgentHandle | None:
    """The agent at `path` when it answers there, which shows that it can be executed."""
    deadline = Deadline.after(ANSWER_SECONDS, f"the agent on board {board.serial}")
    result = board.shell(f"{quote(path)} version", deadline=deadline)
    try:
        answer = json.loads(result.text)
        if answer["agent"] == AGENT_VERSION:
            return AgentHandle(path=path, arch=answer["arch"], engine=answer["sha256"])
    except (ValueError, KeyError, TypeError):
        session.console.detail(f"no agent at {path}: {result.text.strip()[-200:]} (status {result.exit_code})")
    return None


def _batches(handle: AgentHandle, paths: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    length = start = len(_quoted([handle.path, "hash", "--"]))
    for path in paths:
        if "\n" in path:
            raise UsageError(f"The path {path!r} has a newline in it.")
        size = len(quote(path).encode()) + 1
        if batch and length + size > COMMAND_LIMIT:
            yield batch
            batch, length = [], start
        batch.append(path)
        length += size
    if batch:
        yield batch


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000)) if seconds > 0 else 0


def _command_line(words: Sequence[str]) -> str:
    line = _quoted(words)
    if "\0" in line:
        raise UsageError("A NUL character cannot be passed to a program.")
    return line


def _quoted(words: Sequence[str]) -> str:
    return " ".join(quote(word) for word in words)
