"""``--dry`` on an emulated board that is up: it names what is there and what would be sent, and then that is done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.session import Session
from deploy.board.protocol import Board
from deploy.emulator.board.boards import list_emulated, stop_board
from tests.support.board_runs import SERIAL, TMP, soon, use_boards
from tests.support.command_line import invoke
from tests.support.snapshot import everything_in
from tests.support.tiny_elf import write_arm64


@pytest.fixture(autouse=True)
def own_boards(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    use_boards(home, tmp_path / "tmp", monkeypatch)
    (tmp_path / "tmp").mkdir()
    for name, folder in (("RUNS_DIR", "runs"), ("BUILD_DIR", "build"), ("HDC", "")):
        monkeypatch.setenv(f"INVOKE_OHFORGE_{name}", str(tmp_path / folder) if folder else "")
    monkeypatch.setenv("INVOKE_OHFORGE_RUN_ENGINE", "shell")
    yield
    for board in list_emulated(home):
        stop_board(board)


@pytest.fixture
def disk(home: Path, board: Board) -> Path:
    """The disk of the board, which is up."""
    assert board.shell("true", deadline=soon()).exit_code == 0
    return home / SERIAL / "data"


def told(answer: dict[str, Any], action: str) -> dict[str, tuple[int | None, int | None]]:
    """Sizes, and how much is there, of the files with which that would be done, by name."""
    entries = [entry for entry in answer["would"] if entry["action"] == action]
    return {Path(entry["what"]).name: (entry["size"], entry["there"]) for entry in entries}


def test_a_push_sends_what_it_said(disk: Path, tmp_path: Path) -> None:
    things = tmp_path / "things"
    things.mkdir()
    (things / "there").write_bytes(os.urandom(30_000))
    (things / "new").write_bytes(os.urandom(50_000))
    first = invoke("board.push", things / "there", f"{TMP}/first", "--board", SERIAL)
    assert first.answer["bytes_sent"] == 30_000
    before = everything_in(disk)
    dry = invoke("board.push", things, f"{TMP}/both/", "--board", SERIAL, "--dry")
    assert dry.status == 0, dry.text
    assert everything_in(disk) == before
    assert told(dry.answer, "send") == {"new": (50_000, 0)}
    assert told(dry.answer, "place") == {"there": (30_000, 30_000)}
    done = invoke("board.push", things, f"{TMP}/both/", "--board", SERIAL)
    assert (done.answer["bytes_sent"], done.answer["bytes_reused"]) == (50_000, 30_000)


def test_a_run_sends_what_it_said_and_leaves_a_record_only_then(disk: Path, tmp_path: Path) -> None:
    write_arm64(tmp_path / "hello", b"hello\n").chmod(0o755)
    (tmp_path / "input").write_bytes(os.urandom(40_000))
    (tmp_path / "other").write_bytes(os.urandom(7_000))
    invoke("board.push", tmp_path / "other", f"{TMP}/other", "--board", SERIAL)
    words = ["--program", tmp_path / "hello", "--file", tmp_path / "input", "--file", tmp_path / "other"]
    words += ["--board", SERIAL]
    before, leases = everything_in(disk), everything_in(disk.parent.parent / ".leases")
    dry = invoke("board.run", *words, "--dry", "--", "one", "two words")
    assert dry.status == 0, dry.text
    assert everything_in(disk) == before
    assert everything_in(disk.parent.parent / ".leases") == leases
    assert not (tmp_path / "runs").exists()
    size = (tmp_path / "hello").stat().st_size
    assert told(dry.answer, "send") == {"hello": (size, 0), "input": (40_000, 0)}
    assert told(dry.answer, "use") == {"other": (7_000, 7_000)}
    [run] = [entry for entry in dry.answer["would"] if entry["action"] == "run"]
    assert (run["what"], run["where"]) == ("./hello one 'two words'", f"board {SERIAL}")
    done = invoke("board.run", *words, "--", "one", "two words")
    assert done.status == 0, done.text
    record = json.loads((Path(done.answer["record"]) / "record.json").read_text())
    assert record["transfer"]["bytes_sent"] == size + 40_000
    assert record["transfer"]["bytes_reused"] == 7_000
    assert record["command"]["words"] == ["./hello", "one", "two words"]


def test_a_board_that_is_not_up_is_not_started(home: Path, session: Session, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    before = everything_in(home)
    dry = invoke("board.push", tmp_path / "file", f"{TMP}/x", "--board", "dayu200", "--dry")
    assert everything_in(home) == before
    [would] = dry.answer["would"]
    assert (would["action"], would["size"], would["there"]) == ("send", 10, None)
    assert "not started" in would["why"]
