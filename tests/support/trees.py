"""Trees that nobody expects."""

from __future__ import annotations

import os
from pathlib import Path


def nest(folder: Path, depth: int, name: str = "d") -> None:
    """Makes `depth` folders, each in the one before, with a file in the last; their path may be longer than any call takes."""
    folder.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    try:
        os.chdir(folder)
        for _ in range(depth):
            Path(name).mkdir()
            os.chdir(name)
        Path("f").write_bytes(b"12345")
    finally:
        os.chdir(before)
