"""What becomes of a command on the board when the one here that waits for it is broken off."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from core.deadline import Deadline
from core.errors import DeadlineExpired, Interrupted
from core.process import OnOutput, Result
from core.session import Session
from core.testing import Answer, FakeRunner
from deploy.hdc.board import HdcBoard
from deploy.hdc.program import Hdc
from tests.support.board_runs import soon
from tests.support.hdc_answers import answered, cut_off, in_turn, token_of
from tests.unit.deploy.hdc.test_hdc import KEY, OFFLINE, PROFILE


class Stalling:
    """A runner whose first command prints something and then hangs until it is broken off with `error`."""

    def __init__(self, first: Callable[[tuple[str, ...]], bytes], error: BaseException, then: Answer) -> None:
        self.first, self.error = first, error
        self.after = FakeRunner(answers=[([], then)])
        self.calls: list[tuple[str, ...]] = []

    def run(
        self,
        argv: list[str],
        *,
        deadline: Deadline,
        on_stdout: OnOutput | None = None,
        **kw: object,
    ) -> Result:
        self.calls.append(tuple(argv))
        if len(self.calls) == 1:
            assert on_stdout is not None
            on_stdout(self.first(tuple(argv)))
            raise self.error
        return self.after.run(argv, deadline=deadline, on_stdout=on_stdout)


def stalling_board(session: Session, runner: Stalling, key: str = KEY) -> HdcBoard:
    session = dataclasses.replace(session, runner=runner)  # type: ignore[arg-type]
    return HdcBoard(session, Hdc(argv=("hdc",), title="hdc"), key, lambda: PROFILE, pause=lambda seconds: None)


def test_on_the_deadline_the_group_on_the_board_is_ended(session: Session) -> None:
    runner = Stalling(cut_off(b"so far", pid=99), DeadlineExpired("No end of x after 1 s."), answered(b"dead\n"))  # type: ignore[arg-type]
    with pytest.raises(DeadlineExpired, match="Nothing of it runs") as caught:
        stalling_board(session, runner).shell("x", deadline=soon())
    assert caught.value.details["output"] == "so far"
    assert "p=99;" in runner.calls[1][-1]
    assert token_of(runner.calls[0]) in runner.calls[1][-1]


def test_a_kill_that_was_not_delivered_is_reported(session: Session) -> None:
    runner = Stalling(cut_off(pid=99), DeadlineExpired("No end of x after 1 s."), OFFLINE)  # type: ignore[arg-type]
    with pytest.raises(DeadlineExpired, match=r"process 99 may still run on board .*E001005"):
        stalling_board(session, runner).shell("x", deadline=soon())


def test_a_daemon_that_is_started_anew_is_waited_for_to_end_what_it_left(session: Session) -> None:
    refused = b"[Fail]Connect failed\r\n"
    # Silence while the server notices, then the lost board, until the daemon listens again.
    meanwhile = in_turn(b"", refused, OFFLINE, refused, OFFLINE, b"Connect OK\r\n", answered(), answered(b"dead\n"))
    runner = Stalling(cut_off(pid=99), DeadlineExpired("No end of x after 1 s."), meanwhile)  # type: ignore[arg-type]
    with pytest.raises(DeadlineExpired, match="Nothing of it runs"):
        stalling_board(session, runner, "192.168.1.9:8710").shell("x", deadline=soon())


def test_a_kill_that_was_not_delivered_names_the_command_that_ends_the_orphan(session: Session) -> None:
    runner = Stalling(cut_off(pid=99), DeadlineExpired("No end of x after 1 s."), OFFLINE)  # type: ignore[arg-type]
    with pytest.raises(DeadlineExpired) as caught:
        stalling_board(session, runner).shell("x", deadline=soon())
    assert f"`ohforge board.shell --board {KEY} 'kill -KILL -99'`" in caught.value.message


def test_a_process_that_cannot_be_killed_is_reported(session: Session) -> None:
    runner = Stalling(cut_off(pid=99), DeadlineExpired("late"), answered(b"alive\n"))  # type: ignore[arg-type]
    with pytest.raises(DeadlineExpired, match=r"process 99 may still run .*ignores being killed"):
        stalling_board(session, runner).shell("x", deadline=soon())


def test_ctrl_c_ends_the_group_on_the_board(session: Session) -> None:
    runner = Stalling(cut_off(pid=99), KeyboardInterrupt(), answered(b"dead\n"))  # type: ignore[arg-type]
    with pytest.raises(Interrupted, match="Nothing of it runs"):
        stalling_board(session, runner).shell("x", deadline=soon())
    assert "kill" in runner.calls[1][-1]


def test_a_command_whose_number_never_came_is_looked_for_by_its_token(session: Session) -> None:
    runner = Stalling(lambda argv: b"", KeyboardInterrupt(), answered(b"dead\n"))
    with pytest.raises(Interrupted):
        stalling_board(session, runner).shell("x", deadline=soon())
    token = token_of(runner.calls[0])
    assert f"pgrep -f '\\''[{token[0]}]{token[1:]}'\\''" in runner.calls[1][-1]


def test_a_command_that_ended_before_the_deadline_has_ended_though_its_output_is_held_open(session: Session) -> None:
    runner = Stalling(answered(b"out", status=5), DeadlineExpired("late"), b"")  # type: ignore[arg-type]
    assert stalling_board(session, runner).shell("server &", deadline=soon()).exit_code == 5
    assert len(runner.calls) == 1
