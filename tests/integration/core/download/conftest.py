"""A server on loopback, a place for the file, and no long pauses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import core.http
from core.patience import Patience
from tests.shared.loopback import Loopback


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.http, "PATIENCE", Patience(pause=0.01, times=3))


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "into" / "file.bin"
