"""The scripts by which a stream is written and read on a board, in the shells that boards have, with toybox or with usual tools."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.board.render import render_script
from deploy.ssh.board import NO_FILE, NO_RIGHT
from deploy.transfer.streamed import BROKEN_OFF, BY_PYTHON, PYTHONS
from tests.support.waiting import wait_until

CONTENT = os.urandom(300_000)
CUT = 200_000
SHELLS = [("mksh", "toybox"), ("dash", "toybox"), ("busybox", "toybox"), ("bash", ""), ("dash", "")]


class Board:
    """A store behind a shell."""

    def __init__(self, folder: Path, words: Sequence[str], path: str, pythons: Sequence[str]) -> None:
        self.store = folder / "a store"
        self.part = self.store / "ab.parts"
        self._words = words
        self._environment = {"PATH": path}
        self._pythons = pythons
        self.store.mkdir()

    def start(self, name: str, errors: int = subprocess.STDOUT, **values: object) -> subprocess.Popen[bytes]:
        fixed = {"store": str(self.store), "folder": "ab.parts"}
        script = render_script(name, **fixed, **values)
        return subprocess.Popen(
            [*self._words, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=self._environment,
            start_new_session=True,
        )

    def run(self, name: str, given: bytes = b"", **values: object) -> str:
        return self.start(name, **values).communicate(given, timeout=60)[0].decode()

    def writer(self, offset: int) -> dict[str, object]:
        return {
            "offset": offset,
            "owner": "me-1",
            "pythons": self._pythons,
            "by_python": BY_PYTHON,
            "broken_off": BROKEN_OFF,
            "tool": "sha256sum",
        }

    def begin(self, end: str = "", stored: str = "") -> str:
        return self.run("begin_stream", stored=stored, end=end, size=len(CONTENT))


@pytest.fixture(params=SHELLS, ids=lambda param: "-".join(filter(None, param)))
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Board:
    shell, tools = request.param
    for program in filter(None, (shell, tools)):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    words = [str(shutil.which(shell)), *(["sh"] if shell == "busybox" else [])]
    if not tools:
        return Board(tmp_path, words, os.environ["PATH"], PYTHONS)
    (tmp_path / "bin").mkdir()
    toybox = str(shutil.which(tools))
    for name in subprocess.run([toybox], capture_output=True, text=True, check=True, timeout=60).stdout.split():
        (tmp_path / "bin" / name).symlink_to(toybox)
    return Board(tmp_path, words, str(tmp_path / "bin"), ("python3",))


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_what_comes_is_appended_hashed_and_found_again(board: Board) -> None:
    first = board.run("write_stream", CONTENT[:CUT], **board.writer(0))
    assert first == f"hash {hash_of(CONTENT[:CUT])} {CUT}\n"
    assert board.begin() == f"at {CUT}\n"
    script = board.run("hash_stream", tool="sha256sum", file=str(board.part / "joined"))
    assert script.split()[0] == hash_of(CONTENT[:CUT])
    assert board.run("write_stream", CONTENT, **board.writer(CUT + 1)) == "", "what belongs elsewhere is not taken"
    rest = board.run("write_stream", CONTENT[CUT:], **board.writer(CUT))
    assert rest == f"hash {hash_of(CONTENT[CUT:])} {len(CONTENT)}\n"
    assert (board.part / "joined").read_bytes() == CONTENT


def test_one_that_is_longer_than_the_file_is_begun_anew(board: Board) -> None:
    board.run("write_stream", CONTENT + b"x", **board.writer(0))
    assert board.begin() == "at 0\n"


def test_what_somebody_else_has_brought_meanwhile_is_told(board: Board) -> None:
    (board.store / "name.ok").touch()
    assert board.begin(stored="name") == "there\n"


def test_only_one_writes_and_it_is_ended_when_it_is_left_behind(board: Board) -> None:
    with board.start("write_stream", **board.writer(0)) as left_behind:
        wait_until("the writer's start", lambda: (board.part / "writer").exists() and board.begin().startswith("busy"))
        assert board.run("write_stream", CONTENT, **board.writer(0)) == ""
        assert board.begin() == "busy 0 me-1\n"
        assert board.begin(end="another-1") == "busy 0 me-1\n"
        threading.Thread(target=left_behind.wait, daemon=True).start()  # As its sshd does.
        assert board.begin(end="me-1") == "at 0\n"
        assert left_behind.wait(timeout=60) == -9
    assert board.run("write_stream", CONTENT, **board.writer(0)) == f"hash {hash_of(CONTENT)} {len(CONTENT)}\n"


def read(board: Board, file: Path, offset: int = 0) -> subprocess.Popen[bytes]:
    values = {"file": str(file), "offset": offset, "agents": [], "large": 100_000}
    return board.start("read_stream", subprocess.PIPE, **values, no_file=NO_FILE, no_right=NO_RIGHT)


@pytest.mark.parametrize("offset", [0, 1, len(CONTENT)])
def test_a_file_comes_from_a_byte_on_with_the_hash_of_all_of_it(board: Board, tmp_path: Path, offset: int) -> None:
    file = tmp_path / "it's one"
    file.write_bytes(CONTENT)
    with read(board, file, offset) as reading:
        sent, said = reading.communicate(timeout=60)
    assert (reading.returncode, sent) == (0, CONTENT[offset:])
    assert said.decode() == f"hash {hash_of(CONTENT)} {len(CONTENT)}\n"


def test_a_file_that_is_changed_while_it_is_read_is_told_as_changed(board: Board, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    with read(board, file) as reading:
        assert reading.stdout is not None
        first = os.read(reading.stdout.fileno(), 1)  # The rest has no room in the pipe.
        with file.open("ab") as more:
            more.write(b"more")
        rest, said = reading.communicate(timeout=60)
    assert (first + rest)[: len(CONTENT)] == CONTENT
    assert "changed" in said.decode().splitlines()


def test_when_nobody_takes_the_file_any_more_it_is_hashed_no_further(board: Board, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 40)
    with read(board, tmp_path / "file") as reading:
        assert reading.stdout is not None
        reading.stdout.close()
        assert reading.wait(timeout=60) != 0
    with pytest.raises(ProcessLookupError):
        wait_until("the end of all that it started", lambda: os.killpg(reading.pid, 0))


def test_a_file_that_is_not_there_is_told_by_the_status(board: Board, tmp_path: Path) -> None:
    with read(board, tmp_path / "absent") as reading:
        assert reading.communicate(timeout=60) == (b"", b"")
    assert reading.returncode == NO_FILE
