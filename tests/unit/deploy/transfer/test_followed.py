"""Large files in one piece, hashed by an agent while they arrive; on a board that is a folder with a real shell."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import ContentDiffers, LostConnection, NoSpaceOnBoard, TransferError
from core.session import Session
from deploy.board.survey import Survey, survey_board
from deploy.transfer import chunks, followed, store
from deploy.transfer import push as transfer
from deploy.transfer.placement import FileToPlace
from deploy.transfer.push import TransferSummary, place_files
from deploy.transfer.store import hash_beginnings
from tests.support.local_board import LocalBoard
from tests.support.transfers import changing, parts_of
from tests.support.waiting import wait_until

STEP = 10_000
CONTENT = os.urandom(95_000)
NAME = hashlib.sha256(CONTENT).hexdigest()
PARTS = parts_of(CONTENT)
AGENT = """#!/bin/sh
# hash -: as the agent does. follow --size N --step N --lag N --idle MS --echo FILE: likewise, on a file that is whole at once.
if [ "$1" = hash ]; then
  cat >"$0.in"; set -- $(sha256sum <"$0.in"); echo "$1 $(($(wc -c <"$0.in"))) -"; exit
fi
size=$3 step=$5 file=${11}
echo "$*" >>"$0.calls"
cat; echo ready
i=0
until [ $(($(wc -c <"$file"))) -ge $size ]; do i=$((i + 1)); [ $i -lt 40 ] || { echo stopped 0; exit 1; }; sleep 0.05; done
at=0
while [ $at -lt $size ]; do
  at=$((at + step)); [ $at -le $size ] || at=$size
  set -- $(head -c $at "$file" | sha256sum); echo "$at $1"
done
"""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNKED_FROM", 50_000)
    monkeypatch.setattr(chunks, "SMALLEST_CHUNK", STEP)
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", STEP)
    monkeypatch.setattr(chunks, "LAG", 5_000)
    monkeypatch.setattr(store, "STEP", STEP)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBoard]:
    made = LocalBoard(tmp_path / "board")
    agent = made.folder / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)

    def with_agent(*arguments: object) -> Survey:
        return dataclasses.replace(survey_board(*arguments), agent=str(agent))  # type: ignore[arg-type]

    monkeypatch.setattr(transfer, "survey_board", with_agent)
    yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(CONTENT)
    return path


def push(session: Session, board: LocalBoard, file: Path, sha256: str = "") -> TransferSummary:
    return place_files(
        session, board, [FileToPlace(local=file, name="model.bin", sha256=sha256)], str(board.folder / "target")
    )


def arrived(board: LocalBoard) -> bytes:
    return (board.folder / "target/model.bin").read_bytes()


def joined(board: LocalBoard) -> Path:
    return board.store / PARTS / "joined"


def first_send(action: Callable[[Path], None]) -> Callable[[str], None]:
    """What does `action` to what the first send brought."""
    sends: list[str] = []

    def on_send(remote: str) -> None:
        sends.append(remote)
        if len(sends) == 1:
            action(Path(remote))

    return on_send


def cut_at(length: int) -> Callable[[Path], None]:
    def cut(there: Path) -> None:
        os.truncate(there, length)
        raise LostConnection("the link ended")

    return cut


def flip(there: Path, at: int) -> None:
    content = bytearray(there.read_bytes())
    content[at] ^= 1
    there.write_bytes(content)


def test_a_file_is_sent_while_it_is_hashed_here(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived_whole = threading.Event()
    board.on_send = lambda remote: arrived_whole.set()

    def hash_late(path: Path) -> store.Digests:
        assert arrived_whole.wait(60), "the hash was waited for before anything was sent"
        return hash_beginnings(path)

    monkeypatch.setattr(store, "hash_beginnings", hash_late)
    assert push(session, board, file).bytes_sent == len(CONTENT)
    assert arrived(board) == CONTENT
    assert board.stored() == [NAME]


@pytest.mark.parametrize("ends_well", [True, False])
def test_what_is_proven_is_put_into_place_before_hdc_has_ended(
    session: Session, board: LocalBoard, file: Path, ends_well: bool
) -> None:
    def wait_for_it(there: Path) -> None:
        wait_until("the file in its place", (board.folder / "target/model.bin").exists)
        if not ends_well:
            raise LostConnection("the link ended")

    board.on_send = first_send(wait_for_it)
    assert push(session, board, file).bytes_sent == len(CONTENT)
    assert arrived(board) == CONTENT
    assert (board.stored(), board.calls.count("send")) == ([NAME], 1)


def test_its_hash_is_waited_for_when_the_board_has_a_file_of_its_size(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path
) -> None:
    push(session, board, file)
    assert push(session, board, file).bytes_sent == 0
    other = tmp_path / "other.bin"
    other.write_bytes(CONTENT[::-1])
    assert push(session, board, other).bytes_sent == len(CONTENT)
    assert arrived(board) == CONTENT[::-1]
    assert len(board.stored()) == 2


def test_a_file_that_is_removed_while_it_is_hashed_is_no_success(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: Path) -> store.Digests:
        raise FileNotFoundError(2, "No such file", str(path))

    monkeypatch.setattr(store, "hash_beginnings", gone)
    with pytest.raises(TransferError, match=r"model\.bin cannot be read"):
        push(session, board, file)
    assert board.stored() == []


def test_a_file_that_grows_while_it_is_hashed_is_no_success(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()
    board.on_shell = lambda script: asked.set()

    def grow(path: Path) -> store.Digests:
        assert asked.wait(60)  # its size is known by then
        with path.open("ab") as growing:
            growing.write(b"more")
        return hash_beginnings(path)

    monkeypatch.setattr(store, "hash_beginnings", grow)
    with pytest.raises(TransferError, match=r"model\.bin was changed while"):
        push(session, board, file)
    assert board.stored() == []


SAMPLED_IN_PART = bytes(3_000_000)
ALIKE = SAMPLED_IN_PART[:100_000] + b"x" + SAMPLED_IN_PART[100_001:]
"""Differs from the other where no sample is taken."""


def test_files_that_are_found_by_the_same_samples_are_told_apart(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STEP", 1_000_000)
    assert parts_of(SAMPLED_IN_PART) == parts_of(ALIKE)
    files = []
    for name, content in (("one", SAMPLED_IN_PART), ("two", ALIKE)):
        (tmp_path / name).write_bytes(content)
        files.append(FileToPlace(local=tmp_path / name, name=name))
    assert place_files(session, board, files, str(board.folder / "target")).files_sent == 2
    assert (board.folder / "target/one").read_bytes() == SAMPLED_IN_PART
    assert (board.folder / "target/two").read_bytes() == ALIKE


def test_what_another_file_with_the_same_samples_left_is_not_taken_for_a_beginning(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "STEP", 1_000_000)
    monkeypatch.setattr(chunks, "SMALLEST_CHUNK", 1_000_000)
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", 1_000_000)
    left = board.store / parts_of(ALIKE)
    left.mkdir(parents=True)
    (left / "joined").write_bytes(SAMPLED_IN_PART[:2_000_000])
    file.write_bytes(ALIKE)
    push(session, board, file)
    assert arrived(board) == ALIKE


@pytest.mark.parametrize("known", ["", NAME], ids=["hashed", "hash-known"])
def test_a_large_file_goes_in_one_piece_and_is_never_written_twice(
    session: Session, board: LocalBoard, file: Path, known: str
) -> None:
    seen: list[set[str]] = []
    board.on_send = lambda remote: seen.append({path.name for path in Path(remote).parent.iterdir()})
    summary = push(session, board, file, known)
    assert arrived(board) == CONTENT
    assert board.calls.count("send") == 1
    assert seen == [{"joined", "streaming", "lock"}]
    assert (summary.bytes_sent, summary.hash_tool) == (len(CONTENT), "agent")
    assert board.stored() == [NAME]
    assert (board.store / f"{NAME}.ok").is_file()


def test_it_costs_three_calls_beside_the_send_and_each_byte_is_hashed_once_there(
    session: Session, board: LocalBoard, file: Path
) -> None:
    push(session, board, file)
    # Asked, followed, taken into the store and put into place.
    assert board.calls.count("shell") == 3
    assert len((board.folder / "agent.calls").read_text().splitlines()) == 1
    assert not (board.folder / "agent.in").exists()


def test_a_wrong_byte_is_found_and_only_what_follows_the_last_right_step_is_sent_again(
    session: Session, board: LocalBoard, file: Path
) -> None:
    board.on_send = first_send(lambda there: flip(there, 72_345))
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert summary.bytes_sent == len(CONTENT) + 25_000


@pytest.mark.parametrize("at", [0, 94_999])
def test_a_wrong_byte_at_either_end_is_found(session: Session, board: LocalBoard, file: Path, at: int) -> None:
    board.on_send = first_send(lambda there: flip(there, at))
    push(session, board, file)
    assert arrived(board) == CONTENT


def test_what_is_wrong_every_time_is_an_error(session: Session, board: LocalBoard, file: Path) -> None:
    board.on_send = lambda remote: flip(Path(remote), 0)
    with pytest.raises(ContentDiffers):
        push(session, board, file)
    assert NAME not in board.stored()


def test_a_link_that_breaks_once_is_gone_on_from_in_the_same_push(
    session: Session, board: LocalBoard, file: Path
) -> None:
    board.on_send = first_send(cut_at(61_000))
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert summary.bytes_sent == len(CONTENT) + 5_000  # what may have holes


def test_after_a_cut_at_90_percent_the_next_push_sends_less_than_one_chunk_again(
    session: Session, board: LocalBoard, file: Path
) -> None:
    # This process dies with the link: nobody tidies up.
    push_folder = joined(board).parent
    push_folder.mkdir(parents=True)
    (push_folder / "streaming").touch()
    joined(board).write_bytes(CONTENT[:85_000] + b"\0" * 500)
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert summary.bytes_sent == len(CONTENT) - 80_500


def test_an_hdc_that_still_sends_it_is_waited_for(
    session: Session, board: LocalBoard, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ohforge was killed, its hdc was not."""
    folder = joined(board).parent
    folder.mkdir(parents=True)
    (folder / "streaming").touch()
    joined(board).write_bytes(CONTENT[:20_000])

    def go_on() -> None:
        for at in range(20_000, len(CONTENT), 1_000):
            with joined(board).open("r+b") as there:
                there.seek(at)
                there.write(CONTENT[at : at + 1_000])
            time.sleep(0.03)

    sender = threading.Thread(target=go_on)
    sender.start()
    summary = push(session, board, file)
    sender.join()
    assert summary.bytes_sent == 5_000
    assert arrived(board) == CONTENT
    assert capsys.readouterr().out.count("another hdc sends model.bin to board local-board") == 1


def test_holes_that_a_cut_left_before_the_end_are_found(session: Session, board: LocalBoard, file: Path) -> None:
    push_folder = joined(board).parent
    push_folder.mkdir(parents=True)
    (push_folder / "streaming").touch()
    joined(board).write_bytes(CONTENT[:40_000] + b"\0" * 45_000)
    push(session, board, file)
    assert arrived(board) == CONTENT


def test_an_agent_that_ends_early_only_costs_a_hash_afterwards(session: Session, board: LocalBoard, file: Path) -> None:
    agent = board.folder / "agent"
    agent.write_text(AGENT.replace("at=0\n", "at=0; size=30000\n", 1))
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert (board.calls.count("send"), summary.bytes_sent) == (1, len(CONTENT))
    assert (board.folder / "agent.in").stat().st_size == len(CONTENT)  # hashed as a whole


def test_an_agent_that_ends_early_does_not_let_a_wrong_byte_pass(
    session: Session, board: LocalBoard, file: Path
) -> None:
    agent = board.folder / "agent"
    agent.write_text(AGENT.replace("at=0\n", "at=0; size=30000\n", 1))
    board.on_send = first_send(lambda there: flip(there, 72_345))
    push(session, board, file)
    assert arrived(board) == CONTENT


@pytest.mark.parametrize("script", ["exit 125", "echo 'no such command' >&2; exit 125"])
def test_an_agent_that_cannot_follow_leaves_it_to_chunks(
    session: Session, board: LocalBoard, file: Path, script: str
) -> None:
    agent = board.folder / "agent"
    agent.write_text(AGENT.replace("size=$3", f"{script}; size=$3"))
    push(session, board, file)
    assert arrived(board) == CONTENT
    assert board.calls.count("send") == 10


def test_bytes_that_are_written_late_are_no_error(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look sees a hole that is filled before hdc says that all is there."""
    agent = board.folder / "agent"
    late = 'if [ ! -e "$0.late" ]; then : >"$0.late"; echo "$size 0000000000000000000000000000000000000000000000000000000000000000"; exit; fi\n'
    agent.write_text(AGENT.replace("at=0\n", f"at=0; {late}", 1))
    summary = push(session, board, file)
    assert arrived(board) == CONTENT
    assert summary.bytes_sent == len(CONTENT)
    assert [call.split()[6] for call in (board.folder / "agent.calls").read_text().splitlines()] == [
        str(followed.LAG),
        "0",
    ]


def test_a_full_disk_is_told_and_the_push_goes_on_when_there_is_room(
    session: Session, board: LocalBoard, file: Path
) -> None:
    def full(there: Path) -> None:
        os.truncate(there, 45_000)
        raise NoSpaceOnBoard("full")

    board.on_send = first_send(full)
    with pytest.raises(NoSpaceOnBoard):
        push(session, board, file)
    assert joined(board).stat().st_size == 40_000
    assert push(session, board, file).bytes_sent == 55_000
    assert arrived(board) == CONTENT


@pytest.mark.parametrize("size", [len(CONTENT), len(CONTENT) + 1, len(CONTENT) - 1])
def test_a_source_that_changes_on_the_way_is_an_error_sent_once_and_leaves_nothing(
    session: Session, board: LocalBoard, file: Path, size: int
) -> None:
    board.on_send = changing(file, size)
    with pytest.raises(TransferError, match=r"model\.bin was changed while"):
        push(session, board, file)
    assert board.calls.count("send") == 1
    assert board.stored() == []


@pytest.mark.timeout(60)  # the fake gives up after two seconds; nobody waits for the whole deadline
def test_an_error_on_the_way_ends_the_agents_command(session: Session, board: LocalBoard, file: Path) -> None:
    def interrupted(remote: str) -> None:
        raise KeyboardInterrupt

    board.on_send = interrupted
    with pytest.raises(KeyboardInterrupt):
        push(session, board, file)


def test_hashes_of_beginnings_are_those_of_hashlib(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT[:25_000])
    assert hash_beginnings(tmp_path / "file") == {
        count: hashlib.sha256(CONTENT[:count]).hexdigest() for count in (10_000, 20_000, 25_000)
    }
    (tmp_path / "file").write_bytes(CONTENT[:20_000])
    assert max(hash_beginnings(tmp_path / "file")) == 20_000
    (tmp_path / "file").write_bytes(b"")
    assert hash_beginnings(tmp_path / "file") == {0: hashlib.sha256().hexdigest()}
