"""Folders that travel between computers by the hashes of their files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.files import sha256_file, sha256_json

LINK, FILE, PROGRAM = "link", "file", "x"
Entry = tuple[str, str, str]
"""Name below the folder, kind, and what the file is by: the target of a link, or the name in the store of the host."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A folder as the build host gets it. `place` is where it lies there, below ohforge's own folder."""

    place: str
    files: tuple[Entry, ...]
    paths: Mapping[str, Path] = field(repr=False)
    """Names in the store → the files here."""
    note: str = ""
    """What is written beside the folder, as ``<place>.json``."""

    def as_json(self) -> dict[str, object]:
        return {"place": self.place, "files": self.files, "note": self.note}


def entry_of(folder: Path, path: Path) -> Entry:
    """How a file below `folder` is listed. A file to be executed is another one than the same to be read only."""
    name = path.relative_to(folder).as_posix()
    if path.is_symlink():
        return name, LINK, str(path.readlink())
    if os.access(path, os.X_OK):
        return name, PROGRAM, f"{sha256_file(path)}.x"
    return name, FILE, sha256_file(path)


def read_tree(folder: Path, paths: Iterable[Path], kind: str, *names: str) -> Tree:
    """The files `paths` of `folder`, which lie under ``kind/HASH/names`` there."""
    chosen = {path: entry_of(folder, path) for path in paths if path.is_symlink() or path.is_file()}
    files = tuple(chosen.values())
    by_name = {content: path for path, (_, kind, content) in chosen.items() if kind != LINK}
    return Tree(place="/".join((kind, sha256_json(files)[:12], *names)), files=files, paths=by_name)
