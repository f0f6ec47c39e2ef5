"""``board.clean`` on the emulated board: only what ohforge put there goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.deadline import Deadline
from core.errors import UsageError
from core.session import Session
from deploy.board.protocol import Board
from deploy.emulator.board.boards import list_emulated, stop_board
from deploy.hdc.choose import choose_board
from deploy.transfer.clean import clean_board
from deploy.transfer.push import push_files

BASE = "/data/local/tmp/ohforge"


@pytest.fixture
def board(session: Session) -> Iterator[Board]:
    yield choose_board(session, "dayu200")
    for emulated in list_emulated(session.settings.data / "boards"):
        stop_board(emulated)


def shell(board: Board, script: str) -> str:
    return board.shell(script, deadline=Deadline.after(60, "the test's command")).text


def test_only_files_with_our_names_and_of_that_age_are_removed(session: Session, board: Board, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    push_files(session, board, [tmp_path / "file"], "/data/local/tmp/kept/")
    shell(board, f"mkdir -p {BASE}/runs/20260101T000000Z-x-y-0000 {BASE}/runs/mine; touch {BASE}/store/mine")
    assert clean_board(session, board, days=1).entries == 0
    assert clean_board(session, board).entries == 2
    left = shell(board, f"cd {BASE}; echo runs/* store/*; cat /data/local/tmp/kept/file")
    assert left == "runs/mine store/mine\ncontent"


def test_only_what_takes_up_that_much_room_is_removed(session: Session, board: Board, tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"s" * 2_000)
    (tmp_path / "large").write_bytes(os.urandom(300_000))
    push_files(session, board, [tmp_path / "small", tmp_path / "large"], "/data/local/tmp/kept/")
    runs = f"{BASE}/runs/20260101T000000Z"
    shell(board, f"mkdir -p {runs}-x-y-0000 {runs}-x-y-0001; head -c 200000 /dev/zero >{runs}-x-y-0001/output")
    assert clean_board(session, board, days=1, smallest=100_000).entries == 0
    assert clean_board(session, board, smallest=250_000).entries == 1
    left = shell(board, f"cd {BASE}; ls store | wc -l; ls runs").split()
    assert left == ["2", "20260101T000000Z-x-y-0000", "20260101T000000Z-x-y-0001"]  # the small one and its note
    assert clean_board(session, board, smallest=150_000).entries == 1
    assert shell(board, f"ls {BASE}/runs").split() == ["20260101T000000Z-x-y-0000"]


def test_the_folder_of_a_running_program_stays(session: Session, board: Board) -> None:
    folder = f"{BASE}/runs/20260101T000000Z-x-y-0000"
    start = "setsid sh -c 'echo $$ >/data/local/tmp/pid; exec sleep 600' </dev/null >/dev/null 2>&1 &"
    shell(board, f"mkdir -p {folder}; cd {folder}; {start} while [ ! -s /data/local/tmp/pid ]; do sleep 0.1; done")
    assert clean_board(session, board).entries == 0
    shell(board, "p=$(cat /data/local/tmp/pid); kill -9 $p; while readlink /proc/$p/cwd; do sleep 0.1; done")
    assert clean_board(session, board).entries == 1


def test_a_board_that_was_never_used_is_clean(session: Session, board: Board) -> None:
    assert clean_board(session, board).entries == 0


@pytest.mark.parametrize("limits", [{"days": -1.0}, {"smallest": -1}])
def test_a_negative_age_or_size_is_refused(session: Session, board: Board, limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        clean_board(session, board, **limits)
