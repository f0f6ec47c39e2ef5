"""A board on which a run was cut is restarted where the settings want it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from core.errors import DeadlineExpired, LostConnection
from core.session import Session
from core.settings import BoardEntry
from core.testing import FakeRunner
from deploy.agent.frames import AgentReport
from deploy.board.profiles import load_profile
from deploy.hdc.board import HdcBoard
from deploy.hdc.program import Hdc
from deploy.run.conditions import Conditions
from deploy.run.engines import Start, raise_when_late
from deploy.run.recovery import recover_board
from deploy.run.result import ProgramResult
from tests.support.hdc_answers import Answer, answered, in_turn
from tests.support.hdc_lists import KEY, OFFLINE
from tests.support.local_board import LocalBoard

NOW, LATER = answered(b"b8e0-first\nready\n"), answered(b"5a1f-second\nready\n")
ORDER = ("hdc", "-t", KEY, "target", "boot")


def recover(
    session: Session, cut: DeadlineExpired | LostConnection, *looks: Answer | bytes, **entry: str
) -> list[tuple[str, ...]]:
    """What was asked of hdc."""
    runner = FakeRunner(answers=[(ORDER, b""), (ORDER[:3], in_turn(*looks))])
    session = dataclasses.replace(session, runner=runner).with_settings(
        boards={"bench": BoardEntry(serial=KEY, **entry)}  # type: ignore[arg-type]
    )
    board = HdcBoard(session, Hdc(argv=("hdc",), title="hdc"), KEY, lambda: load_profile("generic"))
    recover_board(session, board, cut)
    return runner.calls


def test_a_board_on_which_something_may_still_run_is_restarted_and_the_run_says_so(session: Session) -> None:
    cut = DeadlineExpired("No end of demo after 4 s. Note: process 7 may still run on board x.")
    assert ORDER in recover(session, cut, NOW, NOW, LATER, recover="reboot")
    # How to end process 7 is no advice any more: after a restart another one may have its number.
    assert cut.message == (
        f"No end of demo after 4 s. After that board {KEY} was restarted, so nothing of the run goes on there."
    )


def test_what_the_agent_could_not_end_is_a_reason_too(session: Session, tmp_path: Path) -> None:
    start = Start(
        title="demo", words=["./demo"], environment={}, conditions=Conditions(), seconds=4, run="demo", script={}
    )
    report = AgentReport(signal=9, reason="deadline", survivors=2)
    ended = ProgramResult(exit_code=137, signal="SIGKILL", seconds=4.0, output=b"", text="", report=report)
    with pytest.raises(DeadlineExpired) as cut:
        raise_when_late(LocalBoard(tmp_path), start, ended)
    assert ORDER in recover(session, cut.value, NOW, NOW, LATER, recover="reboot")


def test_a_board_that_does_not_answer_is_waited_for_and_restarted(session: Session) -> None:
    cut = LostConnection("The link ended.")
    assert ORDER in recover(session, cut, OFFLINE, NOW, NOW, LATER, recover="reboot")
    assert "was restarted" in cut.message


def test_a_board_that_cannot_be_restarted_is_told(session: Session) -> None:
    cut = LostConnection("The link ended.")
    timeouts = dataclasses.replace(session.settings.timeouts, boot=0.05)
    calls = recover(session.with_settings(timeouts=timeouts), cut, OFFLINE, recover="reboot")
    assert ORDER not in calls
    assert "could not be restarted" in cut.message


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("Note: process 7 may still run on board x.", {}),
        ("Nothing of it runs on board x any more.", {"recover": "reboot"}),
    ],
)
def test_nothing_is_restarted_unasked_or_in_vain(session: Session, text: str, entry: dict[str, str]) -> None:
    cut = DeadlineExpired(text)
    assert ORDER not in recover(session, cut, NOW, **entry)
    assert cut.message == text
