"""Data sets that others have published and that are no part of this project."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.session import PROJECT

FOLDER = PROJECT.parent / "shared" / "data"


def public_data(name: str) -> Path:
    """A file of ``../shared/data``; the test is skipped where that is not there."""
    if not (FOLDER / name).is_file():
        pytest.skip(f"{name} is not in {FOLDER}, the folder of public data sets beside the project")
    return FOLDER / name
