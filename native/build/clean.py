"""Removing builds, or only what they no longer need."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.deadline import Deadline
from core.dry import Would
from core.errors import unknown_name
from core.files import files_in, remove_all
from core.locks import hold
from core.session import Session
from native.artifact.artifact import list_artifacts

BUILD_FOLDER = re.compile(r"[a-z0-9_]+-[0-9a-f]{12}")
TREE = "tree"
PATIENCE = 5.0
"""Seconds to wait for a build that goes on just now."""


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What was removed: folders, and the bytes that they took."""

    folders: tuple[Path, ...]
    size: int


def find_builds(
    session: Session, *, program: str = "", arch: str = "", keep_newest: bool = False, trees_only: bool = False
) -> list[Path]:
    """The folders of the builds of a program and arch (all when not named), unfinished ones too.

    `keep_newest` spares the newest artifact of each program and arch; `trees_only` finds the build trees, without which
    every artifact is usable. Other files in the build folder are no builds. Raises UnknownName.
    """
    builds = session.settings.builds
    programs = sorted(path.name for path in builds.iterdir() if path.is_dir()) if builds.is_dir() else []
    if program and program not in programs:
        raise unknown_name("program that was built", program, programs)
    spared = _newest_folders(builds) if keep_newest else set()
    found = []
    for name in [program] if program else programs:
        for folder in sorted(path for path in (builds / name).iterdir() if BUILD_FOLDER.fullmatch(path.name)):
            target = folder / TREE if trees_only else folder
            if folder not in spared and folder.name.startswith(f"{arch}-" if arch else "") and target.is_dir():
                found.append(target)
    return found


def would_remove(found: Sequence[Path]) -> list[Would]:
    """What `remove_builds` would do."""
    return [Would(action="remove", what=str(target), size=_size_of(target)) for target in found]


def remove_builds(found: Sequence[Path]) -> Removed:
    """Removes what `find_builds` has found, unless another process has done so.

    Raises Busy for a build that goes on, and CannotWrite.
    """
    size, removed = 0, []
    for target in found:
        folder = target.parent if target.name == TREE else target
        deadline = Deadline.after(PATIENCE, f"the end of the build in {folder}")
        with hold(folder.with_name(f".{folder.name}.lock"), deadline):
            if not target.is_dir():
                continue
            size += _size_of(target)
            # Without its manifest a folder is an unfinished build, whatever is left when this is interrupted.
            if target == folder:
                (folder / "artifact.json").unlink(missing_ok=True)
            remove_all(target)
            removed.append(target)
    return Removed(folders=tuple(removed), size=size)


def _newest_folders(builds: Path) -> set[Path]:
    newest: dict[tuple[str, str], Path] = {}
    for artifact in list_artifacts(builds):
        newest.setdefault((artifact.program, artifact.arch), artifact.folder)
    return set(newest.values())


def _size_of(folder: Path) -> int:
    size = 0
    for path in files_in(folder):
        # Only to say how large it is: another process may remove it just now.
        with contextlib.suppress(FileNotFoundError):
            size += path.lstat().st_size
    return size
