"""Where a report or an export goes: a whole file or none, and never in the place of something else."""

from __future__ import annotations

from pathlib import Path

from core.errors import UsageError
from core.files import write_atomic

HEAD = 2000
"""Bytes of a file in which a report says that it is one."""


def check_place(path: Path, *, mark: str = "", force: bool = False) -> None:
    """Raises UsageError for what is in the way of a page, unless it is a file and `force` is said, or says `mark` itself."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} (--output) is there already, and is no file.", remedy="Name a file.")
    if path.exists() and not force and not _says(path, mark):
        what = "is no report of ohforge" if mark else "exports replace nothing"
        raise UsageError(
            f"{path} is there already, and {what}.", remedy="Name another --output, or replace it with --force."
        )


def write_page(path: Path, text: str) -> int:
    """Writes the file and returns its size in bytes."""
    content = text.encode("utf-8")
    write_atomic(path, content)
    return len(content)


def _says(path: Path, mark: str) -> bool:
    if not mark:
        return False
    with path.open("rb") as file:
        return mark.encode() in file.read(HEAD)
