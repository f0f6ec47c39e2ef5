"""Commands of README and docs that cost little are run as they stand there, on the emulated board."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import list_emulated, stop_board
from tests.support.emulated import ROOT
from tests.support.shown_commands import find_row, shown_commands

RUN = [(shown, row) for shown in shown_commands() if (row := find_row(shown)) and not (row.test or row.why_not)]
MANAGE = [shown.manage_words for shown, _ in RUN if shown.manage_words]
TASKS = {" ".join(shown.words[1:]): (shown.words[1:], row.run) for shown, row in RUN if shown.is_task}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("data")
    yield folder
    for board in list_emulated(folder / "boards"):
        stop_board(board)


def run(home: Path, *words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    variables = {"OHFORGE_DATA_DIR": str(home), "OHFORGE_EMULATOR_HOME": str(home / "boards"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("words", "printed"), TASKS.values(), ids=TASKS)
def test_a_command_that_is_shown_does_what_the_page_says(home: Path, words: list[str], printed: str) -> None:
    done = run(home, "invoke", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(printed, done.stdout + done.stderr)


def test_the_commands_for_emulated_boards_work_in_the_order_in_which_they_are_shown(home: Path) -> None:
    assert MANAGE
    for words in MANAGE:
        done = run(home, "deploy.emulator.manage", *words, folder=home)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
