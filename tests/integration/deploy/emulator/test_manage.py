"""Managing emulated boards from the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board
from deploy.emulator.board.faults import FaultFile
from tests.support.emulated import ROOT, Hdc, emulated_home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with emulated_home(tmp_path_factory.mktemp("manage")) as environment:
        create_board("emulated-dayu200", home=Path(environment["OHFORGE_EMULATOR_HOME"]))
        yield environment


def manage(home: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deploy.emulator.manage", *words],
        env={**os.environ, **home},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_faults_are_switched_by_the_command_line(home: dict[str, str]) -> None:
    hdc = Hdc(environment=home)
    faults = FaultFile(folder=Path(home["OHFORGE_EMULATOR_HOME"]) / hdc.key)
    assert manage(home, "fault", "set", hdc.key, "cut-output", "at=3", "count=1").returncode == 0
    assert "cut-output" in manage(home, "list").stdout
    assert hdc.shell("echo 1234567") == b"123"
    assert hdc.shell("echo 1234567") == b"1234567\n"
    manage(home, "fault", "set", hdc.key, "freeze")
    manage(home, "fault", "clear", hdc.key)
    assert faults.active() == {}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("fault", "set", "emulated-dayu200", "freez"), "did you mean 'freeze'"),
        (("fault", "set", "emulated-dayu200", "slow", "speed=1"), "parameter of slow"),
        (("fault", "set", "emulated-dayu200", "slow", "rate=fast"), "is no number"),
        (("fault", "set", "emulated-nothing", "slow"), "no emulated board 'emulated-nothing'"),
        (("create", "emulated-x", "--profile", "dayu20"), "did you mean 'dayu200'"),
        (("create", "emulated-x", "--profile", "dayu200", "--release", "9"), "no OpenHarmony release"),
        (("create", "emulated-x", "--library", "arm64"), "NAME=VALUE"),
        (("stop", "emulated-nothing"), "no emulated board"),
        (("frobnicate",), "No such command"),
    ],
)
def test_a_wrong_command_line_is_refused_with_status_64(
    home: dict[str, str], words: tuple[str, ...], complaint: str
) -> None:
    done = manage(home, *words)
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 64


def test_a_board_is_made_and_removed(home: dict[str, str]) -> None:
    assert manage(home, "create", "emulated-other", "--profile", "generic").returncode == 0
    assert "emulated-other" in manage(home, "list").stdout
    assert manage(home, "start", "emulated-other").stdout == "emulated-other runs (namespaces)\n"
    assert manage(home, "remove", "emulated-other").returncode == 0
    assert not (Path(home["OHFORGE_EMULATOR_HOME"]) / "emulated-other").exists()
