"""Waiting for boards, and restarting them."""

from __future__ import annotations

import dataclasses

import pytest

from core.deadline import Deadline
from core.errors import BoardError, BoardOffline, BoardUnauthorised, DeadlineExpired
from core.session import Session
from core.testing import FakeRunner
from deploy.board.profiles import load_profile
from deploy.hdc import restart
from deploy.hdc.board import HdcBoard
from deploy.hdc.program import Hdc
from deploy.hdc.restart import Look, restart_board, wait_for_board
from deploy.hdc.servers import own_hdc
from tests.support.hdc_answers import Answer, answered, in_turn
from tests.support.hdc_lists import KEY, OFFLINE, OTHER, REFUSED, UNAUTHORISED
from tests.support.waiting import DrawnIn, wait_until

FIRST, SECOND = b"b8e0c8e4-first\n", b"5a1f77f0-second\n"
STARTING = b"[Fail][E000004]:The communication channel is being established.\r\n"


def make(
    session: Session,
    *looks: Answer | bytes,
    key: str = KEY,
    boot: Answer | bytes | Exception = b"",
    tconn: bytes = b"Connect OK\r\n",
) -> HdcBoard:
    """A board that answers questions in turn so, and the order to restart with `boot`."""
    runner = FakeRunner(
        answers=[
            (["hdc", "-t", key, "target"], boot),
            (["hdc", "-t", key, "shell"], in_turn(*looks)),
            (["hdc", "tconn"], tconn),
            (["hdc", "kill"], b""),
        ]
    )
    session = dataclasses.replace(session, runner=runner)
    return HdcBoard(session, Hdc(argv=("hdc",), title="hdc"), key, lambda: load_profile("generic"))


def wait(board: HdcBoard, before: Look | None = None, seconds: float = 20.0) -> list[str]:
    """The stages in their order."""
    session = board._session
    deadline = Deadline.after(seconds, "the test")
    return list(wait_for_board(session, board, deadline, before=before, pause=lambda seconds: None))


def test_a_board_that_is_there_is_ready_at_once(session: Session) -> None:
    board = make(session, answered(FIRST + b"ready\n"))
    assert wait(board) == ["back", "authorised", "ready"]


def test_every_stage_of_a_restart_is_told_in_its_order(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    looks = (answered(FIRST + b"ready\n"), answered(FIRST + b"ready\n"), OFFLINE, STARTING, answered(SECOND))
    board = make(session, *looks, answered(SECOND + b"ready\n"))
    before = restart_board(board._session, board)
    assert wait(board, before) == ["gone", "back", "authorised", "ready"]
    told = capsys.readouterr().out
    assert [told.index(stage) for stage in ("gone", "back", "authorised", "ready")] == sorted(
        told.index(stage) for stage in ("gone", "back", "authorised", "ready")
    )


def test_a_restart_that_nobody_saw_is_told_by_the_systems_next_start(session: Session) -> None:
    board = make(session, answered(FIRST + b"ready\n"), answered(SECOND + b"ready\n"))
    assert wait(board, restart_board(board._session, board)) == ["gone", "back", "authorised", "ready"]


def test_a_board_that_goes_on_as_before_has_not_restarted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "GOES_ON_SECONDS", 0.0)
    board = make(session, answered(FIRST + b"ready\n"))
    with pytest.raises(BoardError, match="goes on as before"):
        wait(board, restart_board(board._session, board))


def test_a_user_is_asked_and_may_refuse(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BoardUnauthorised, match="refused"):
        wait(make(session, OFFLINE, UNAUTHORISED, UNAUTHORISED, REFUSED))
    assert capsys.readouterr().out.count("confirm it there") == 1


def test_a_board_that_stays_away_is_told_with_the_stage_that_it_reached(session: Session) -> None:
    with pytest.raises(BoardOffline, match=r"cannot be used after 0\.05 s: it is gone"):
        wait(make(session, OFFLINE), seconds=0.05)


@pytest.mark.parametrize(
    ("looks", "error", "came"),
    [
        ([UNAUTHORISED], BoardUnauthorised, "its user was asked, and has not agreed"),
        ([OFFLINE, STARTING], BoardOffline, "it is back"),
        ([answered(FIRST)], BoardOffline, "it is authorised"),
        ([], BoardOffline, "it has not answered"),
    ],
)
def test_a_question_that_the_deadline_cuts_short_is_no_sign_that_a_board_is_gone(
    session: Session, looks: list[Answer | bytes], error: type[BoardError], came: str
) -> None:
    deadline = DrawnIn.long()

    def cut(argv: tuple[str, ...]) -> bytes:
        deadline.over.set()
        raise DeadlineExpired("late")

    board = make(session, *looks, cut)
    with pytest.raises(error, match=f"{came}\\."):
        wait_for_board(board._session, board, deadline, pause=lambda seconds: None)


def test_a_board_whose_host_cannot_be_reached_is_told_with_that_and_its_remedy(session: Session) -> None:
    away = BoardOffline("lab1:22 cannot be reached by SSH: Connection refused.", remedy="See with `ssh -v`.")
    with pytest.raises(BoardOffline, match=r"it is gone\. lab1:22 cannot be reached by SSH") as caught:
        wait(make(session, away), seconds=0.05)  # type: ignore[arg-type]
    assert caught.value.remedy == "See with `ssh -v`."


def test_a_tcp_board_is_connected_again_until_it_answers(session: Session) -> None:
    board = make(session, OFFLINE, answered(), answered(SECOND + b"ready\n"), key=OTHER)
    assert wait(board) == ["gone", "back", "authorised", "ready"]
    assert ("hdc", "tconn", OTHER) in board._session.runner.calls  # type: ignore[attr-defined]


def test_when_the_time_is_over_nobody_is_connected_any_more(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_too_long(session: Session, board: HdcBoard, deadline: Deadline) -> Look:
        wait_until("the end of the time", lambda: deadline.expired)
        return Look(answered=False)

    connected: list[HdcBoard] = []  # Which takes as long as a host keeps silent, whatever the deadline.
    monkeypatch.setattr(restart, "look_at", look_too_long)
    monkeypatch.setattr(HdcBoard, "reconnect", lambda board, deadline: connected.append(board))
    with pytest.raises(BoardOffline, match=r"cannot be used after 0\.05 s"):
        wait(make(session, key=OTHER), seconds=0.05)
    assert not connected


def test_an_order_that_a_frozen_board_does_not_take_is_told(session: Session) -> None:
    board = make(session, DeadlineExpired("late"), boot=DeadlineExpired("No end of the restart after 10 s."))  # type: ignore[arg-type]
    with pytest.raises(BoardOffline, match="does not take the order") as caught:
        restart_board(board._session, board)
    assert "by hand" in caught.value.remedy


def test_a_refused_order_is_told(session: Session) -> None:
    board = make(session, answered(FIRST), boot=b"[Fail][E00C001]Operation restricted\r\n")
    with pytest.raises(BoardError, match="blocked"):
        restart_board(board._session, board)


def with_own_server(board: HdcBoard) -> list[HdcBoard]:
    """Gives it a server of its own; the list that is returned has one entry for each time that it was ended."""
    ended: list[HdcBoard] = []

    def renew(session: Session) -> Hdc:
        ended.append(board)
        return board.hdc

    board.hdc = dataclasses.replace(board.hdc, renew=renew)
    return ended


def test_a_refusal_from_before_is_no_answer_and_one_that_comes_is_forgotten_at_the_end(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    board = make(session, REFUSED, UNAUTHORISED, answered(FIRST + b"ready\n"), key=OTHER)
    ended = with_own_server(board)
    assert wait(board)[-3:] == ["back", "authorised", "ready"]
    assert len(ended) == 1
    assert capsys.readouterr().out.count("confirm it there") == 1
    board = make(session, REFUSED, UNAUTHORISED, REFUSED, key=OTHER)
    ended = with_own_server(board)
    with pytest.raises(BoardUnauthorised, match="refused"):
        wait(board)
    assert len(ended) == 2


def test_a_tcp_board_that_nobody_has_connected_is_connected_to_be_restarted(session: Session) -> None:
    unknown = b"[Fail]Not match target founded, check connect-key please\r\n"
    board = make(session, unknown, answered(FIRST + b"ready\n"), answered(), answered(FIRST + b"ready\n"), key=OTHER)
    assert restart_board(board._session, board).answered
    words = [call[1] if call[1] == "tconn" else call[3] for call in board._session.runner.calls]  # type: ignore[attr-defined]
    assert words.index("tconn") < words.index("target")


def test_a_server_that_was_begun_to_restart_a_board_that_is_away_is_ended(session: Session) -> None:
    board = make(session, OFFLINE, boot=OFFLINE, key=OTHER, tconn=b"[Fail]Connect failed\r\n")
    board.hdc = own_hdc(session, board.hdc, OTHER)
    with pytest.raises(BoardOffline):
        restart_board(board._session, board)
    assert board._session.runner.calls[-1] == ("hdc", "kill")  # type: ignore[attr-defined]
