"""What tests on the emulated board share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.disk import list_emulated, stop_board


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of emulated boards, which are ended afterwards."""
    folder = tmp_path_factory.mktemp("boards")
    yield folder
    for board in list_emulated(folder):
        stop_board(board)
