"""A release, and a server that has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

import core.http
from core.patience import Patience
from core.session import Session
from tests.shared.loopback import Loopback
from tests.shared.standin_sdk.pack import Release, make_release
from tests.support.sdk_fetching import HOST
from tests.support.sdk_server import (
    MIRROR,
    use_loopback_for_all,
)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.http, "PATIENCE", Patience(pause=0.01, times=1))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with Loopback() as server:
        use_loopback_for_all(server, monkeypatch)
        yield server


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return make_release(tmp_path_factory.mktemp("release"), "5.0.0", HOST)


@pytest.fixture
def on_loopback(session: Session, server: Loopback) -> Session:
    """A session whose first mirror is the server, too."""
    return dataclasses.replace(session, settings=dataclasses.replace(session.settings, sdk_mirror=server.url + MIRROR))
