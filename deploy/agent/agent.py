"""The agent: our helper program on a board (``native/programs/agent``), as the host sees it.

It answers with what a shell cannot: standard output and error apart, exit code and signal apart, what the program
used, and SHA-256 at the speed of the CPU's own instructions. A board that cannot execute it is used without it.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.deadline import Deadline
from core.dry import Would
from core.errors import BuildError, Failure, LostConnection, ToolchainError
from core.files import sha256_file, sha256_folder, write_json
from core.session import Session
from deploy.agent.frames import AGENT_VERSION, checked_text
from deploy.board.protocol import Board
from deploy.board.script import quote
from deploy.board.survey import Survey
from native.programs import PROGRAMS
from toolchains.host_toolchain import ToolchainChoice

PlaceProgram = Callable[[Session, Board, Path, str, str], None]
"""Puts a program, whose SHA-256 comes last, at a path of a board."""
BuiltAgents = dict[str, tuple[Path, str]]
"""Program and SHA-256 by arch."""
RECIPE = "agent"
PROGRAM = "ohforge-agent"
ANSWER_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class AgentHandle:
    """An agent that is on a board and was seen to run there. `engine` is what its SHA-256 works with."""

    path: str
    arch: str
    engine: str


@dataclass(frozen=True, kw_only=True)
class NoAgent:
    """Why a board is used without an agent, as the rest of a sentence."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class AgentRun:
    """How the agent is to run a program; what is not said is left as it is."""

    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    """Variables to be removed."""
    grace_seconds: float = 2.0
    """From SIGTERM to SIGKILL."""
    cpus: str = ""
    """CPUs that it may run on, such as ``0-3,6``."""
    nice: int | None = None
    limits: Mapping[str, str | int] = field(default_factory=dict)
    """Limits by their names in ulimit's manual (``as``, ``core``, ``nofile`` …), in bytes or pieces, or ``unlimited``."""
    sample_seconds: float = 0.0
    """Time between two samples of the board; 0: none are taken."""
    pin: bool = False
    """Whether the clocks of the CPUs are fixed meanwhile."""
    merge: bool = False
    """Both streams in the order of writing, all as standard output."""


def agents_for_hashing(session: Session, board: Board) -> list[str]:
    """As `agents_to_ask_for`; none when the setting ``ohforge.run_engine`` is to do without."""
    return agents_to_ask_for(session, board) if session.settings.run_engine != "shell" else []


def agents_to_ask_for(session: Session, board: Board) -> list[str]:
    """Where agents that are built already would lie on `board`, for the survey: so that none costs a command of its own."""
    return [agent_path(board, arch, sha256) for arch, (_, sha256) in _built(session).items()]


def running_agent(survey: Survey) -> AgentHandle | None:
    """The agent that answered in `survey`, which shows that it runs there; none is built or sent."""
    answers = (_read_answer(path, text) for path, text in survey.agents.items())
    return next((handle for handle in answers if handle is not None), None)


def find_agent(
    session: Session, board: Board, survey: Survey, *, place: PlaceProgram, build: bool = True
) -> AgentHandle | NoAgent:
    """The agent on `board`: the one that answered in `survey`, else it is built and put there by `place` when that is possible.

    Without `build` one that is built already is put there, and no other.
    Raises LostConnection and whatever else means that the board is gone; a run without an agent is right as well.
    """
    running = running_agent(survey)
    if running is not None:
        return running
    reasons = []
    for arch in survey.arches:
        if not build and arch not in _built(session):
            reasons.append(f"it is not built for {arch}")
            continue
        try:
            program, sha256 = build_agent(session, arch)
        except (BuildError, ToolchainError) as error:
            reasons.append(f"it cannot be built for {arch}: {error.message}")
            continue
        path = agent_path(board, arch, sha256)
        if path in survey.agents:  # It is there and does not run; sending it again would change nothing.
            reasons.append(f"it does not run there: {survey.agents[path] or 'it said nothing'}")
            continue
        found = _put(session, board, place, path, program, sha256)
        if isinstance(found, AgentHandle):
            return found
        reasons.append(found.reason)
    return NoAgent(reason="; ".join(dict.fromkeys(reasons)) or f"there is none for {survey.machine}")


def would_put_agent(session: Session, board: Board, survey: Survey) -> list[Would]:
    """What `find_agent` would build and send first; of a board that was not asked, its profile tells the arches."""
    if running_agent(survey) is not None:
        return []
    built = _built(session)
    for arch in survey.arches or board.profile.arches:
        what, where = f"the agent for {arch}", f"board {board.serial}"
        if arch not in built:
            return [Would(action="build", what=what), Would(action="send", what=what, where=where)]
        program, sha256 = built[arch]
        path = agent_path(board, arch, sha256)
        if path not in survey.agents:
            why = "" if survey.arches else "unless it is there"
            size = program.stat().st_size
            return [Would(action="send", what=what, size=size, where=f"{where}, {path}", why=why)]
    return []


def run_options(run: AgentRun, *, seconds: float) -> list[str]:
    """The words between the agent and ``--`` with the program; `seconds` is the deadline on the board."""
    words = ["run", f"--deadline={_milliseconds(seconds)}", f"--grace={_milliseconds(run.grace_seconds)}"]
    words += [f"--sample={_milliseconds(run.sample_seconds)}"] if run.sample_seconds else []
    words += ["--pin"] if run.pin else []
    words += ["--merge"] if run.merge else []
    words += [f"--cwd={run.folder}"] if run.folder else []
    words += [f"--cpus={run.cpus}"] if run.cpus else []
    words += [f"--nice={run.nice}"] if run.nice is not None else []
    words += [f"--limit={name}={value}" for name, value in run.limits.items()]
    words += [f"--unset={name}" for name in run.unset]
    words += [f"--env={name}={value}" for name, value in run.environment.items()]
    return words


def build_agent(session: Session, arch: str) -> tuple[Path, str]:
    """The agent for `arch` and its SHA-256. It is kept in the cache: it belongs to no folder that somebody works in."""
    known = _built(session)
    if arch in known:
        return known[arch]
    from native.build.ensure import BuildRequest, ensure_built

    building = session.quietly().with_settings(build_dir=str(session.settings.cache / "agent"))
    request = BuildRequest(target=RECIPE, choice=ToolchainChoice(arch=arch, static=True))
    artifact = ensure_built(building, request).artifact
    product = artifact.product(PROGRAM)
    rows = {name: [str(path), digest] for name, (path, digest) in known.items()}
    rows[arch] = [str(artifact.path_of(product)), product.sha256]
    write_json(_note(session), {"sources": _sources(), "agents": rows})
    return artifact.path_of(product), product.sha256


def _built(session: Session) -> BuiltAgents:
    """The agents that are built from the present sources, by arch. Which toolchain built one does not matter."""
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        note = json.loads(_note(session).read_text(encoding="utf-8"))
        if note["sources"] == _sources():
            rows = {arch: (Path(path), digest) for arch, (path, digest) in note["agents"].items()}
            return {arch: row for arch, row in rows.items() if row[0].is_file() and sha256_file(row[0]) == row[1]}
    return {}


def _note(session: Session) -> Path:
    return session.settings.cache / "agent" / "built.json"


@functools.cache
def _sources() -> str:
    return sha256_folder(PROGRAMS / RECIPE)


def agent_path(board: Board, arch: str, sha256: str) -> str:
    """Named by its content, so that a newer agent never takes the place of one that runs."""
    return f"{board.profile.device_dir}/ohforge/agent/{PROGRAM}-{arch}-{sha256[:16]}"


def _put(
    session: Session, board: Board, place: PlaceProgram, path: str, program: Path, sha256: str
) -> AgentHandle | NoAgent:
    """Puts the agent on the board and asks it for its version, which shows that it can be executed there."""
    try:
        place(session.quietly(), board, program, path, sha256)
    except LostConnection:
        raise
    except Failure as error:
        return NoAgent(reason=f"it could not be put on the board: {error.message}")
    deadline = Deadline.after(ANSWER_SECONDS, f"the agent on board {board.serial}")
    result = board.shell(f"{quote(path)} version 2>&1", deadline=deadline)
    return _read_answer(path, result.text) or NoAgent(
        reason=f"it does not run there: {result.text.strip()[-200:] or 'it said nothing'} (status {result.exit_code})"
    )


def _read_answer(path: str, text: str) -> AgentHandle | None:
    try:
        answer = json.loads(text)
        if answer["agent"] == AGENT_VERSION:
            return AgentHandle(path=path, arch=checked_text(answer["arch"]), engine=checked_text(answer["sha256"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000)) if seconds > 0 else 0
