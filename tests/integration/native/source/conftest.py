"""A package index on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import core.http
from core.patience import Patience
from native.source.fetch import GITHUB_VARIABLE
from tests.shared.loopback import Loopback


@pytest.fixture(autouse=True)
def only_own_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the machine's pip, and no waiting."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(core.http, "PATIENCE", Patience(pause=0.01, times=1))
    monkeypatch.setattr("native.source.pypi.PATIENCE", Patience(pause=0.01, times=1))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with Loopback() as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        monkeypatch.setenv(GITHUB_VARIABLE, f"{server.url}/github")
        yield server
