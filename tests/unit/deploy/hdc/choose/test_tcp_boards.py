"""TCP boards: connected when they are not, each through a server of its own."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    BoardOffline,
    BoardUnauthorised,
    HdcServerError,
    NoBoard,
)
from core.process import Result
from core.session import Session
from core.settings import Timeouts
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from deploy.hdc.program import Hdc
from deploy.hdc.servers import OwnServer, own_hdc, own_servers
from tests.support.hdc_answers import answered, in_turn
from tests.support.hdc_lists import LIST, NONE, OFFLINE, OTHER, REFUSED, SILENT, TWO, UNAUTHORISED, MakeSession


@pytest.mark.parametrize("said", [b"Connect OK\r\n", b"[Info]Target is connected, repeat operation\r\n"])
def test_a_tcp_board_is_connected_through_a_server_of_its_own(
    with_hdc: MakeSession, said: bytes, tmp_path: Path
) -> None:
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], said), (["-t", OTHER, "shell"], answered())])
    board = choose_board(session, OTHER)
    assert isinstance(board, HdcBoard)
    assert board.serial == OTHER
    assert board.hdc.environment["TMPDIR"].startswith(str(tmp_path / "data" / "hdc-servers"))
    assert board.hdc.environment["OHOS_HDC_SERVER_PORT"] not in ("", "8710")
    assert Path(board.hdc.environment["TMPDIR"]).is_dir()
    again = choose_board(session, OTHER)
    assert isinstance(again, HdcBoard)
    assert again.hdc.environment == board.hdc.environment


def test_with_dry_a_board_is_used_where_it_is_connected_and_never_connected(
    with_hdc: MakeSession, tmp_path: Path
) -> None:
    connected = f"{OTHER}\t\tTCP\tConnected\tlocalhost\thdc\n".encode()
    session = dataclasses.replace(with_hdc([(LIST, in_turn(NONE, connected))]), dry=True)
    with pytest.raises(BoardOffline, match="is not connected, and with --dry none is"):
        choose_board(session, OTHER)
    assert choose_board(session, OTHER).serial == OTHER
    assert not (tmp_path / "data").exists()


def test_after_connecting_a_board_is_asked_until_it_answers(with_hdc: MakeSession) -> None:
    swallowed_once = in_turn(b"", answered())
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], b"Connect OK\r\n"), (["-t", OTHER, "shell"], swallowed_once)])
    assert choose_board(session, OTHER).serial == OTHER


def test_two_tcp_boards_have_two_servers(with_hdc: MakeSession) -> None:
    connected = b"[Info]Target is connected, repeat operation\r\n"
    session = with_hdc([(LIST, NONE), (["tconn"], connected)])
    boards = [choose_board(session, key) for key in (OTHER, "192.168.1.10:8710")]
    environments = [board.hdc.environment for board in boards if isinstance(board, HdcBoard)]
    assert environments[0]["TMPDIR"] != environments[1]["TMPDIR"]
    assert environments[0]["OHOS_HDC_SERVER_PORT"] != environments[1]["OHOS_HDC_SERVER_PORT"]


def test_with_own_servers_off_the_usual_one_is_used(with_hdc: MakeSession) -> None:
    connected = b"[Info]Target is connected, repeat operation\r\n"
    board = choose_board(with_hdc([(["tconn", OTHER], connected)], own_servers=False), OTHER)
    assert isinstance(board, HdcBoard)
    assert board.hdc.renew is None
    assert "TMPDIR" not in board.hdc.environment


def test_a_server_whose_port_is_taken_gets_another_one(with_hdc: MakeSession) -> None:
    ports = []

    def connect(argv: tuple[str, ...]) -> Result | bytes:
        ports.append(argv)
        return SILENT if len(ports) == 1 else b"[Info]Target is connected, repeat operation\r\n"

    session = with_hdc([(LIST, NONE), (["tconn", OTHER], connect), (["kill"], b"")])
    board = choose_board(session, OTHER)
    assert isinstance(board, HdcBoard)
    assert session.runner.calls[-2][1:] == ("kill",)  # type: ignore[attr-defined]


def test_a_server_that_never_comes_up_is_told_after_three_ports(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], SILENT), (["kill"], b"")])
    with pytest.raises(HdcServerError, match=OTHER):
        choose_board(session, OTHER)
    assert sum("tconn" in call for call in session.runner.calls) == 3  # type: ignore[attr-defined]


def test_a_port_that_another_program_has_taken_is_not_used_again(session: Session) -> None:
    server = OwnServer.of(session, OTHER)
    port = server.choose_port()
    assert server.choose_port() == port
    with socket.create_server(("127.0.0.1", port)):
        assert server.choose_port() != port


def test_a_note_from_before_the_computers_restart_does_not_count(session: Session) -> None:
    server = OwnServer.of(session, OTHER)
    server.choose_port()
    note = server.folder / "server.json"
    for text in ("", "[]", "{}", note.read_text().replace('"boot": "', '"boot": "x'), '{"port": "x"}'):
        note.write_text(text)
        assert server.read_note() == {}
    assert own_servers(session, Hdc(argv=("hdc",), title="hdc")) == []


def test_the_server_of_another_program_is_never_ended(with_hdc: MakeSession) -> None:
    session = with_hdc([])
    board = own_hdc(session, Hdc(argv=("hdc",), title="hdc"), OTHER)
    # The number that a dead server left has gone to this test's own process since.
    Path(board.environment["TMPDIR"], ".HDCServer.pid").write_text(f"{os.getpid()}\n")
    assert board.renew is not None
    fresh = board.renew(session)
    assert session.runner.calls == []  # type: ignore[attr-defined]
    assert fresh.environment["OHOS_HDC_SERVER_PORT"] != board.environment["OHOS_HDC_SERVER_PORT"]


def test_a_board_that_the_usual_server_holds_is_used_through_that(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, TWO), (["tconn", OTHER], b"[Fail]Connect failed\r\n"), (["kill"], b"")])
    board = choose_board(session, OTHER)
    assert isinstance(board, HdcBoard)
    assert board.hdc.renew is None


def calls(session: Session) -> list[tuple[str, ...]]:
    return list(session.runner.calls)  # type: ignore[attr-defined]


def tries(session: Session) -> int:
    """How often hdc was asked to connect."""
    return sum("tconn" in call for call in calls(session))


CONNECTED = [(LIST, NONE), (["tconn", OTHER], b"[Info]Target is connected, repeat operation\r\n")]


def test_a_board_that_is_connected_costs_no_call_before_its_command(with_hdc: MakeSession) -> None:
    choose_board(with_hdc([*CONNECTED]), OTHER)
    later = with_hdc([(["-t", OTHER, "shell"], answered(b"hi"))])
    board = choose_board(later, OTHER)
    assert board.shell("echo hi", deadline=Deadline.after(5, "the test")).text == "hi"
    assert [call[3] for call in calls(later)] == ["shell"]


def test_a_connection_that_is_lost_meanwhile_is_made_again(with_hdc: MakeSession) -> None:
    choose_board(with_hdc([*CONNECTED]), OTHER)
    for said in (OFFLINE, b"[Fail]Not match target founded, check connect-key please\r\n"):
        later = with_hdc([(["-t", OTHER, "shell"], in_turn(said, answered(b"hi"))), *CONNECTED])
        board = choose_board(later, OTHER)
        assert board.shell("echo hi", deadline=Deadline.after(5, "the test")).text == "hi"
        assert tries(later) == 1


def test_a_board_that_stays_away_is_looked_for_everywhere_by_the_next_command(
    with_hdc: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.hdc.choose.time.sleep", lambda seconds: None)
    choose_board(with_hdc([*CONNECTED]), OTHER)
    refused = (["tconn", OTHER], b"[Fail]Connect failed\r\n")
    away = with_hdc([(["-t", OTHER, "shell"], OFFLINE), refused])
    with pytest.raises(BoardOffline):
        choose_board(away, OTHER).shell("true", deadline=Deadline.after(0.1, "the test"))
    # By now the server that everybody uses has it.
    board = choose_board(with_hdc([(LIST, TWO), refused]), OTHER)
    assert isinstance(board, HdcBoard)
    assert board.hdc.renew is None


def test_servers_that_have_ended_are_not_asked_for_boards_which_would_start_them(with_hdc: MakeSession) -> None:
    board = choose_board(with_hdc([*CONNECTED]), OTHER)
    assert isinstance(board, HdcBoard)
    hdc = Hdc(argv=("hdc",), title="hdc")
    session = with_hdc([])
    assert [key for key, _ in own_servers(session, hdc)] == [OTHER]
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    Path(board.hdc.environment["TMPDIR"], ".HDCServer.pid").write_text(str(ended.pid))
    assert own_servers(session, hdc) == []
    # Its board is not taken for connected either.
    again = with_hdc([*CONNECTED])
    choose_board(again, OTHER)
    assert tries(again) == 1


def test_after_a_refusal_while_the_user_was_asked_the_next_command_asks_again(with_hdc: MakeSession) -> None:
    asked = in_turn(UNAUTHORISED, REFUSED)
    session = with_hdc(
        [(LIST, NONE), (["tconn", OTHER], b"Connect OK\r\n"), (["-t", OTHER, "shell"], asked), (["kill"], b"")],
        timeouts=Timeouts(authorise=5.0),
    )
    with pytest.raises(BoardUnauthorised, match="refused"):
        choose_board(session, OTHER)
    # Only a server that is started anew asks the board.
    assert calls(session)[-1][1:] == ("kill",)
    again = with_hdc([*CONNECTED])
    choose_board(again, OTHER)
    assert tries(again) == 1


def test_a_tcp_board_that_refuses_is_tried_a_few_times_and_then_offline(
    with_hdc: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("deploy.hdc.choose.time.sleep", pauses.append)
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], b"[Fail]Connect failed\r\n"), (["kill"], b"")])
    with pytest.raises(BoardOffline, match=OTHER):
        choose_board(session, OTHER)
    assert tries(session) == 4
    assert pauses == [0.5, 1.0, 2.0]
    # The server that was started for it, and has never had a board, does not run on.
    assert [call[1:] for call in calls(session)][-1] == ("kill",)
    assert own_servers(session, Hdc(argv=("hdc",), title="hdc")) == []


def test_a_tcp_board_that_is_being_started_is_connected_at_last(
    with_hdc: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.hdc.choose.time.sleep", lambda seconds: None)
    refused = b"[Fail]Connect failed\r\n"
    already = b"[Info]Target is connected, repeat operation\r\n"
    session = with_hdc([(LIST, NONE), (["tconn", OTHER], in_turn(refused, refused, already))])
    assert choose_board(session, OTHER).serial == OTHER
    assert tries(session) == 3


def test_a_wrong_address_is_told_at_once(with_hdc: MakeSession) -> None:
    session = with_hdc([(LIST, NONE), (["tconn"], b"[Fail][E001104]:IP address incorrect\n")])
    with pytest.raises(NoBoard, match="IP:PORT"):
        choose_board(session, "300.1.1.1:8710")
    assert tries(session) == 1
