"""A board on which a run was cut is restarted where the settings want it."""

from __future__ import annotations

import dataclasses

import pytest

from core.errors import DeadlineExpired, LostConnection
from core.session import Session
from core.settings import BoardEntry
from core.testing import FakeRunner
from deploy.board.profiles import load_profile
from deploy.hdc.board import HdcBoard
from deploy.hdc.program import Hdc
from deploy.run.recovery import recover_board
from tests.support.hdc_answers import Answer, answered, in_turn
from tests.support.hdc_lists import KEY, OFFLINE

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
    assert cut.message.endswith("After that the board was restarted, so nothing of the run is left there.")


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
