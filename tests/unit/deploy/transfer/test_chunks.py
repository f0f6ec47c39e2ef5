"""Large files in chunks, on a board that is a folder with a real shell: cuts, resumption, faults, two at once."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    ContentDiffers,
    LostConnection,
    NoSpaceOnBoard,
    PermissionOnBoard,
    RemoteFolderMissing,
    TransferError,
    TransferStalled,
)
from core.session import Session
from deploy.transfer import chunks, stall, watched
from deploy.transfer.clean import clean_board
from deploy.transfer.placement import FileToPlace
from deploy.transfer.push import TransferSummary, place_files
from tests.support.local_board import LocalBoard
from tests.support.transfers import parts_of
from tests.support.waiting import wait_until

CHUNK = 10_000
CONTENT = os.urandom(95_000)
NAME = hashlib.sha256(CONTENT).hexdigest()
PARTS = parts_of(CONTENT)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNKED_FROM", 50_000)
    monkeypatch.setattr(chunks, "SMALLEST_CHUNK", CHUNK)
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", CHUNK)
    # A board whose replies are changed tells nothing before its end.
    monkeypatch.setattr(watched, "READY_SECONDS", 1.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(CONTENT)
    return path


def push(session: Session, board: LocalBoard, file: Path) -> TransferSummary:
    return place_files(session, board, [FileToPlace(local=file, name="model.bin")], str(board.folder / "target"))


def arrived(board: LocalBoard) -> bytes:
    return (board.folder / "target/model.bin").read_bytes()


def joined(board: LocalBoard) -> Path:
    return board.store / PARTS / "joined"


def nth_send(number: int, action: Callable[[Path], None]) -> Callable[[str], None]:
    """What does `action` to what arrived with the send of that number, counted from 1."""
    count = [0]

    def on_send(remote: str) -> None:
        count[0] += 1
        if count[0] == number:
            action(Path(remote))

    return on_send


def cut(part: Path) -> None:
    os.truncate(part, 3_000)
    raise LostConnection("the link ended")


def flip(part: Path) -> None:
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)


def test_a_large_file_arrives_in_chunks_and_nothing_else_stays(session: Session, board: LocalBoard, file: Path) -> None:
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert board.calls.count("send") == 10
    assert summary.bytes_sent == len(CONTENT)
    assert board.stored() == [NAME]
    assert (board.store / f"{NAME}.ok").is_file()


def test_a_chunk_costs_two_calls_and_the_rest_four(session: Session, board: LocalBoard, file: Path) -> None:
    push(session, board, file)
    # Asked, prepared, watched, taken into the store and put into place; and one to join each chunk.
    assert board.calls.count("shell") == 4 + 10


def test_a_large_file_that_is_there_is_not_sent_again(session: Session, board: LocalBoard, file: Path) -> None:
    push(session, board, file)
    board.calls.clear()
    assert push(session, board, file).bytes_sent == 0
    assert board.calls == ["shell", "shell"]


def test_chunks_are_deleted_as_they_are_joined(session: Session, board: LocalBoard, file: Path) -> None:
    most = [0]

    def measure(remote: str) -> None:
        there = sum(path.stat().st_size for path in board.store.rglob("*") if path.is_file())
        most[0] = max(most[0], there)

    board.on_send = measure
    push(session, board, file)
    # Between the two halves of a join, what is joined and its chunk are both there.
    assert most[0] <= len(CONTENT) + 2 * CHUNK


def cut_at_90_percent(session: Session, board: LocalBoard, file: Path) -> None:
    def gone(remote: str) -> None:
        if len(board.calls) and board.calls.count("send") >= 9:
            cut(Path(remote))

    board.on_send = gone
    with pytest.raises(LostConnection):
        push(session, board, file)
    board.on_send = lambda remote: None
    board.calls.clear()


def test_after_a_cut_at_90_percent_at_most_one_chunk_is_sent_again(
    session: Session, board: LocalBoard, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_at_90_percent(session, board, file)
    assert joined(board).read_bytes() == CONTENT[:80_000]
    assert "80.0 kB of model.bin are on board local-board; the next push goes on" in capsys.readouterr().out
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert summary.bytes_sent == 15_000
    assert summary.bytes_reused == 80_000
    assert board.stored() == [NAME]


def test_chunks_that_had_arrived_whole_are_joined_by_the_next_push(
    session: Session, board: LocalBoard, file: Path
) -> None:
    def gone(script: str) -> None:
        if "$a = 70000" in script:
            raise LostConnection("the link ended")

    board.on_shell = gone
    with pytest.raises(LostConnection):
        push(session, board, file)
    assert joined(board).stat().st_size == 70_000
    board.on_shell = lambda script: None
    # Two chunks lie there: one whose joining was cut, and the one that was sent meanwhile.
    assert push(session, board, file).bytes_sent == 5_000
    assert arrived(board) == CONTENT


def test_a_chunk_that_had_arrived_in_part_is_sent_again(session: Session, board: LocalBoard, file: Path) -> None:
    cut_at_90_percent(session, board, file)
    (half,) = joined(board).parent.glob("*-*")
    assert half.stat().st_size == 3_000
    assert push(session, board, file).bytes_sent == 15_000


def test_nothing_is_under_the_final_name_after_a_cut(session: Session, board: LocalBoard, file: Path) -> None:
    cut_at_90_percent(session, board, file)
    assert board.stored() == [PARTS]
    assert not (board.folder / "target").exists()


@pytest.mark.parametrize("length", [1, 79_999, 80_001])
def test_what_was_joined_may_end_anywhere(session: Session, board: LocalBoard, file: Path, length: int) -> None:
    cut_at_90_percent(session, board, file)
    joined(board).write_bytes(CONTENT[:length])
    assert push(session, board, file).bytes_sent == len(CONTENT) - length
    assert arrived(board) == CONTENT


def test_what_an_earlier_try_left_is_hashed_before_it_is_used(session: Session, board: LocalBoard, file: Path) -> None:
    cut_at_90_percent(session, board, file)
    flip(joined(board))
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert summary.bytes_sent == 15_000 + len(CONTENT)


def test_more_than_the_file_is_no_beginning_of_it(session: Session, board: LocalBoard, file: Path) -> None:
    cut_at_90_percent(session, board, file)
    joined(board).write_bytes(CONTENT + b"more")
    assert push(session, board, file).bytes_sent == len(CONTENT)
    assert arrived(board) == CONTENT


def test_a_chunk_that_arrives_corrupted_is_sent_once_more(session: Session, board: LocalBoard, file: Path) -> None:
    board.on_send = nth_send(4, flip)
    push(session, board, file)
    assert arrived(board) == CONTENT
    assert board.calls.count("send") == 12  # the fifth was on its way already


def test_a_chunk_that_is_short_in_silence_is_sent_once_more(session: Session, board: LocalBoard, file: Path) -> None:
    board.on_send = nth_send(10, lambda part: os.truncate(part, 7))
    push(session, board, file)
    assert arrived(board) == CONTENT


def test_a_chunk_that_arrives_corrupted_twice_is_an_error_that_names_its_place(
    session: Session, board: LocalBoard, file: Path
) -> None:
    board.on_send = lambda remote: flip(Path(remote))
    with pytest.raises(ContentDiffers, match=r"bytes 0 to 10000 of model\.bin"):
        push(session, board, file)
    assert not joined(board).exists()
    assert (board.store / NAME).exists() is False


def test_a_link_that_breaks_once_costs_one_chunk_in_the_same_push(
    session: Session, board: LocalBoard, file: Path
) -> None:
    board.on_send = nth_send(3, cut)
    assert push(session, board, file).bytes_sent == len(CONTENT) + CHUNK
    assert arrived(board) == CONTENT


class FreezingBoard(LocalBoard):
    """Of the chunk with the number `frozen_at` half arrives, and nothing more."""

    frozen_at = 4

    def send(self, local: Path, remote: str, *, deadline: Deadline) -> None:
        if self.calls.count("send") + 1 != self.frozen_at:
            super().send(local, remote, deadline=deadline)
            return
        self.calls.append("send")
        Path(remote).write_bytes(local.read_bytes()[: CHUNK // 2])
        wait_until("the end of the transfer", lambda: deadline.expired)
        raise deadline.error()


def test_a_chunk_of_which_nothing_more_arrives_is_given_up_and_the_next_push_goes_on(
    session: Session, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stall, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(stall, "SILENT_AFTER", 0.1)
    monkeypatch.setattr(stall, "TOLD_AFTER", 0.5)
    monkeypatch.setattr(stall, "GIVEN_UP_AFTER", 2.0)
    board = FreezingBoard(tmp_path / "freezing")
    with pytest.raises(TransferStalled, match=r"Nothing more of model\.bin has reached board"):
        push(session, board, file)
    assert "it is given up after 2 s" in capsys.readouterr().err
    assert not (board.store / NAME).exists()
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert summary.bytes_sent == len(CONTENT) - 3 * CHUNK


def test_a_full_disk_keeps_what_is_verified_and_removes_the_chunk(
    session: Session, board: LocalBoard, file: Path
) -> None:
    def full(part: Path) -> None:
        os.truncate(part, 10)
        raise NoSpaceOnBoard("full")

    board.on_send = nth_send(6, full)
    with pytest.raises(NoSpaceOnBoard):
        push(session, board, file)
    left = {path.name: path.stat().st_size for path in joined(board).parent.iterdir() if path.name != "lock"}
    assert left.pop("joined") in (40_000, 50_000)
    assert all(size in (0, CHUNK) for size in left.values())
    board.on_send = lambda remote: None
    assert push(session, board, file).bytes_sent <= 55_000
    assert arrived(board) == CONTENT


def test_a_disk_that_is_full_when_a_chunk_is_joined_is_told(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cat").write_text(
        '#!/bin/sh\nhead -c 100 "$1"\necho "cat: write error: No space left on device" >&2\nexit 1\n'
    )
    (tools / "cat").chmod(0o755)
    monkeypatch.setattr("tests.support.local_board.SHELL", "/bin/sh")  # in others `cat` may be built in
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    with pytest.raises(NoSpaceOnBoard, match="storage is full"):
        push(session, board, file)
    assert joined(board).read_bytes() == CONTENT[:CHUNK]


def test_room_for_two_chunks_is_asked_for_beforehand(session: Session, board: LocalBoard, file: Path) -> None:
    free = (8_000_000 + len(CONTENT) + CHUNK) // 1024
    board.replies = {r"^(\S+ +\d+ +\d+) +\d+( +\d+%)": rf"\1 {free}\2"}
    with pytest.raises(NoSpaceOnBoard):
        push(session, board, file)
    assert "send" not in board.calls


def test_what_is_there_already_needs_no_room(session: Session, board: LocalBoard, file: Path) -> None:
    cut_at_90_percent(session, board, file)
    free = (8_000_000 + 15_000 + 2 * CHUNK) // 1024 + 1
    board.replies = {r"^(\S+ +\d+ +\d+) +\d+( +\d+%)": rf"\1 {free}\2"}
    push(session, board, file)
    assert arrived(board) == CONTENT


def test_a_source_that_changes_on_the_way_is_an_error_and_leaves_nothing(
    session: Session, board: LocalBoard, file: Path
) -> None:
    def change(part: Path) -> None:
        file.write_bytes(os.urandom(len(CONTENT)))

    board.on_send = nth_send(2, change)
    with pytest.raises(TransferError, match=r"model\.bin was changed while"):
        push(session, board, file)
    assert board.stored() == []


def test_a_source_that_gets_shorter_on_the_way_is_an_error(session: Session, board: LocalBoard, file: Path) -> None:
    board.on_send = nth_send(2, lambda part: os.truncate(file, 100))
    with pytest.raises(TransferError, match="was changed while"):
        push(session, board, file)
    assert NAME not in board.stored()


def test_a_source_that_changed_since_the_cut_is_another_file(session: Session, board: LocalBoard, file: Path) -> None:
    cut_at_90_percent(session, board, file)
    file.write_bytes(CONTENT[:-1] + b"x")
    push(session, board, file)
    assert arrived(board) == file.read_bytes()


def test_another_computer_that_pushes_the_same_file_only_helps(session: Session, board: LocalBoard, file: Path) -> None:
    def other_is_quicker(part: Path) -> None:
        # The other one joins the chunks 3 to 6 while this one sends its fourth.
        joined(board).write_bytes(CONTENT[:60_000])

    board.on_send = nth_send(4, other_is_quicker)
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert summary.bytes_sent < len(CONTENT)


def test_another_computer_that_is_done_first_is_believed_only_with_the_right_hash(
    session: Session, board: LocalBoard, file: Path
) -> None:
    def other_is_done(part: Path) -> None:
        (board.store / NAME).write_bytes(CONTENT)
        (board.store / f"{NAME}.ok").write_text("noted")
        while joined(board).parent.exists():
            shutil.rmtree(joined(board).parent, ignore_errors=True)

    board.on_send = nth_send(5, other_is_done)
    assert push(session, board, file).bytes_sent <= 60_000
    assert arrived(board) == CONTENT


def test_chunks_of_an_earlier_try_of_this_computer_are_removed_and_those_of_others_kept_for_an_hour(
    session: Session, board: LocalBoard, file: Path
) -> None:
    cut_at_90_percent(session, board, file)
    folder = joined(board).parent
    (own,) = {path.name.split("-")[0] for path in folder.glob("*-*")}
    (folder / "0123456789ab-young").write_text("x")
    (folder / "0123456789ab-old").write_text("x")
    os.utime(folder / "0123456789ab-old", (0, 0))
    seen: list[str] = []
    board.on_send = nth_send(1, lambda part: seen.extend(path.name for path in folder.glob("*-*") if path != part))
    push(session, board, file)
    assert seen == ["0123456789ab-young"]
    assert not own.startswith("0123456789ab")


def test_a_folder_that_is_removed_on_the_way_is_told(session: Session, board: LocalBoard, file: Path) -> None:
    def remove(part: Path) -> None:
        clean_board(session, board)

    board.on_send = nth_send(5, remove)
    with pytest.raises((TransferError, RemoteFolderMissing)):
        push(session, board, file)
    assert NAME not in board.stored()


def test_clean_removes_what_was_joined(session: Session, board: LocalBoard, file: Path) -> None:
    cut_at_90_percent(session, board, file)
    (board.store / f"{PARTS}-of-mine").mkdir()
    clean_board(session, board, days=1)
    assert joined(board).exists()
    clean_board(session, board)
    assert board.stored() == [f"{PARTS}-of-mine"]


def test_a_store_that_cannot_take_a_folder_is_told(session: Session, board: LocalBoard, file: Path) -> None:
    board.store.mkdir(parents=True)
    (board.store / PARTS).write_text("in the way")
    with pytest.raises(PermissionOnBoard):
        push(session, board, file)


def test_chunks_grow_with_the_speed_of_the_link(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", 40_000)
    sizes: list[int] = []
    board.on_send = lambda remote: sizes.append(Path(remote).stat().st_size)
    push(session, board, file)
    # Two are cut before the first has arrived and its speed is known.
    assert sizes[0] == CHUNK
    assert max(sizes) > CHUNK
    assert sizes[-1] <= CHUNK  # nothing is sent while the last one is verified
    assert arrived(board) == CONTENT


def test_clean_tells_what_it_could_not_remove(session: Session, board: LocalBoard, file: Path, tmp_path: Path) -> None:
    push(session, board, file)
    stubborn = tmp_path / "tools" / "rm"
    stubborn.parent.mkdir()
    stubborn.write_text("#!/bin/sh\nexit 1\n")
    stubborn.chmod(0o755)
    with (
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(PermissionOnBoard, match="2 entries of "),
    ):
        patch.setenv("PATH", f"{stubborn.parent}:{os.environ['PATH']}")
        clean_board(session, board)
    assert board.stored() == [NAME]
