"""What tests that use the emulated board share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.deadline import Deadline
from core.errors import OhforgeError
from core.patience import Patience
from deploy.board.protocol import Board
from deploy.emulator.stand_in.program import write_stand_in
from deploy.hdc import board as hdc
from deploy.hdc import choose
from deploy.run.record import validate_record
from deploy.run.result import RunOutcome

SERIAL = "emulated-dayu200"
TMP = "/data/local/tmp"


def soon(seconds: float = 60.0) -> Deadline:
    return Deadline.after(seconds, "the test")


def read_record(where: RunOutcome | OhforgeError) -> dict[str, Any]:
    folder = where.record if isinstance(where, RunOutcome) else Path(where.details["record"])
    content = json.loads((folder / "record.json").read_text())
    validate_record(content)
    return dict(content)


def running(board: Board, text: str) -> list[str]:
    """Command lines on the board that contain `text`, zombies and the question itself left out."""
    script = (
        "for p in /proc/[0-9]*; do read -r l <$p/stat || continue; set -- ${l##*) }; "
        '[ "$1" = Z ] || { cat $p/cmdline; echo; }; done 2>/dev/null'
    )
    lines = board.shell(script, deadline=soon()).output.replace(b"\0", b" ").decode().splitlines()
    assert any("for p in" in line for line in lines), "the question sees itself, so it sees others"
    return [line for line in lines if text in line and "for p in" not in line]


def use_boards(home: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulated boards of `home`, no hdc of this computer, and short pauses."""
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(choose, "_hdc_of_sdk", lambda session: None)
    monkeypatch.setattr(hdc, "RETRIES", Patience(pause=0.05, times=3))
    monkeypatch.setattr(hdc, "RESTARTS", Patience(pause=0.05, times=6))
    monkeypatch.setattr(hdc, "STOP_SECONDS", 8.0)


def take_stand_in_for_real(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the stand-in for hdc, with the boards of `home`, be the computer's own hdc, as ohforge sees it."""
    (folder / "tmp").mkdir()
    monkeypatch.setenv("OHFORGE_HDC", str(write_stand_in(folder / "bin")))
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.setattr(choose, "_hdc_of_sdk", lambda session: None)
