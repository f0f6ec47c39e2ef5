"""What ``--dry`` says of transfers is what the same call then does; until then the board is as it was."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from core.errors import NoSpaceOnBoard
from core.session import Session
from deploy.transfer.clean import clean_board
from deploy.transfer.dry import would_clean, would_pull, would_push
from deploy.transfer.pull import pull_files
from deploy.transfer.push import push_files
from tests.support.local_board import LocalBoard
from tests.support.snapshot import everything_in


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def dry(session: Session) -> Session:
    return dataclasses.replace(session, dry=True)


def test_what_would_be_sent_is_sent(session: Session, dry: Session, board: LocalBoard, tmp_path: Path) -> None:
    things, there = tmp_path / "things", f"{board.folder}/there"
    (things / "below").mkdir(parents=True)
    (things / "first").write_bytes(os.urandom(3000))
    (things / "below" / "second").write_bytes(os.urandom(500))
    (things / "same").write_bytes((things / "first").read_bytes())
    push_files(session, board, [things / "first"], f"{board.folder}/earlier")
    before = everything_in(board.folder)
    would = would_push(dry, board, [things], f"{there}/")
    assert everything_in(board.folder) == before
    assert {(entry.action, Path(entry.what).name, entry.size, entry.there) for entry in would} == {
        ("send", "second", 500, 0),
        ("place", "same", 3000, 3000),
    }
    done = push_files(session, board, [things], f"{there}/")
    assert (done.bytes_sent, done.bytes_reused) == (500, 3000)
    assert {entry.action for entry in would_push(dry, board, [things], f"{there}/")} == {"place"}


def test_a_board_that_ohforge_has_never_used_stays_so(dry: Session, board: LocalBoard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    [would] = would_push(dry, board, [tmp_path / "file"], "/data/file")
    assert (would.action, would.size, would.there, would.where) == ("send", 7, 0, "board local-board, /data/file")
    assert (board.calls, list(board.folder.iterdir())) == (["shell"], [])


def test_what_does_not_fit_is_said_before_it_is_tried(dry: Session, board: LocalBoard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    board.replies = {r"^(\S+ +\d+ +\d+) +\d+( +\d+%.*)$": r"\1 5\2"}
    with pytest.raises(NoSpaceOnBoard):
        would_push(dry, board, [tmp_path / "file"], "/data/file")


def test_what_would_be_removed_is_removed(session: Session, dry: Session, board: LocalBoard, tmp_path: Path) -> None:
    for number, size in enumerate((300_000, 20_000)):
        (tmp_path / f"file{number}").write_bytes(os.urandom(size))
        push_files(session, board, [tmp_path / f"file{number}"], f"{board.folder}/there/")
    run = board.folder / "ohforge" / "runs" / "20260101T000000Z-x-y-0000"
    run.mkdir(parents=True)
    (run / "linked").hardlink_to(next(path for path in board.store.iterdir() if path.stat().st_size == 300_000))
    before = everything_in(board.folder)
    large = would_clean(dry, board, days=0, smallest=200_000)
    every = would_clean(dry, board, days=0, smallest=0)
    assert everything_in(board.folder) == before
    assert (large.why, every.why, large.action) == ("2 entries", "3 entries", "remove")
    done = clean_board(session, board)
    assert (done.entries, done.freed_bytes) == (3, every.size)
    assert would_clean(dry, board, days=0, smallest=0).action == "use"


def test_what_would_be_pulled_is_pulled(session: Session, dry: Session, board: LocalBoard, tmp_path: Path) -> None:
    made, target = board.folder / "made", tmp_path / "target"
    (made / "below").mkdir(parents=True)
    target.mkdir()
    for name, size in (("a", 10), ("below/b", 2000)):
        (made / name).write_bytes(bytes(size))
    (target / "made").mkdir()
    (target / "made" / "a").write_text("older")
    before = everything_in(tmp_path)
    would = would_pull(dry, board, [str(made)], target)
    assert everything_in(tmp_path) == before
    told = {(entry.what, entry.where, entry.size, bool(entry.why)) for entry in would}
    assert told == {
        (f"{made}/a", f"{target}/made/a", 10, True),
        (f"{made}/below/b", f"{target}/made/below/b", 2000, False),
    }
    done = pull_files(session, board, [str(made)], target).files
    assert {(file.remote, str(file.local), file.size) for file in done} == {row[:3] for row in told}
