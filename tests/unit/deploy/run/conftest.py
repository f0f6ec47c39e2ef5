"""A board that is a folder of this computer, and programs to be run there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.run.request import RunRequest
from tests.support.local_board import LocalBoard
from tests.support.run_requests import make_request


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def request_for(tmp_path: Path) -> Any:
    def make(script: str, **changes: Any) -> RunRequest:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        return make_request(program, **changes)

    return make
