"""A source tree in a folder of the user's: which of its files are source, their hash, and a copy to build in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from core.errors import SourceError
from core.files import atomic_folder, sha256_file, sha256_json

NOT_SOURCE = frozenset({".git", ".hg", ".svn", ".bzr", "__pycache__", ".cache", ".idea", ".vscode", ".vs"})
"""Folders of version control, editors and interpreters."""
MARKS_OF_BUILD = ("CMakeCache.txt", "meson-private", "CACHEDIR.TAG")
"""A folder below the tree's own that has one of these was made by a build (or, the last, says so of itself)."""
CONFIGURED = "config.status"
LEFT_BY_CONFIGURE = frozenset(
    {CONFIGURED, "config.log", "config.cache", "stamp-h1", "libtool", "autom4te.cache", ".deps", ".libs"}
)
"""What autotools leave in a tree that was configured in place: it speaks of the compiler of then."""
SOURCE_TIME, BUILT_TIME = 1_000_000_000, 999_999_000
"""Times of the files in a copy, in seconds since 1970: make takes a source for newer than anything built before."""
BUILT_MAGIC = (b"\x7fELF", b"!<arch>\n")


def list_sources(folder: Path, leave_out: Collection[Path] = ()) -> list[Path]:
    """The files (and symbolic links) below `folder` that a build depends on, sorted.

    Left out are the folders `leave_out`, version control, build trees, and what ``configure`` has left in the tree.
    Raises SourceError for a folder that may not be read.
    """
    return sorted(_walk(folder, folder, frozenset(leave_out)))


def hash_sources(folder: Path, leave_out: Collection[Path] = ()) -> str:
    """SHA-256 over the names, execute bits and contents of a tree's sources; that of ``core.files.sha256_folder``."""
    entries = []
    for path in list_sources(folder, leave_out):
        name = path.relative_to(folder).as_posix()
        try:
            if path.is_symlink():
                entries.append([name, "link", str(path.readlink())])
            elif path.is_file():
                entries.append([name, "x" if os.access(path, os.X_OK) else "-", sha256_file(path)])
        except OSError as error:
            raise _unreadable(path, error) from error
    return sha256_json(entries)


def copy_sources(folder: Path, target: Path, leave_out: Collection[Path] = ()) -> None:
    """Copies a tree's sources to `target`, which is whole when it is there; for builds that work in their source.

    All get the same time, so that nothing seems to need generating anew; but objects, libraries and programs that an
    earlier build left between the sources get an older one, so that make builds them again for this arch.
    """
    with atomic_folder(target) as fresh:
        for path in list_sources(folder, leave_out):
            place = fresh / path.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_symlink() and not path.is_file():
                continue
            try:
                shutil.copy(path, place, follow_symlinks=False)
            except PermissionError as error:
                raise _unreadable(path, error) from error
            if not place.is_symlink():
                place.chmod(place.stat().st_mode | 0o200)
                when = BUILT_TIME if _was_built(place) else SOURCE_TIME
                os.utime(place, (when, when))


def _walk(folder: Path, top: Path, leave_out: frozenset[Path]) -> Iterator[Path]:
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise _unreadable(folder, error) from error
    names = {entry.name for entry in entries}
    if folder != top and not names.isdisjoint(MARKS_OF_BUILD):
        return
    configured = (top / CONFIGURED).exists()
    for entry in entries:
        path = folder / entry.name
        if path in leave_out or (configured and _left_by_configure(entry.name, names)):
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield path
        elif entry.name not in NOT_SOURCE:
            yield from _walk(path, top, leave_out)


def _left_by_configure(name: str, beside: Collection[str]) -> bool:
    generated = f"{name}.in" in beside and name != "configure"
    return generated or name in LEFT_BY_CONFIGURE or name.endswith((".lo", ".la"))


def _was_built(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8).startswith(BUILT_MAGIC)


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(
        f"{path} belongs to the source but cannot be read: {error.strerror}.",
        remedy="Make it readable, or move it out of the source tree.",
    )
