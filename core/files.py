"""Files that are either whole or not there: atomic writes, hashes, room on the disk."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from core.errors import CannotWrite, NotEnoughSpace

CHUNK = 1024 * 1024
LETTERS_OF_NAME = 40
"""In the name of a temporary file, which a random part and an ending make longer."""


def make_folder(folder: Path) -> None:
    """Makes a folder and all those above it, unless they are there; `Path.mkdir` dies of a thousand."""
    missing = itertools.takewhile(lambda place: not place.is_dir(), (folder, *folder.parents))
    for place in reversed(list(missing)):
        place.mkdir(exist_ok=True)


@contextlib.contextmanager
def atomic_file(path: Path, *, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """Opens a temporary file beside `path`; when the block ends well it is flushed and renamed to `path`."""
    with atomic_path(path, mode=mode) as temporary, temporary.open("wb") as file:
        yield file


@contextlib.contextmanager
def atomic_path(path: Path, *, mode: int = 0o644) -> Iterator[Path]:
    """As `atomic_file`, for a file that another program writes: yields the name of the temporary one, which is there."""
    make_folder(path.parent)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:LETTERS_OF_NAME]}.", dir=path.parent)
    temporary = Path(name)
    try:
        try:
            yield temporary
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes | str, *, mode: int = 0o644) -> None:
    """Writes `path` so that a reader sees the old content or the new one, never a part."""
    with atomic_file(path, mode=mode) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as indented JSON, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomic(path, text.encode("utf-8", "backslashreplace"))  # Bytes that are no text get JSON's own escapes.


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yields a temporary folder beside `path`; it becomes `path` when the block ends well, else it is removed."""
    make_folder(path.parent)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name[:LETTERS_OF_NAME]}.", dir=path.parent))
    temporary.chmod(0o755)
    try:
        yield temporary
        temporary.rename(path)
    finally:
        remove_tree(temporary)


def remove_tree(folder: Path) -> None:
    """Removes a folder, or a link to one, as far as it can be removed; what is not there is no error.

    How deep it is, how long its paths are and whether its folders may be written does not matter: each folder is moved
    to the top before it is emptied. `shutil.rmtree` dies of a thousand levels.
    """
    try:
        top = _open_to_empty(str(folder))
    except OSError:
        with contextlib.suppress(OSError):
            folder.unlink()
        return
    try:
        names = (f".{secrets.token_hex(4)}-{number}" for number in itertools.count())
        waiting = _empty(top, top, names)
        for name in waiting:
            with contextlib.suppress(OSError):
                place = _open_to_empty(name, top)
                try:
                    waiting += _empty(place, top, names)
                finally:
                    os.close(place)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        folder.rmdir()


def remove_all(folder: Path) -> None:
    """`remove_tree`, but raises CannotWrite when something is left."""
    remove_tree(folder)
    if os.path.lexists(folder):
        raise CannotWrite(f"{folder} cannot be removed: somebody else has written in it, or it is read-only.")


def _open_to_empty(name: str, place: int | None = None) -> int:
    """Opens a folder, whose owner may then change it whatever its mode was."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        folder = os.open(name, flags, dir_fd=place)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=place)
        folder = os.open(name, flags, dir_fd=place)
    with contextlib.suppress(OSError):
        os.fchmod(folder, 0o700)
    return folder


def _empty(place: int, top: int, names: Iterator[str]) -> list[str]:
    """Removes the files in `place` and moves its folders to `top`; returns their names there."""
    with os.scandir(place) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    folders = []
    for name, is_folder in found:
        with contextlib.suppress(OSError):
            if not is_folder:
                os.unlink(name, dir_fd=place)
                continue
            if place != top:
                os.close(_open_to_empty(name, place))  # one that may not be written cannot be moved
                os.rename(name, moved := next(names), src_dir_fd=place, dst_dir_fd=top)
                name = moved
            folders.append(name)
    return folders


def folders_in(folder: Path) -> list[Path]:
    """`folder` and all folders below it, each after the one that it lies in; no link is followed.

    What Python has for this (`os.walk`, ``rglob``) calls itself for each level, and dies of a thousand.
    """
    found = [folder]
    for place in found:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            found += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return found


def files_in(folder: Path) -> Iterator[Path]:
    """All that is below `folder` and no folder, links too."""
    for place in folders_in(folder):
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            yield from [Path(entry.path) for entry in entries if not entry.is_dir(follow_symlinks=False)]


def sha256_file(path: Path) -> str:
    """SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_json(value: Any) -> str:
    """SHA-256 of a value in canonical JSON (sorted keys, no blanks): the base of every key and id."""
    return sha256_text(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True))


def sha256_folder(folder: Path) -> str:
    """SHA-256 over the names, execute bits and contents of all files below `folder`."""
    entries = []
    for path in sorted(p for p in files_in(folder) if "__pycache__" not in p.parts):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            entries.append([name, "link", str(path.readlink())])
        elif path.is_file():
            entries.append([name, "x" if os.access(path, os.X_OK) else "-", sha256_file(path)])
    return sha256_json(entries)


def require_space(folder: Path, needed: int, purpose: str) -> None:
    """Raises NotEnoughSpace unless the file system of `folder` has `needed` bytes free."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise NotEnoughSpace(
            f"{purpose} needs {human_bytes(needed)} in {folder}, but only {human_bytes(free)} are free."
        )


def read_amount(text: str) -> int | None:
    """The number that ``1000``, ``64K``, ``500M`` or ``2G`` means (times 1024); None for another form."""
    found = re.fullmatch(r"(\d{1,15})([kmg]?)b?", text.strip().lower())
    return int(found[1]) * 1024 ** " kmg".index(found[2] or " ") if found else None


def human_bytes(count: float) -> str:
    """A size for people: ``98.4 MB`` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
