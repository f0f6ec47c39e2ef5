"""What tests on the emulated board share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.process import RealRunner
from core.session import Session
from deploy.board.protocol import Board
from deploy.emulator.board.boards import list_emulated, stop_board
from deploy.hdc.choose import choose_board

HERE = Path(__file__).parent
REASON = "processes, boards and links are ended while they work, on a computer whose other work orders their ends"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1, reason=REASON))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of emulated boards, which are ended afterwards."""
    folder = tmp_path_factory.mktemp("boards")
    yield folder
    for board in list_emulated(folder):
        stop_board(board)


@pytest.fixture
def commands() -> list[str]:
    """The command lines that the session has run on this computer."""
    return []


@pytest.fixture
def session(session: Session, commands: list[str]) -> Session:
    """The session of all tests, which remembers its command lines."""
    return dataclasses.replace(session, runner=RealRunner(echo=commands.append))


@pytest.fixture
def board(session: Session) -> Board:
    """The emulated dayu200."""
    return choose_board(session, "dayu200")
