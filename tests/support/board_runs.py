"""What tests that use the emulated board share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.errors import OhforgeError
from deploy.board import Board
from deploy.record import validate_record
from deploy.run import RunOutcome

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
