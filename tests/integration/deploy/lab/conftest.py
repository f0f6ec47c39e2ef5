"""A lab: labgrid's coordinator and exporter on loopback. Each module skips itself where labgrid is not installed (`make test-setup` does it)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from core.session import Session

if TYPE_CHECKING:
    from tests.support.lab import Lab

EMULATED = {"host": "localhost", "serial": "emulated-dayu200", "profile": "dayu200"}
BOARDS = dict.fromkeys(("bench", *(f"place-{number}" for number in range(12))), EMULATED)
FAR = {"far": {"host": "lab9.example", "serial": "7001005458323933328a01bce16d3800"}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    from tests.support.lab import loopback_lab

    with loopback_lab(tmp_path_factory.mktemp("lab"), BOARDS | FAR, "empty") as running:
        yield running


@pytest.fixture(scope="module")
def _numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def place(_numbers: Iterator[int]) -> str:
    """A place that no other test uses."""
    return f"place-{next(_numbers)}"


@pytest.fixture
def session(session: Session, lab: Lab) -> Session:
    """One whose settings name the lab."""
    return session.with_settings(lab=lab.address)
