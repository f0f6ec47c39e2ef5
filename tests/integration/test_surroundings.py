"""Tests are run while another hdc server has a board: they neither see it nor disturb it, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board, stop_board
from deploy.emulator.manage import write_stand_in
from tests.support.emulated import ROOT, Hdc, free_port
from tests.support.surroundings import RUN, USERS_FOLDER, USERS_PORT

HIDDEN = (RUN, USERS_FOLDER, USERS_PORT, "PYTEST_DEBUG_TEMPROOT", "PYTEST_XDIST_WORKER", "OHOS_HDC_SERVER_PORT")
"""Variables by which a run of the tests is taken for a part of this one."""


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Hdc]:
    """Somebody's hdc server at the usual port, with a TCP board, and its notes in the usual temporary folder."""
    folder = Path(os.environ["TMPDIR"])
    board = create_board("somebodys", home=tmp_path / "somebodys", profile="dayu200", port=free_port())
    environment = {"TMPDIR": str(folder), "OHFORGE_EMULATOR_HOME": str(board.folder.parent)}
    hdc = Hdc(environment={**environment, "OHOS_HDC_SERVER_PORT": "8710"}, key=board.key)
    try:
        assert hdc("tconn", board.key).stdout == b"Connect OK\r\n"
        yield hdc
    finally:
        hdc("kill")
        stop_board(board)


def run_tests(folder: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs tests as somebody whose temporary folder is `folder`."""
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env={**environment, "TMPDIR": folder, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def run_test_file(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Runs the one test of a file as if it stood below tests/."""
    file = folder / "test_it.py"
    file.write_text(text)
    words = ("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "--confcutdir", str(ROOT))
    return run_tests(os.environ["TMPDIR"], *words, "-p", "tests.conftest", str(file))


def test_a_board_of_another_server_is_neither_seen_nor_disturbed(foreign: Hdc) -> None:
    folder = foreign.environment["TMPDIR"]
    before = sorted(os.listdir(folder))
    done = run_tests(folder, "tests/integration/deploy/test_doctor.py")
    assert done.returncode == 0, done.stdout[-3000:]
    assert foreign("list", "targets").stdout == f"{foreign.key}\n".encode()
    assert [name for name in sorted(os.listdir(folder)) if not name.startswith("pytest-of-")] == before


def test_the_contract_suite_keeps_the_server_of_the_hdc_that_is_named(
    foreign: Hdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = foreign.environment["TMPDIR"]
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", foreign.environment["OHFORGE_EMULATOR_HOME"])
    program = write_stand_in(tmp_path / "bin")
    shell = "tests/contract/test_shell.py::test_no_carriage_return_is_added_to_output"
    done = run_tests(folder, shell, OHFORGE_REAL_HDC=str(program), OHFORGE_REAL_KEY=foreign.key)
    assert done.returncode == 0, done.stdout[-3000:]
    # At a port of one's own there is no such board.
    other = run_tests(folder, shell, OHFORGE_REAL_HDC=str(program), OHOS_HDC_SERVER_PORT=str(free_port()))
    assert other.returncode != 0


LEAVES = {
    "a folder": """
import os, pytest
from pathlib import Path
@pytest.fixture(scope="module")
def shared():
    Path(os.environ["TMPDIR"], "ohforge-x").mkdir()
def test_it(shared):
    pass
""",
    "a folder of the test": """
import os
from pathlib import Path
def test_it():
    Path(os.environ["TMPDIR"], "ohforge-x").mkdir()
""",
    "a process": """
import subprocess
def test_it():
    subprocess.Popen(["sleep", "600"], start_new_session=True).returncode = 0
""",
}


@pytest.mark.parametrize(
    ("what", "said"),
    [("a folder", "/ohforge-x"), ("a folder of the test", "/ohforge-x"), ("a process", "sleep 600")],
)
def test_a_run_that_leaves_something_fails_and_names_it(tmp_path: Path, what: str, said: str) -> None:
    done = run_test_file(tmp_path, LEAVES[what])
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-3000:]
    assert said in done.stdout


FAILS_ONCE = """
from pathlib import Path
import pytest
def meet():
    mark = Path(__file__).with_name("met")
    if not mark.exists():
        mark.touch()
        raise OSError("the link was cut")
{mark}
def test_it():
    meet()
"""


@pytest.mark.parametrize(
    ("mark", "status", "said"),
    [
        ('@pytest.mark.flaky(reruns=1, reason="it meets a link")', 0, "::test_it: OSError: the link was cut"),
        ("@pytest.mark.flaky(reruns=1)", 4, "is marked as flaky without a reason"),
        ("", 1, "1 failed"),
    ],
    ids=["with a reason", "without a reason", "unmarked"],
)
def test_only_a_test_that_says_why_is_tried_once_more_and_that_is_told(
    tmp_path: Path, mark: str, status: int, said: str
) -> None:
    done = run_test_file(tmp_path, FAILS_ONCE.format(mark=mark))
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
