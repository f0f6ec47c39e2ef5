"""What a folder holds, to be compared with what it held before."""

from __future__ import annotations

from pathlib import Path


def everything_in(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that is below a folder: kinds, modes, times of last change and contents."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (facts.st_mode, facts.st_mtime_ns, content)
    return found
