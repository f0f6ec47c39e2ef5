"""A server for each board: boards reached by TCP through an hdc that is taken for a real one, and one of them fails."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import BoardOffline, BoardUnauthorised, DeadlineExpired, LostConnection
from core.patience import Patience
from core.session import Session
from deploy.emulator.board.boards import EmulatedBoard, create_board, list_emulated, start_board, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.hdc import board as hdc
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from deploy.hdc.listed import list_boards
from tests.support.board_runs import take_stand_in_for_real
from tests.support.emulated import free_port
from tests.support.waiting import DrawnIn, wait_until

TMP = "/data/local/tmp"


def soon(seconds: float = 30.0) -> Deadline:
    return Deadline.after(seconds, "the test")


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmulatedBoard, EmulatedBoard]]:
    """Two boards that listen at addresses."""
    home = tmp_path_factory.mktemp("boards")
    made = [create_board(f"lab-{name}", home=home, profile="dayu200-arm64", port=free_port()) for name in "ab"]
    for board in made:
        start_board(board)
    yield made[0], made[1]
    for board in list_emulated(home):
        stop_board(board)


@pytest.fixture(autouse=True)
def taken_for_real(
    boards: tuple[EmulatedBoard, EmulatedBoard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    take_stand_in_for_real(boards[0].folder.parent, tmp_path, monkeypatch)
    monkeypatch.setattr(hdc, "STOP_SECONDS", 5.0)
    yield
    for board in boards:
        FaultFile(folder=board.folder).clear()


def test_a_board_that_freezes_in_a_transfer_blocks_no_other_and_is_used_again_when_it_thaws(
    session: Session, boards: tuple[EmulatedBoard, EmulatedBoard], tmp_path: Path
) -> None:
    frozen, other = (choose_board(session, board.key) for board in boards)
    assert isinstance(frozen, HdcBoard)
    big = tmp_path / "big"
    big.write_bytes(os.urandom(20_000_000))
    FaultFile(folder=boards[0].folder).set("freeze-transfer", at=1_000_000)
    caught: list[BaseException] = []
    deadline = DrawnIn.long()
    notes = Path(frozen.hdc.environment["TMPDIR"])

    def send() -> None:
        try:
            frozen.send(big, f"{TMP}/big", deadline=deadline)
        except DeadlineExpired as error:
            caught.append(error)

    sending = threading.Thread(target=send)
    sending.start()
    try:
        wait_until(
            "its server to be stuck",
            lambda: any(json.loads(note.read_text())["stuck_on"] for note in notes.glob(".ohforge-hdc-*.json")),
        )
        assert other.shell("echo alive", deadline=soon(120)).text == "alive\n"
        assert choose_board(session, boards[1].key).serial == boards[1].key
        assert sending.is_alive()
    finally:
        deadline.over.set()
        sending.join()
    assert "server was ended" in str(caught[0])
    FaultFile(folder=boards[0].folder).clear()
    assert frozen.shell("echo thawed", deadline=soon()).text == "thawed\n"
    frozen.send(big, f"{TMP}/big", deadline=soon())
    assert frozen.shell(f"stat -c %s {TMP}/big", deadline=soon()).text == "20000000\n"


def test_a_frozen_board_is_told_in_time_and_the_other_answers(
    session: Session, boards: tuple[EmulatedBoard, EmulatedBoard]
) -> None:
    frozen, other = (choose_board(session, board.key) for board in boards)
    FaultFile(folder=boards[0].folder).set("freeze")
    with pytest.raises(DeadlineExpired):
        frozen.shell("echo never", deadline=soon(2))
    assert other.shell("echo alive", deadline=soon()).text == "alive\n"
    FaultFile(folder=boards[0].folder).clear()
    assert frozen.shell("echo thawed", deadline=soon()).text == "thawed\n"


def test_a_board_that_was_restarted_is_connected_again_in_the_middle_of_a_session(
    session: Session, boards: tuple[EmulatedBoard, EmulatedBoard]
) -> None:
    board = choose_board(session, boards[0].key)
    stop_board(boards[0])
    start_board(boards[0])
    assert board.shell("echo back", deadline=soon()).text == "back\n"


def test_a_command_whose_link_breaks_is_ended_through_a_new_link(
    session: Session, boards: tuple[EmulatedBoard, EmulatedBoard]
) -> None:
    board = choose_board(session, boards[0].key)
    FaultFile(folder=boards[0].folder).set("cut-output", at=120, count=1)
    with pytest.raises(LostConnection, match="Nothing of it runs") as caught:
        board.shell("seq 1 1000; sleep 600", deadline=soon())
    assert board.serial in str(caught.value)
    assert board.shell("ps -A -o ARGS | grep -c '^sleep 600'", deadline=soon()).text == "0\n"


def test_a_board_that_does_not_come_back_is_told_within_the_deadline(
    session: Session, boards: tuple[EmulatedBoard, EmulatedBoard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdc, "RETRIES", Patience(pause=0.05, times=2))
    board = choose_board(session, boards[0].key)
    FaultFile(folder=boards[0].folder).set("offline")
    with pytest.raises(BoardOffline):
        board.shell("echo never", deadline=soon())


def test_the_users_answer_is_waited_for_and_then_the_command_is_run_once(
    session: Session,
    boards: tuple[EmulatedBoard, EmulatedBoard],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    patient = with_patience(session, 30.0)
    board = choose_board(patient, boards[1].key)
    board.shell(f"rm -f {TMP}/count", deadline=soon())
    faults, ask = FaultFile(folder=boards[1].folder), hdc.confirm_request

    def ask_and_answer(serial: str, seconds: float) -> str:
        faults.set("unauthorised", seconds=1)
        return ask(serial, seconds)

    monkeypatch.setattr(hdc, "confirm_request", ask_and_answer)
    faults.set("unauthorised")
    board.shell(f"echo once >> {TMP}/count", deadline=soon())
    assert board.shell(f"cat {TMP}/count", deadline=soon()).text == "once\n"
    assert "confirm it there" in capsys.readouterr().out


def test_a_user_who_never_answers_or_refuses_ends_the_waiting(
    session: Session, boards: tuple[EmulatedBoard, EmulatedBoard]
) -> None:
    board = choose_board(with_patience(session, 2.0), boards[1].key)
    FaultFile(folder=boards[1].folder).set("unauthorised")
    with pytest.raises(BoardUnauthorised):
        board.shell("echo never", deadline=soon())
    FaultFile(folder=boards[1].folder).clear()
    FaultFile(folder=boards[1].folder).set("refused")
    with pytest.raises(BoardUnauthorised, match="refused"):
        board.shell("echo never", deadline=soon())


def test_boards_of_all_servers_are_listed(session: Session, boards: tuple[EmulatedBoard, EmulatedBoard]) -> None:
    for board in boards:
        choose_board(session, board.key)
    listed = {board["serial"]: board["state"] for board in list_boards(session)}
    assert [listed[board.key] for board in boards] == ["connected", "connected"]


def test_no_server_is_ended_but_the_boards_own(
    session: Session, boards: tuple[EmulatedBoard, EmulatedBoard], tmp_path: Path
) -> None:
    first, second = (choose_board(session, board.key) for board in boards)
    assert isinstance(first, HdcBoard)
    assert isinstance(second, HdcBoard)
    assert first.hdc.renew is not None
    first.hdc.renew(session)
    servers = [Path(board.hdc.environment["TMPDIR"]) for board in (first, second)]
    assert [list(server.glob(".ohforge-hdc-*.json")) != [] for server in servers] == [False, True]
    # The one that everybody uses was started before them, and goes on.
    assert (tmp_path / "tmp" / f".ohforge-hdc-{os.environ['OHOS_HDC_SERVER_PORT']}.json").exists()


def with_patience(session: Session, seconds: float) -> Session:
    timeouts = dataclasses.replace(session.settings.timeouts, authorise=seconds)
    return dataclasses.replace(session, settings=dataclasses.replace(session.settings, timeouts=timeouts))
