"""A board by a Windows hdc that is called from WSL: one that takes paths of Windows only and answers with CR LF."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.session import Session
from deploy.emulator.board.boards import EmulatedBoard, create_board, list_emulated, start_board, stop_board
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from deploy.hdc.program import Hdc
from tests.support.board_runs import take_stand_in_for_real
from tests.support.emulated import free_port
from tests.support.wsl import Wsl, make_wsl

TMP = "/data/local/tmp"


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedBoard]:
    """A board that listens at an address."""
    home = tmp_path_factory.mktemp("boards")
    board = create_board("lab", home=home, profile="dayu200-arm64", port=free_port())
    start_board(board)
    yield board
    for each in list_emulated(home):
        stop_board(each)


@pytest.fixture(autouse=True)
def own_boards() -> None:
    """Those of this module."""


@pytest.fixture
def wsl(emulated: EmulatedBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wsl:
    take_stand_in_for_real(emulated.folder.parent, tmp_path, monkeypatch)
    wsl = make_wsl(tmp_path, Hdc(argv=(os.environ["OHFORGE_HDC"],), title="stand-in"), monkeypatch)
    monkeypatch.setenv("OHFORGE_HDC", str(wsl.hdc))
    return wsl


@pytest.fixture
def board(session: Session, wsl: Wsl, emulated: EmulatedBoard) -> HdcBoard:
    board = choose_board(session, emulated.key)
    assert isinstance(board, HdcBoard)
    assert board.hdc.bridge is not None
    return board


def soon() -> Deadline:
    return Deadline.after(120, "the test")


def test_outputs_and_files_are_whole_both_ways(board: HdcBoard, wsl: Wsl, tmp_path: Path) -> None:
    answer = board.shell("printf 'a\\r\\nb\\n\\nno end'; exit 3", deadline=soon())
    assert (answer.exit_code, answer.output) == (3, b"a\r\nb\n\nno end")
    content = b"a\r\nb\nc\0\xff" * 50_000
    for folder in (tmp_path, wsl.drive / "Users/Ana"):  # Linux' own disk, and one of Windows'.
        (folder / "here.bin").write_bytes(content)
        board.send(folder / "here.bin", f"{TMP}/there.bin", deadline=soon())
        assert board.shell(f"wc -c <{TMP}/there.bin", deadline=soon()).text.strip() == str(len(content))
        board.receive(f"{TMP}/there.bin", folder / "back.bin", deadline=soon())
        assert (folder / "back.bin").read_bytes() == content
    # A script too long for a command line goes as a file.
    assert board.shell(f"echo {'x' * 70_000} | wc -c", deadline=soon()).text.strip() == "70001"
    assert list(wsl.temporary.iterdir()) == []


def test_a_windows_hdc_has_the_server_that_windows_knows(session: Session, board: HdcBoard) -> None:
    assert board.hdc.environment == {}
    assert not (session.settings.data / "hdc-servers").exists()
