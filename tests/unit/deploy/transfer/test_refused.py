"""What keeps files from being sent: no room, no right to write, names that cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import (
    BoardError,
    NoSpaceOnBoard,
    PermissionOnBoard,
    UsageError,
)
from core.session import Session
from deploy.transfer.placement import FileToPlace
from deploy.transfer.pull import pull_files
from deploy.transfer.push import place_files
from tests.support.local_board import LocalBoard
from tests.support.transfers import CONTENT, cut, flip_byte, place

# room ----------------------------------------------------------------------------------------------

NO_ROOM = {r"^(\S+ +\d+ +\d+) +\d+( +\d+%)": r"\1 9\2"}


def test_too_little_room_is_told_before_anything_is_sent(session: Session, board: LocalBoard, file: Path) -> None:
    board.replies = NO_ROOM
    with pytest.raises(NoSpaceOnBoard, match=r"9\.2 kB free"):
        place(session, board, file)
    assert "send" not in board.calls


def test_what_needs_no_room_is_placed_on_a_full_board(session: Session, board: LocalBoard, file: Path) -> None:
    place(session, board, file)
    board.replies = NO_ROOM
    assert place(session, board, file, name="next").read_bytes() == CONTENT


def test_a_disk_that_fills_up_unnoticed_is_found_by_size_and_told_as_that(
    session: Session, board: LocalBoard, file: Path
) -> None:
    def fill(remote: str) -> None:
        cut(remote)
        board.replies = {r"^free (.*) \d+( +\d+%)": r"free \1 9\2"}

    board.on_send = fill
    with pytest.raises(NoSpaceOnBoard):
        place(session, board, file)
    assert board.stored() == []


def test_after_a_full_disk_the_partial_file_is_removed(session: Session, board: LocalBoard, file: Path) -> None:
    def full(remote: str) -> None:
        cut(remote)
        raise NoSpaceOnBoard("full")

    board.on_send = full
    with pytest.raises(NoSpaceOnBoard):
        place(session, board, file)
    assert board.stored() == []


def test_a_board_that_cannot_tell_its_room_is_tried(session: Session, board: LocalBoard, file: Path) -> None:
    board.replies = {r"^\S+ +\d+ +\d+ +\d+ +\d+%.*$": ""}
    assert place(session, board, file).read_bytes() == CONTENT


def test_a_board_that_cannot_be_written_is_told_before_anything_is_sent(
    session: Session, board: LocalBoard, file: Path
) -> None:
    board.replies = {"^@@writable\nyes": "@@writable"}
    with pytest.raises(PermissionOnBoard, match="cannot be written") as caught:
        place(session, board, file)
    assert "read-only" in caught.value.remedy
    assert "folder below" not in caught.value.remedy
    assert "send" not in board.calls


def test_without_a_hash_tool_nothing_is_sent(session: Session, board: LocalBoard, file: Path) -> None:
    board.replies = {"^sha256sum$": ""}
    with pytest.raises(BoardError, match="sha256sum or md5sum"):
        place(session, board, file)
    assert "send" not in board.calls


def test_md5sum_serves_where_sha256sum_is_a_link_to_nothing(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sha256sum").write_text("#!/bin/sh\necho unknown command >&2\nexit 1\n")
    (tools / "sha256sum").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    faults = [flip_byte]
    board.on_send = lambda remote: faults.pop()(remote) if faults else None
    summary = place_files(session, board, [FileToPlace(local=file, name="a")], str(board.folder / "t"))
    assert summary.hash_tool == "md5sum"
    assert (board.folder / "t/a").read_bytes() == CONTENT
    assert board.calls.count("send") == 2
    board.calls.clear()
    flipped = [flip_byte]
    board.on_receive = lambda local: flipped.pop()(local) if flipped else None
    pull_files(session, board, [str(board.folder / "t/a")], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == CONTENT
    assert board.calls.count("receive") == 2


@pytest.mark.parametrize("name", ["", "/abs", "../up", "a/../../b", "x\ny", "n" * 300])
def test_impossible_names_are_refused_before_the_board_is_asked(
    session: Session, board: LocalBoard, file: Path, name: str
) -> None:
    with pytest.raises(UsageError):
        place(session, board, file, name=name)
    assert board.calls == []


@pytest.mark.parametrize("name", ["it's", 'quo"te', "100%d", "-x", "remote", "$HOME", "a b", "模型.gguf", "#"])
def test_names_that_hdc_would_change_arrive_unharmed(
    session: Session, board: LocalBoard, file: Path, name: str
) -> None:
    assert place(session, board, file, name=name).read_bytes() == CONTENT


def test_a_place_that_cannot_be_written_is_named(session: Session, board: LocalBoard, file: Path) -> None:
    with pytest.raises(PermissionOnBoard, match="/proc/no"):
        place_files(session, board, [FileToPlace(local=file, name="a")], "/proc/no")


def test_a_folder_in_the_way_is_not_filled(session: Session, board: LocalBoard, file: Path) -> None:
    (board.folder / "target/a.bin").mkdir(parents=True)
    with pytest.raises(PermissionOnBoard, match=r"a\.bin"):
        place(session, board, file)
