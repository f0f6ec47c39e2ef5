"""A board that is a folder of this computer, and a file to be sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.local_board import LocalBoard
from tests.support.transfers import CONTENT


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "sub/empty").mkdir(parents=True)
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "sub/it's data").write_text("data")
    (top / "none").write_text("")
    return top
