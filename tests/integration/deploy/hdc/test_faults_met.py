"""Faults that ohforge gets over by itself, or says a word about, through an hdc that is taken for a real one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import HdcServerError, SeveralBoards
from core.session import Session
from core.settings import Timeouts
from deploy.emulator.board.boards import EmulatedBoard, create_board, second_board, start_board, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.hdc import servers as server
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from deploy.hdc.restart import restart_board, wait_for_board
from deploy.launch.shell import run_shell
from tests.support.board_runs import take_stand_in_for_real
from tests.support.emulated import free_port
from tests.support.tiny_elf import write_arm64
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def usb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedBoard]:
    """The only board of its home, besides those that tests add."""
    board = create_board("lab-usb", home=tmp_path_factory.mktemp("boards"), profile="dayu200")
    start_board(board)
    yield board
    stop_board(board)


@pytest.fixture(autouse=True)
def taken_for_real(usb: EmulatedBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    take_stand_in_for_real(usb.folder.parent, tmp_path, monkeypatch)
    yield
    faults_of(usb).clear()


def faults_of(board: EmulatedBoard) -> FaultFile:
    return FaultFile(folder=board.folder)


@pytest.fixture
def tcp(usb: EmulatedBoard) -> Iterator[EmulatedBoard]:
    board = create_board("lab-tcp", home=usb.folder.parent, profile="dayu200", port=free_port())
    start_board(board)
    yield board
    faults_of(board).clear()
    stop_board(board)


def test_the_first_command_of_a_tcp_board_is_not_lost(session: Session, tcp: EmulatedBoard) -> None:
    faults_of(tcp).set("empty-first", commands=2)
    board = choose_board(session, tcp.key)
    assert run_shell(session, board, "echo first; exit 3").exit_code == 3


def test_the_first_command_after_the_users_answer_is_not_lost(session: Session, usb: EmulatedBoard) -> None:
    patient = dataclasses.replace(
        session, settings=dataclasses.replace(session.settings, timeouts=Timeouts(authorise=30.0))
    )
    faults_of(usb).set("empty-first")
    faults_of(usb).set("unauthorised", seconds=2)
    board = choose_board(patient)
    assert board.serial == usb.key
    assert run_shell(patient, board, "echo first; exit 3").exit_code == 3


def test_another_port_is_found_when_that_of_a_boards_own_server_is_taken(
    session: Session, tcp: EmulatedBoard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = [free_port(), free_port()]
    monkeypatch.setattr(server, "find_free_port", lambda: ports.pop(0))
    faults_of(tcp).set("port-taken", port=ports[0], seconds=0.2)
    board = choose_board(session, tcp.key)
    assert run_shell(session, board, "exit 3").exit_code == 3
    assert ports == []
    assert "trying another port" in capsys.readouterr().out


def test_a_taken_port_of_everybodys_server_is_told_with_what_to_do(session: Session, usb: EmulatedBoard) -> None:
    faults_of(usb).set("port-taken", port=int(os.environ["OHOS_HDC_SERVER_PORT"]), seconds=0.2)
    with pytest.raises(HdcServerError) as caught:
        choose_board(session)
    assert "OHOS_HDC_SERVER_PORT" in caught.value.remedy


def test_of_two_boards_none_is_taken_and_both_are_named(session: Session, usb: EmulatedBoard) -> None:
    faults_of(usb).set("second-board")
    with pytest.raises(SeveralBoards) as caught:
        choose_board(session)
    assert f"{second_board(usb).key}, {usb.key}" in caught.value.message
    named = choose_board(session, usb.key)
    (usb.disk / "local/tmp/here").write_text("this one\n")
    assert run_shell(session, named, "cat /data/local/tmp/here").text == "this one\n"


def test_a_restarted_board_is_waited_for_and_runs_nothing_from_before(session: Session, usb: EmulatedBoard) -> None:
    board = choose_board(session)
    assert isinstance(board, HdcBoard)
    run_shell(session, board, "sleep 600 </dev/null >/dev/null 2>&1 &")
    wait_until("the start of sleep", lambda: run_shell(session, board, "pgrep -x sleep").exit_code == 0)
    before = restart_board(session, board)
    stages = wait_for_board(session, board, Deadline.after(60, "the board"), before=before)
    assert list(stages) == ["gone", "back", "authorised", "ready"]
    assert sorted(stages.values()) == list(stages.values())
    assert run_shell(session, board, "pgrep -x sleep").exit_code == 1


def test_what_a_command_leaves_behind_is_told(
    session: Session, usb: EmulatedBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    write_arm64(usb.disk / "local/tmp/tool", b"done\n", status=3)
    board = choose_board(session)
    faults_of(usb).set("orphan", count=1)
    result = run_shell(session, board, "/data/local/tmp/tool")
    assert (result.exit_code, result.text) == (3, "done\n")
    told = capsys.readouterr().err
    assert f"still runs on board {usb.key}" in told
    # The advice is right.
    command = told.partition("`")[2].partition("`")[0]
    assert command.startswith("kill -KILL -")
    run_shell(session, board, command)
    wait_until("the end of the orphan", lambda: run_shell(session, board, "pgrep -x sleep").exit_code == 1)
