"""The emulated boards of these tests, and faults for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy import choose, hdc
from deploy.emulator.disk import create_board
from deploy.emulator.faults import FaultFile
from tests.support.board_runs import SERIAL


@pytest.fixture(autouse=True)
def own_boards(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(choose, "_hdc_of_sdk", lambda session: None)
    monkeypatch.setattr(hdc, "RETRY_PAUSES", (0.05, 0.05, 0.05))
    monkeypatch.setattr(hdc, "STOP_SECONDS", 8.0)
    yield
    for folder in home.glob("emulated-*"):
        FaultFile(folder=folder).clear()


@pytest.fixture
def fault(home: Path) -> Callable[..., None]:
    create_board(SERIAL, home=home)
    return FaultFile(folder=home / SERIAL).set
