"""Names and paths that hdc takes unharmed: it splits at blanks, toggles at quotes and knows no escape."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from core.addresses import quoted
from core.errors import NoBoard, UnsafePath, UsageError
from core.spool import spool_folder

KEY_LIMIT = 32


def is_key(text: str) -> bool:
    """Whether it can be what hdc calls a board by: no blanks, no control characters, at most 32 bytes."""
    return re.fullmatch(rf"[\x21-\x7e]{{1,{KEY_LIMIT}}}", text) is not None


def check_key(key: str) -> None:
    """Raises NoBoard for a connect key that hdc would take for something else."""
    if not is_key(key):
        raise NoBoard(
            f"{quoted(key)} is no name of a board for hdc: it has 1 to {KEY_LIMIT} bytes, no blanks and no control characters."
        )
    if key.startswith(("-", "wait")) or key in ("any", "shell", "kill"):
        raise NoBoard(f"{quoted(key)} is no name of a board for hdc: it is a word of hdc's own.")


def check_local_file(local: Path) -> None:
    """Raises UsageError unless `local` is a file (no pipe, no device, no folder) that can be read."""
    if not local.exists():
        raise UsageError(f"There is no file {local}.", remedy="Check the path.")
    if not local.is_file():
        raise UsageError(f"{local} is not a plain file.", remedy="Name a file; hdc hangs on pipes and devices.")
    if not os.access(local, os.R_OK):
        raise UsageError(f"{local} cannot be read.", remedy="Check its mode bits and owner.")


def check_board_path(path: str) -> None:
    """Raises UnsafePath for what is no path on a board, or could not be shown."""
    if not path.startswith("/"):
        raise UnsafePath(f"{path!r} is not an absolute path on the board.", remedy="Begin the path with a slash.")
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", path):
        raise UnsafePath(f"The path {path!r} on the board has a control character in it, or is no UTF-8.")


def is_taken_by_hdc(path: str) -> bool:
    """Whether hdc takes a path on the board as it is: it knows no escape, and a backslash is a slash for it."""
    return re.search(r'["%\\\x00-\x1f\x7f]', path) is None


def check_remote_path(path: str) -> None:
    """Raises UnsafePath for a path that hdc itself would change."""
    check_board_path(path)
    if not is_taken_by_hdc(path):
        raise UnsafePath(f"The path {path!r} on the board has a quote, a percent sign or a backslash in it.")


def is_harmless(path: Path) -> bool:
    """Whether hdc takes a path of this computer as it is. Letters beyond ASCII are garbled by versions before 3.1.0a."""
    return re.fullmatch(r"[\x20-\x7e]+", str(path.absolute())) is not None and is_taken_by_hdc(str(path.absolute()))


@contextlib.contextmanager
def harmless_path(local: Path) -> Iterator[Path]:
    """A path of the same file that hdc takes unharmed: `local` itself, or a link to it in a temporary folder."""
    if is_harmless(local):
        yield local.absolute()
        return
    with spool_folder() as spare:
        link = spare / "file"
        link.symlink_to(local.absolute())
        yield link
