"""``board.clean``: removes from a board what ohforge put there, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.deadline import Deadline
from core.errors import BoardError, PermissionOnBoard, UsageError
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.render import render_script

MINUTES_A_DAY = 24 * 60


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """What was removed, or would be: files of the store and folders of runs, and the bytes that are free again."""

    entries: int
    freed_bytes: int


def clean_board(session: Session, board: Board, *, days: float = 0.0, smallest: int = 0) -> Cleaned:
    """Removes stored files and runs' folders; the folder of a running program stays. With ``--dry`` they are counted.

    Only what is older than `days`, and only what takes up `smallest` bytes or more.

    Raises UsageError, BoardError, PermissionOnBoard for what cannot be removed, and what `Board.shell` raises.
    """
    if days < 0 or smallest < 0:
        raise UsageError(f"An age of {days:g} days or a size of {smallest} bytes is not possible.")
    script = render_script(
        "clean",
        dry=session.dry,
        base=f"{board.profile.device_dir}/ohforge",
        minutes=int(days * MINUTES_A_DAY),
        kibibytes=-(-smallest // 1024),
    )
    deadline = Deadline.after(session.settings.timeouts.transfer, f"the clean-up of board {board.serial}")
    result = board.shell(script, deadline=deadline)
    found = re.search(r"^@@clean (\d+) (\d+) (\d+) (\d+)$", result.text, re.MULTILINE)
    if found is None:
        raise BoardError(f"Board {board.serial} did not say what was removed. It said: {result.text[-300:]!r}")
    entries, before, after, stuck = map(int, found.groups())
    if stuck:
        raise PermissionOnBoard(
            f"Board {board.serial}: {stuck} entries of {board.profile.device_dir}/ohforge cannot be removed; {entries} were.",
            remedy="Look whether the file system is read-only, or whether another user of the board made them.",
        )
    return Cleaned(entries=entries, freed_bytes=max(0, before - after) * 1024)
