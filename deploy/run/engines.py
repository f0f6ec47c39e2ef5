"""The two ways to run a program on a board: by the agent, which tells all that can be known, or by the board's shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from core.deadline import Deadline
from core.dry import Would
from core.errors import (
    AgentUnavailable,
    ConditionsNotMet,
    DeadlineExpired,
    PermissionOnBoard,
    UsageError,
)
from core.session import Session
from deploy.agent.agent import AgentHandle, AgentRun, agents_to_ask_for, find_agent, run_options, would_put_agent
from deploy.agent.frames import AgentReport, FrameDecoder
from deploy.board.protocol import Board, ShellResult
from deploy.board.render import render_script
from deploy.board.script import new_token
from deploy.board.survey import Survey
from deploy.run.conditions import Conditions
from deploy.run.output import RunOutput
from deploy.run.record import signal_name
from deploy.run.result import ProgramResult
from deploy.transfer.push import place_program

AGENT, SHELL, AUTO = "agent", "shell", "auto"
CHOICES = (AUTO, AGENT, SHELL)
NOT_PREPARED = 125
MARK = "OHFORGE_RUN"
"""Variable in the environment of all that a run starts, by which it is found again."""
WATCH_MARK = "OHFORGE_WATCH"
"""The same for the watch of a run by the shell, which is to outlive the run's script."""
LATER_SECONDS = 10.0
"""How much later than on the board the time is over here: the agent ends everything first, and says so."""
LOOK_SECONDS = 5
"""How often the watch of a run by the shell looks whether the run's script is still there."""
GRACE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Start:
    """A program that is ready to be run: its files are in the board's store. `script` are the template's values."""

    title: str
    """Completes "no end of …"."""
    words: Sequence[str]
    environment: Mapping[str, str]
    conditions: Conditions
    seconds: float
    """Time for the program alone."""
    run: str
    """Name of the run, unique among all."""
    script: Mapping[str, Any]
    merged: bool = False
    """Whether the order between the streams matters more than their being apart."""

    @property
    def mark(self) -> str:
        return f"{MARK}={self.run}"

    @property
    def watch_mark(self) -> str:
        return f"{WATCH_MARK}={self.run}"


class RunEngine(Protocol):
    """What runs a program on a board."""

    @property
    def name(self) -> str: ...

    @property
    def reason(self) -> str:
        """Why it is this one."""

    @property
    def agent(self) -> str:
        """Path of the agent on the board; empty for none."""

    def run(self, board: Board, start: Start, output: RunOutput) -> ProgramResult:
        """Runs the program to its end. What is printed goes to `output` as it comes.

        Raises DeadlineExpired, LostConnection, Interrupted, PermissionOnBoard, ConditionsNotMet, …
        """


def agents_wanted(session: Session, board: Board, asked: str) -> list[str]:
    """The agents that a survey is to ask for. Raises UsageError when `asked` is none of the engines."""
    choice = asked or session.settings.run_engine
    if choice not in CHOICES:
        raise UsageError(f"There is no run engine {choice!r}; use {', '.join(CHOICES)}.")
    return [] if choice == SHELL else agents_to_ask_for(session, board)


def choose_engine(session: Session, board: Board, survey: Survey, asked: str, conditions: Conditions) -> RunEngine:
    """The engine asked for, else the agent where it runs; says which, and why. Raises AgentUnavailable."""
    choice = asked or session.settings.run_engine
    if choice == SHELL:
        engine: RunEngine = ShellEngine(reason="asked for")
    else:
        found = find_agent(session, board, survey, place=place_program)
        if isinstance(found, AgentHandle):
            engine = AgentEngine(handle=found, reason="asked for" if choice == AGENT else "it runs on the board")
        elif choice == AGENT:
            raise AgentUnavailable(f"Board {board.serial} has no agent: {found.reason}.")
        else:
            engine = ShellEngine(reason=f"no agent: {found.reason}")
    if conditions.sample_seconds and engine.name == SHELL:
        raise AgentUnavailable(f"Board {board.serial} cannot be sampled by its shell ({engine.reason}).")
    if conditions.pin and engine.name == SHELL:
        raise AgentUnavailable(f"The clocks of board {board.serial} cannot be fixed by its shell ({engine.reason}).")
    session.console.chosen("run engine", engine.name, engine.reason)
    return engine


def would_prepare_engine(session: Session, board: Board, survey: Survey, asked: str) -> list[Would]:
    """What `choose_engine` would build and send: the agent, where it is wanted and does not run yet."""
    return [] if (asked or session.settings.run_engine) == SHELL else would_put_agent(session, board, survey)


@dataclass(frozen=True, kw_only=True)
class ShellEngine:
    """The board's own shell: output merged, a signal only guessed from the status."""

    reason: str
    name: str = SHELL
    agent: str = ""

    def run(self, board: Board, start: Start, output: RunOutput) -> ProgramResult:
        token = new_token()
        conditions = start.conditions
        script = render_script(
            "run",
            **start.script,
            agent=None,
            token=token,
            mark=start.mark,
            watch_mark=start.watch_mark,
            words=start.words,
            environment=start.environment,
            ulimits=conditions.ulimits,
            cpu_mask=conditions.cpu_mask,
            cpu_list=conditions.cpu_list,
            nice=conditions.nice,
            seconds=round(start.seconds + LATER_SECONDS),
            look_seconds=LOOK_SECONDS,
        )
        result = board.shell(script, deadline=Deadline.after(start.seconds, start.title), on_output=output.take)
        _check_prepared(board, result, token)
        return ProgramResult(
            exit_code=result.exit_code,
            signal=signal_name(result.exit_code),
            seconds=result.seconds,
            output=output.content,
            text=output.text,
        )


@dataclass(frozen=True, kw_only=True)
class AgentEngine:
    """The agent on the board: streams apart, deadline on the board, and the kernel's figures."""

    handle: AgentHandle
    reason: str
    name: str = AGENT

    @property
    def agent(self) -> str:
        return self.handle.path

    def run(self, board: Board, start: Start, output: RunOutput) -> ProgramResult:
        token = new_token()
        conditions = start.conditions
        options = run_options(
            AgentRun(
                environment={**start.environment, MARK: start.run},
                grace_seconds=GRACE_SECONDS,
                cpus=conditions.cpu_list,
                nice=conditions.nice or None,
                limits=conditions.limits,
                sample_seconds=conditions.sample_seconds,
                pin=conditions.pin,
                merge=start.merged,
            ),
            seconds=start.seconds,
        )
        script = render_script(
            "run",
            **start.script,
            agent={"path": self.handle.path, "options": options},
            token=token,
            words=start.words,
            environment=start.environment,
        )
        if not start.merged:
            output.keep_apart()
        decoder = FrameDecoder(
            on_stdout=output.take if start.merged else output.take_stdout,
            on_stderr=output.take_stderr,
            on_sample=output.take_sample,
        )
        waiting = Deadline.after(start.seconds + GRACE_SECONDS + LATER_SECONDS, start.title)
        result = board.shell(script, deadline=waiting, on_output=decoder.feed)
        _check_prepared(board, result, token)
        report = decoder.finish()
        return _read_report(board, start, report, output, result.seconds)


def _read_report(board: Board, start: Start, report: AgentReport, output: RunOutput, seconds: float) -> ProgramResult:
    failure = report.failure
    if failure is not None and failure.stage == "pin":
        raise ConditionsNotMet(
            f"Board {board.serial} lets its clocks not be fixed ({failure.error}).",
            remedy="Only root may do it, where the kernel has cpufreq at all.",
        )
    if failure is not None and failure.stage in ("limit", "cpus", "nice"):
        asked = {key: value for key, value in start.conditions.as_json().items() if value}
        raise ConditionsNotMet(
            f"Board {board.serial} refuses {failure.stage} for the program ({failure.error}): {asked}."
        )
    return ProgramResult(
        exit_code=report.status,
        signal=(signal_name(report.status) or f"signal {report.signal}") if report.signal else "",
        seconds=seconds,
        output=output.content,
        text=output.text,
        failure=failure,
        report=report,
    )


def raise_when_late(board: Board, start: Start, result: ProgramResult) -> None:
    """Raises DeadlineExpired when the agent ended the program because its time was over."""
    if result.report is None or result.report.reason != "deadline":
        return
    left = result.report.survivors
    raise DeadlineExpired(
        f"No end of {start.title} after {start.seconds:g} s. "
        + (
            f"Note: {left} process(es) of it could not be ended on board {board.serial}."
            if left
            else f"Nothing of it runs on board {board.serial} any more."
        )
    )


def usage_of(result: ProgramResult) -> dict[str, Any] | None:
    """What the program used, for the record; None when nobody counted."""
    report = result.report
    if report is None or report.usage is None:
        return None
    return {
        "wall_seconds": report.wall_seconds,
        "first_output_seconds": report.first_output_seconds,
        **asdict(report.usage),
    }


def _check_prepared(board: Board, result: ShellResult, token: str) -> None:
    last = result.output.rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
    if result.exit_code != NOT_PREPARED or not last.startswith(token):
        return
    why = last.removeprefix(token).strip()
    if " cannot be put into " in why or why.startswith("the folder "):
        raise PermissionOnBoard(f"Board {board.serial}: {why}.")
    raise ConditionsNotMet(f"Board {board.serial}: {why}.")
