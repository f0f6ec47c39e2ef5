"""The emulated boards of these tests, and faults for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board
from deploy.emulator.board.faults import FaultFile
from tests.support.board_runs import SERIAL, use_boards


@pytest.fixture(autouse=True)
def own_boards(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    use_boards(home, tmp_path, monkeypatch)
    yield
    for folder in home.glob("emulated-*"):
        FaultFile(folder=folder).clear()


@pytest.fixture
def fault(home: Path) -> Callable[..., None]:
    create_board(SERIAL, home=home)
    return FaultFile(folder=home / SERIAL).set
