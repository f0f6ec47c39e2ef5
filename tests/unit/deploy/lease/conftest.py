"""A board, its leases, and a session that does not wait long."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from core.session import Session
from deploy.lease.lease import LeasePlace
from tests.support.local_board import LocalBoard


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def impatient(session: Session) -> Session:
    """Does not wait for a board."""
    settings = session.settings
    return dataclasses.replace(
        session, settings=dataclasses.replace(settings, timeouts=dataclasses.replace(settings.timeouts, lease=0.0))
    )


@pytest.fixture
def place(session: Session, board: LocalBoard) -> LeasePlace:
    return LeasePlace.of(session, board.serial, emulated=False)
