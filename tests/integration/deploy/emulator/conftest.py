"""Emulated boards, one for all tests and one for a test alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board, start_board
from tests.support.emulated import Hdc, emulated_home, free_port


@pytest.fixture(autouse=True)
def own_boards() -> None:
    """The boards of the tests around this folder are not those of these tests, which call the stand-in themselves."""


@pytest.fixture(scope="module")
def hdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdc]:
    with emulated_home(tmp_path_factory.mktemp("emulated")) as environment:
        yield Hdc(environment=environment)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hdc]:
    """A home for boards that this test alone uses; also what the functions called here see."""
    with emulated_home(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield Hdc(environment=environment)


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[int, Path]]]:
    """An open and a secure board with TCP ports: name → port and folder."""
    with emulated_home(tmp_path_factory.mktemp("daemon")) as environment:
        home = Path(environment["OHFORGE_EMULATOR_HOME"])
        found = {}
        for name, secure in (("open", False), ("secure", True)):
            port = free_port()
            board = create_board(f"emulated-{name}", home=home, profile="dayu200", port=port, secure=secure)
            start_board(board)
            found[name] = (port, board.folder)
        yield found
