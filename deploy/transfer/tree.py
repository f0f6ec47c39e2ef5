"""Trees on their way to a board and back: what becomes of links, of modes, and of what is neither file nor folder.

One rule for both ways (``docs/transfers.md``): what is named itself is always followed; for links below it there are `Links`.
What does not go along is named, never dropped in silence.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from core.errors import UnsafePath, UsageError
from core.session import Session
from deploy.hdc.paths import check_local_file
from deploy.transfer.links import Links
from deploy.transfer.placement import FileToPlace, FolderToPlace, LinkToPlace

NAME_LIMIT = 255
PERMISSIONS = 0o777
"""The bits of a mode that are kept: set-user-id and its like would mean another user on the other side."""
REASONS = {
    "pipe": "it is a pipe",
    "socket": "it is a socket",
    "device": "it is a device",
    "unreadable": "it cannot be read there",
    "dangling": "it is a link that leads nowhere",
    "loop": "it is a link to a folder that it lies in",
    "outside": "it is a link that leads out of what is copied",
    "name": "its name has control characters, or is no UTF-8",
    "mode": "it cannot have its mode there",
    "unknown": "it is neither a file nor a folder",
}
"""Why something does not go along, as the rest of a sentence, by the word that stands in JSON."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Something that did not go along, and why: one of `REASONS`."""

    path: str
    why: str

    @property
    def sentence(self) -> str:
        return f"{self.path}: {REASONS[self.why]}"


def tell_left_out(session: Session, left_out: Sequence[LeftOut], where: str) -> None:
    """Warns of what did not go along; `where` says on which side it is."""
    for entry in left_out:
        what = "is there" if entry.why == "mode" else "is left out"
        session.console.warn(f"{entry.path} {where} {what}: {REASONS[entry.why]}")


def refuse_links(names: Iterable[str], where: str) -> None:
    """Raises UnsafePath when there are links although they are refused."""
    if found := sorted(names):
        shown = ", ".join(found[:10]) + (f" and {len(found) - 10} more" if len(found) > 10 else "")
        raise UnsafePath(
            f"There are links among what was to be copied {where}: {shown}.",
            remedy="Nothing was copied. Use --links follow to copy what they lead to, or --links keep to copy them as links.",
        )


def check_name(name: str) -> None:
    """Raises UsageError unless `name` is a relative path that stays in its folder."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or any(len(os.fsencode(part)) > NAME_LIMIT for part in parts):
        raise UsageError(f"{name!r} is no name for a file on the board.", remedy="Use a relative path without `..`.")
    if has_odd_letters(name):
        raise UsageError(f"The name {name!r} has a control character in it, or is no UTF-8.", remedy="Rename the file.")


def has_odd_letters(name: str) -> bool:
    """Whether `name` has letters that cannot go through hdc and the terminal: control characters, halves of letters."""
    return re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", name) is not None


def stays_inside(path: str, target: str) -> bool:
    """Whether a link at `path` below the top of a tree leads to something in that tree, whatever else there is.

    Only where ``..`` stands at the begin alone: behind a name, which may be a link too, nobody knows where it leads.
    """
    parts = target.split("/")
    climbs = 0
    while parts and parts[0] in ("..", "."):
        climbs += parts.pop(0) == ".."
    return not target.startswith("/") and ".." not in parts and climbs < len(PurePosixPath(path).parts)


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """What local files and folders are made of, by names that begin with what was given."""

    files: list[FileToPlace] = field(default_factory=list)
    folders: list[FolderToPlace] = field(default_factory=list)
    links: list[LinkToPlace] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def gather(locals_: Sequence[Path], rule: Links) -> Gathered:
    """All that is to go to a board. Raises UsageError for what cannot be read or has an impossible name, UnsafePath."""
    found = Gathered()
    refused: list[str] = []
    stack: list[tuple[Path, str, frozenset[tuple[int, int]]]] = []
    for local in reversed(locals_):
        if not local.is_dir():
            check_local_file(local)
        stack.append((local.absolute(), local.absolute().name, frozenset()))
    while stack:
        path, name, above = stack.pop()
        check_name(name)
        if rule is not Links.FOLLOW and "/" in name and path.is_symlink():
            if rule is Links.REFUSE:
                refused.append(name)
            elif stays_inside(name.partition("/")[2], target := str(path.readlink())) and not has_odd_letters(target):
                found.links.append(LinkToPlace(name=name, target=target))
            else:
                found.left_out.append(LeftOut(path=name, why="outside"))
            continue
        try:
            status = path.stat()
        except OSError:
            found.left_out.append(LeftOut(path=name, why="dangling"))
            continue
        mode, identity = stat.S_IMODE(status.st_mode) & PERMISSIONS, (status.st_dev, status.st_ino)
        if stat.S_ISREG(status.st_mode):
            found.files.append(FileToPlace(local=path, name=name, mode=mode))
        elif not stat.S_ISDIR(status.st_mode):
            found.left_out.append(LeftOut(path=name, why=_kind(status.st_mode)))
        elif identity in above:
            found.left_out.append(LeftOut(path=name, why="loop"))
        else:
            found.folders.append(FolderToPlace(name=name, mode=mode))
            inside = above | {identity}
            stack += [(path / entry, f"{name}/{entry}", inside) for entry in sorted(_entries(path), reverse=True)]
    refuse_links(refused, "to the board")
    return found


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be read: {error.strerror}.", remedy="Check its mode bits and owner."
        ) from error


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "unknown"
