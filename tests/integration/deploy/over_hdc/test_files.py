"""Files on their way to the emulated board and back."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    Busy,
    ContentDiffers,
    DeadlineExpired,
    LostConnection,
    NoSpaceOnBoard,
    OhforgeError,
    PermissionOnBoard,
    TransferStalled,
)
from core.session import Session
from deploy.board.protocol import Board
from deploy.emulator.board.boards import list_emulated
from deploy.emulator.board.faults import FaultFile
from deploy.hdc import board as hdc
from deploy.transfer import stall
from deploy.transfer.placement import FileToPlace
from deploy.transfer.pull import pull_files
from deploy.transfer.push import place_files
from tests.support.board_runs import TMP, soon

# files ---------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(os.urandom(3_000_000))
    return path


def place(session: Session, board: Board, file: Path) -> Any:
    return place_files(session, board, [FileToPlace(local=file, name=file.name)], f"{TMP}/test")


def test_a_file_is_sent_once_and_comes_back_the_same(
    session: Session, board: Board, file: Path, tmp_path: Path, commands: list[str]
) -> None:
    assert place(session, board, file).bytes_sent == 3_000_000
    assert len(commands) == 3  # asked, sent, verified and put into place
    commands.clear()
    assert place(session, board, file).bytes_sent == 0
    assert len(commands) == 2
    pull_files(session, board, [f"{TMP}/test/model.bin"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("name", "parameters", "error"),
    [
        ("cut-transfer", {"at": 1_000_000}, LostConnection),
        ("corrupt", {"at": 1_500_000}, ContentDiffers),
        ("full-disk", {"at": 1_000_000}, NoSpaceOnBoard),
        ("permission", {}, PermissionOnBoard),
        ("hang-send", {}, DeadlineExpired),
        ("freeze-transfer", {"at": 1_000_000}, DeadlineExpired),
    ],
)
def test_a_fault_in_a_transfer_is_told_and_leaves_nothing_under_a_final_name(
    session: Session,
    board: Board,
    fault: Callable[..., None],
    file: Path,
    name: str,
    parameters: dict[str, float],
    error: type[OhforgeError],
) -> None:
    timeouts = dataclasses.replace(session.settings.timeouts, transfer=4.0 if error is DeadlineExpired else 120.0)
    hurried = session.with_settings(timeouts=timeouts)
    board.shell(f"rm -rf {TMP}/test", deadline=soon())
    fault(name, **parameters)
    with pytest.raises(error):
        place(hurried, board, file)
    for known in list_emulated():
        FaultFile(folder=known.folder).clear()
    if name == "freeze-transfer":
        assert isinstance(board, hdc.HdcBoard)
        board.hdc.call(session, ("kill",), deadline=soon())
    from core.files import sha256_file

    left = board.shell(f"ls {TMP}/test {TMP}/ohforge/store", deadline=soon()).text.split()
    assert "model.bin" not in left
    assert sha256_file(file) not in left
    assert place(session, board, file).bytes_sent == 3_000_000


def test_a_byte_that_changes_once_costs_one_more_transfer(
    session: Session, board: Board, fault: Callable[..., None], file: Path
) -> None:
    fault("corrupt", at=1_500_000, count=1)
    assert place(session, board, file).bytes_sent == 6_000_000


def test_a_pull_that_is_corrupted_once_is_repeated(
    session: Session, board: Board, fault: Callable[..., None], file: Path, tmp_path: Path
) -> None:
    place(session, board, file)
    fault("corrupt", at=1_500_000, count=1)
    pull_files(session, board, [f"{TMP}/test/model.bin"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == file.read_bytes()


def test_a_pull_that_is_cut_leaves_no_file(
    session: Session, board: Board, fault: Callable[..., None], file: Path, tmp_path: Path
) -> None:
    place(session, board, file)
    fault("cut-transfer", at=1_000_000)
    with pytest.raises(LostConnection):
        pull_files(session, board, [f"{TMP}/test/model.bin"], tmp_path / "back")
    assert [path.name for path in tmp_path.glob("*back*")] == []


def test_a_board_that_freezes_in_a_pull_is_not_waited_for_until_the_transfers_deadline(
    session: Session,
    board: Board,
    fault: Callable[..., None],
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place(session, board, file)
    fault("freeze-transfer", at=1_000_000)
    monkeypatch.setattr(stall, "GIVEN_UP_AFTER", 3.0)
    monkeypatch.setattr(stall, "SILENT_AFTER", 0.0)
    with pytest.raises(TransferStalled, match=r"Nothing more of model\.bin has come from board"):
        pull_files(session, board, [f"{TMP}/test/model.bin"], tmp_path / "back")
    assert isinstance(board, hdc.HdcBoard)
    board.hdc.call(session, ("kill",), deadline=soon())
    assert list(tmp_path.glob("*back*")) == list(tmp_path.glob(".ohforge*")) == []


def test_a_busy_file_is_named(board: Board, fault: Callable[..., None], file: Path) -> None:
    board.send(file, f"{TMP}/x", deadline=soon())
    fault("busy")
    with pytest.raises(Busy, match="running"):
        board.send(file, f"{TMP}/x", deadline=soon())
