"""Forwarded ports, against an hdc that answers as the real one does: with status 0 whatever happened."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from core.errors import BoardError, BoardOffline, ForwardLost, HdcServerError, UsageError
from core.session import Session
from core.testing import Answer, FakeRunner
from deploy.board.protocol import Profile
from deploy.forward.forward import Rule, forward_port, list_forwards
from deploy.hdc.board import HdcBoard
from deploy.hdc.program import Hdc
from tests.support.hdc_answers import in_turn
from tests.support.local_board import LOCAL_PROFILE, LocalBoard

KEY = "127.0.0.1:9101"
OK = b"Forwardport result:OK\r\n"
REMOVED = b"Remove forward ruler success, ruler:tcp:1 tcp:2\r\n"
TAKEN = b"[Fail]TCP Port listen failed at 19801\r\n"


class Forwards:
    """An hdc that forwards one port after the other, as `add` says, and lists those that it has."""

    def __init__(self, session: Session, *add: Answer) -> None:
        self.there: list[str] = []
        self.removed: list[tuple[str, ...]] = []
        answers = in_turn(*add)  # type: ignore[arg-type]

        def listen(argv: tuple[str, ...]) -> Any:
            said = answers(argv)
            if said == OK:
                self.there.append(f"{KEY}    {argv[-2]} {argv[-1]}    [Forward]\n")
            return said

        def remove(argv: tuple[str, ...]) -> bytes:
            self.removed.append(argv[-2:])
            self.there = [row for row in self.there if " ".join(argv[-2:]) not in row]
            return REMOVED

        self.runner = FakeRunner(
            answers=[
                (["true", "-t", KEY, "fport"], listen),
                (["true", "fport", "ls"], lambda argv: "".join(self.there).encode() or b"[Empty]\r\n"),
                (["true", "fport", "rm"], remove),
            ]
        )
        self.session = dataclasses.replace(session, runner=self.runner)
        hdc = Hdc(argv=("true",), title="hdc")  # What is done after this process's death does nothing in these tests.
        self.board = HdcBoard(self.session, hdc, KEY, self.profile)

    def profile(self) -> Profile:
        return LOCAL_PROFILE


def test_a_port_is_forwarded_within_the_block_only(session: Session) -> None:
    hdc = Forwards(session, OK)
    with forward_port(hdc.session, hdc.board, 8080) as forward:
        assert hdc.there == [f"{KEY}    tcp:{forward.local} tcp:8080    [Forward]\n"]
        forward.check()
    assert hdc.there == []
    assert hdc.removed == [(f"tcp:{forward.local}", "tcp:8080")]


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), RuntimeError("broken")])
def test_whatever_ends_the_block_ends_the_forwarding(session: Session, stop: BaseException) -> None:
    hdc = Forwards(session, OK)
    with pytest.raises(type(stop)), forward_port(hdc.session, hdc.board, 8080):
        raise stop
    assert hdc.there == []


def test_ctrl_c_while_hdc_is_asked_leaves_nothing(session: Session) -> None:
    hdc = Forwards(session)

    def interrupted(argv: tuple[str, ...]) -> bytes:
        hdc.there.append(f"{KEY}    {argv[-2]} {argv[-1]}    [Forward]\n")
        raise KeyboardInterrupt

    hdc.runner.answers.insert(0, (["true", "-t", KEY, "fport"], interrupted))
    with pytest.raises(KeyboardInterrupt), forward_port(hdc.session, hdc.board, 8080):
        pytest.fail("there is no answer yet")
    assert hdc.there == []


def test_a_port_that_another_has_taken_meanwhile_is_given_up_for_the_next(session: Session) -> None:
    hdc = Forwards(session, TAKEN, TAKEN, OK)
    with forward_port(hdc.session, hdc.board, 8080) as forward:
        tried = [argv[-2] for argv in hdc.runner.calls if argv[1] == "-t"]
        assert len(tried) == 3 and tried[-1] == f"tcp:{forward.local}"
    # The others' rules, had they any of that name, would not be ours to remove.
    assert hdc.removed == [(f"tcp:{forward.local}", "tcp:8080")]


def test_when_every_port_is_taken_that_is_an_error(session: Session) -> None:
    hdc = Forwards(session, TAKEN)
    with pytest.raises(BoardError, match="5 that were free") as caught, forward_port(hdc.session, hdc.board, 8080):
        pytest.fail("nothing is forwarded")
    assert "hdc fport ls" in caught.value.remedy
    assert hdc.removed == []


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"[Fail][E001005] Device not found or connected\r\n", BoardOffline),
        (b"Connect server failed\r\n", HdcServerError),
        (b"", BoardError),
        (b"[Fail]Forward parament failed\r\n", UsageError),
    ],
)
def test_what_is_not_said_to_be_done_is_not_done(session: Session, said: bytes, error: type[Exception]) -> None:
    hdc = Forwards(session, said)
    with pytest.raises(error), forward_port(hdc.session, hdc.board, 8080):
        pytest.fail("nothing is forwarded")


def test_a_forwarding_that_hdc_does_not_know_any_more_is_lost(session: Session) -> None:
    hdc = Forwards(session, OK)
    with forward_port(hdc.session, hdc.board, 8080) as forward:
        hdc.there[:] = [f"other-board    tcp:{forward.local} tcp:8080    [Forward]\n"]
        with pytest.raises(ForwardLost, match=f"Port 8080 of board {KEY} is no longer forwarded"):
            forward.check()
        hdc.runner.answers.insert(0, (["true", "fport", "ls"], b"Connect server failed\r\n"))
        with pytest.raises(ForwardLost, match="cannot be asked"):
            forward.check()


def test_the_list_has_all_boards_and_both_directions(session: Session) -> None:
    hdc = Forwards(session, OK)
    hdc.there = [
        "7001005458323933328a01bce16d3800    tcp:19801 tcp:8080    [Forward]\n",
        f"{KEY}    localabstract:name localfilesystem:/data/x    [Reverse]\n",
    ]
    assert list_forwards(hdc.session, hdc.board.hdc) == [
        Rule(key="7001005458323933328a01bce16d3800", here="tcp:19801", there="tcp:8080", direction="Forward"),
        Rule(key=KEY, here="localabstract:name", there="localfilesystem:/data/x", direction="Reverse"),
    ]
    hdc.there = []
    assert list_forwards(hdc.session, hdc.board.hdc) == []


def test_a_board_that_is_reached_otherwise_has_no_ports_to_forward(session: Session, tmp_path: Any) -> None:
    board = LocalBoard(tmp_path / "board")
    with pytest.raises(UsageError, match="neither by hdc nor by SSH"), forward_port(session, board, 8080):
        pytest.fail("nothing is forwarded")
