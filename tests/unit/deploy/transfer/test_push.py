"""Files to a board: verified, sent once, whole or not at all; folders."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    ContentDiffers,
    LostConnection,
    NoSpaceOnBoard,
    TransferError,
    UsageError,
)
from core.session import Session
from deploy.transfer import placement, sending
from deploy.transfer.placement import FileToPlace
from deploy.transfer.push import place_files, push_files
from tests.support.local_board import LocalBoard
from tests.support.transfers import CONTENT, NAME, changing, cut, flip_byte, names, place, record_progress
from tests.support.waiting import wait_until

# to the board --------------------------------------------------------------------------------------


def test_a_file_arrives_under_its_name_and_in_the_store(session: Session, board: LocalBoard, file: Path) -> None:
    there = place(session, board, file)
    assert there.read_bytes() == CONTENT
    assert (board.store / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize("is_there", [False, True])
def test_a_disk_that_is_full_where_a_file_is_wanted_is_told_as_that(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path, is_there: bool
) -> None:
    if is_there:
        place(session, board, file)
    (tmp_path / "bin").mkdir()
    copy = tmp_path / "bin/cp"
    copy.write_text("#!/bin/sh\necho \"cp: error writing '$2': No space left on device\" >&2\nexit 1\n")
    copy.chmod(0o755)
    board.environment = {"PATH": f"{copy.parent}:{os.environ['PATH']}"}
    with pytest.raises(NoSpaceOnBoard):
        place_files(session, board, [FileToPlace(local=file, name="b.bin")], str(board.folder / "other"))


def test_what_is_there_is_not_sent_again_and_costs_one_round_trip(
    session: Session, board: LocalBoard, file: Path
) -> None:
    place(session, board, file)
    board.calls.clear()
    summary = place_files(session, board, [FileToPlace(local=file, name="b.bin")], str(board.folder / "other"))
    assert board.calls == ["shell", "shell"]  # to ask, and to put it where it is wanted
    assert (summary.bytes_sent, summary.bytes_reused) == (0, len(CONTENT))
    assert (board.folder / "other" / "b.bin").read_bytes() == CONTENT


def test_many_files_are_asked_for_and_verified_and_placed_in_one_round_trip_each(
    session: Session, board: LocalBoard, tmp_path: Path
) -> None:
    files = []
    for number in range(30):
        (tmp_path / f"f{number}").write_text(f"content {number}")
        files.append(FileToPlace(local=tmp_path / f"f{number}", name=f"f{number}"))
    summary = place_files(session, board, files, str(board.folder / "target"))
    assert summary.files_sent == 30
    assert board.calls == ["shell", *["send"] * 30, "shell"]


def test_the_same_content_under_two_names_is_sent_once(session: Session, board: LocalBoard, file: Path) -> None:
    files = [FileToPlace(local=file, name="one"), FileToPlace(local=file, name="sub/two")]
    summary = place_files(session, board, files, str(board.folder / "target"))
    assert summary.bytes_sent == len(CONTENT)
    assert (board.folder / "target/sub/two").read_bytes() == CONTENT


def test_execute_bits_are_given_though_hdc_loses_them(session: Session, board: LocalBoard, file: Path) -> None:
    assert os.access(place(session, board, file, executable=True), os.X_OK)


def test_execute_bits_are_given_to_what_was_stored_without(session: Session, board: LocalBoard, file: Path) -> None:
    assert not os.access(place(session, board, file), os.X_OK)
    assert os.access(place(session, board, file, name="program", executable=True), os.X_OK)


def test_a_file_that_arrives_corrupted_is_sent_once_more(session: Session, board: LocalBoard, file: Path) -> None:
    faults = [flip_byte]
    board.on_send = lambda remote: faults.pop()(remote) if faults else None
    assert place(session, board, file).read_bytes() == CONTENT
    assert board.calls.count("send") == 2


def test_a_file_that_arrives_corrupted_twice_is_told_and_nothing_of_it_stays(
    session: Session, board: LocalBoard, file: Path
) -> None:
    board.on_send = flip_byte
    with pytest.raises(ContentDiffers, match=r"model\.bin"):
        place(session, board, file)
    assert board.stored() == []
    assert not (board.folder / "target").exists()


def test_a_file_that_was_cut_short_in_silence_is_sent_once_more(
    session: Session, board: LocalBoard, file: Path
) -> None:
    faults = [cut]
    board.on_send = lambda remote: faults.pop()(remote) if faults else None
    assert place(session, board, file).read_bytes() == CONTENT


def test_a_cut_transfer_leaves_no_file_under_the_final_name(session: Session, board: LocalBoard, file: Path) -> None:
    def cut_link(remote: str) -> None:
        cut(remote)
        raise LostConnection("the link ended")

    board.on_send = cut_link
    with pytest.raises(LostConnection):
        place(session, board, file)
    assert board.stored() == [f"{NAME}.part"]
    board.on_send = lambda remote: None
    assert place(session, board, file).read_bytes() == CONTENT
    assert board.stored() == [NAME]


def test_an_old_file_stays_whole_when_its_successor_is_cut(session: Session, board: LocalBoard, file: Path) -> None:
    there = place(session, board, file)
    file.write_bytes(b"new content")
    board.on_send = flip_byte
    with pytest.raises(ContentDiffers):
        place(session, board, file)
    assert there.read_bytes() == CONTENT


def test_a_program_that_changes_its_input_does_not_spoil_the_next_run(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "COPY_BYTES", 0)
    there = place(session, board, file)
    with there.open("ab") as changed:
        changed.write(b"changed")
    assert (board.store / NAME).read_bytes() == CONTENT + b"changed"
    there.unlink()
    assert place(session, board, file, name="next").read_bytes() == CONTENT


def test_a_change_that_keeps_the_size_is_noticed(session: Session, board: LocalBoard, file: Path) -> None:
    place(session, board, file)
    flip_byte(board.store / NAME)
    assert place(session, board, file, name="next").read_bytes() == CONTENT
    assert board.calls.count("send") == 2


def test_an_untouched_file_whose_note_is_lost_is_hashed_and_not_sent(
    session: Session, board: LocalBoard, file: Path
) -> None:
    place(session, board, file)
    (board.store / f"{NAME}.ok").unlink()
    board.calls.clear()
    place(session, board, file)
    assert "send" not in board.calls
    assert (board.store / f"{NAME}.ok").exists()
    board.calls.clear()
    place(session, board, file)
    assert board.calls == ["shell", "shell"]


def test_a_note_of_another_file_proves_nothing(session: Session, board: LocalBoard, file: Path) -> None:
    place(session, board, file)
    replaced = (board.store / NAME).with_name("x")
    replaced.write_bytes(bytes(len(CONTENT)))
    replaced.replace(board.store / NAME)
    assert place(session, board, file, name="next").read_bytes() == CONTENT


def test_a_leftover_part_is_never_trusted(session: Session, board: LocalBoard, file: Path) -> None:
    board.store.mkdir(parents=True)
    (board.store / f"{NAME}.part").write_bytes(CONTENT)
    assert place(session, board, file).read_bytes() == CONTENT
    assert board.calls.count("send") == 1


def test_two_small_files_of_one_content_do_not_change_together_after_a_push(
    session: Session, board: LocalBoard, file: Path
) -> None:
    one, two = board.folder / "one", board.folder / "two"
    push_files(session, board, [file], str(one))
    push_files(session, board, [file], str(two))
    one.write_bytes(b"changed")
    assert two.read_bytes() == CONTENT


def test_large_files_do_not_take_up_room_twice(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "COPY_BYTES", 1000)
    there = place(session, board, file)
    assert there.stat().st_ino == (board.store / NAME).stat().st_ino


def test_how_far_a_long_transfer_is_is_asked_of_the_board(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = record_progress(session, monkeypatch)
    monkeypatch.setattr(sending, "POLL_SECONDS", 0.01)

    def half_way(remote: str) -> None:
        Path(remote).write_bytes(CONTENT[:12_345])
        wait_until("half of it to be told", lambda: 12_345 in reached)
        Path(remote).write_bytes(CONTENT)

    board.on_send = half_way
    place(session, board, file)
    assert reached[-1] == len(CONTENT)


def test_a_board_that_does_not_tell_how_far_a_file_is_is_said_once(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(session.console, "warn", warned.append)
    monkeypatch.setattr(sending, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(sending, "TOLD_AFTER", 0.01)
    questions: list[str] = []

    def keep_silent(script: str) -> None:
        if "wc -c" in script:
            questions.append(script)
            wait_until("the warning", lambda: warned)
            time.sleep(0.05)

    board.on_shell = keep_silent
    board.on_send = lambda remote: wait_until("a second question", lambda: len(questions) > 1) and None
    place(session, board, file)
    assert [said for said in warned if "has not told" in said] == warned[:1] == warned


# folders -------------------------------------------------------------------------------------------


def test_a_folder_arrives_with_modes_and_empty_folders(session: Session, board: LocalBoard, tree: Path) -> None:
    push_files(session, board, [tree], str(board.folder / "copy"))
    assert names(board.folder / "copy") == names(tree)
    assert os.access(board.folder / "copy/run.sh", os.X_OK)


def test_a_folder_goes_into_one_that_is_there(session: Session, board: LocalBoard, tree: Path) -> None:
    (board.folder / "there").mkdir()
    push_files(session, board, [tree], str(board.folder / "there"))
    assert names(board.folder / "there/tree") == names(tree)


def test_whether_the_target_is_a_folder_is_asked_with_all_the_rest(
    session: Session, board: LocalBoard, file: Path
) -> None:
    push_files(session, board, [file], str(board.folder / "name"))
    assert board.calls == ["shell", "send", "shell"]
    assert (board.folder / "name").read_bytes() == CONTENT


def test_several_go_into_the_folder_that_is_named(session: Session, board: LocalBoard, tree: Path, file: Path) -> None:
    push_files(session, board, [tree, file], str(board.folder / "new"))
    assert {path.name for path in (board.folder / "new").iterdir()} == {"tree", "model.bin"}


def test_a_folder_without_files_is_told(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UsageError, match="no files"):
        push_files(session, board, [tmp_path / "nothing"], str(board.folder / "x"))


# two at once, and a short count -------------------------------------------------------------------


def test_two_transfers_to_one_board_wait_for_each_other(session: Session, board: LocalBoard, file: Path) -> None:
    from core.errors import Busy
    from core.locks import hold

    impatient = dataclasses.replace(
        session,
        settings=dataclasses.replace(
            session.settings, timeouts=dataclasses.replace(session.settings.timeouts, lock=0.2)
        ),
    )
    place(session, board, file)
    [lock] = (session.settings.data / "locks").iterdir()
    file.write_bytes(b"another content")
    with hold(lock, Deadline.after(5, "the test")), pytest.raises(Busy):
        place(impatient, board, file)
    place(impatient, board, file)


def test_a_short_count_by_hdc_is_sent_once_more(session: Session, board: LocalBoard, file: Path) -> None:
    faults = [TransferError("999 bytes were reported")]

    def short(remote: str) -> None:
        if faults:
            raise faults.pop()

    board.on_send = short
    assert place(session, board, file).read_bytes() == CONTENT


@pytest.mark.parametrize("size", [len(CONTENT), len(CONTENT) + 1])
def test_a_source_that_changes_on_the_way_is_told_and_sent_once(
    session: Session, board: LocalBoard, file: Path, size: int
) -> None:
    board.on_send = changing(file, size)
    with pytest.raises(TransferError, match=r"model\.bin was changed while it was being sent"):
        place(session, board, file)
    assert board.calls.count("send") == 1
    assert board.stored() == []
