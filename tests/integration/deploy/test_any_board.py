"""What every board promises (`deploy.board.protocol.Board`), however it is reached: by hdc, over SSH, by hdc on a host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import DeadlineExpired, RemoteFileMissing, RemoteFolderMissing, UsageError
from core.session import Session
from core.settings import BoardEntry
from deploy.board.protocol import Board
from deploy.hdc.choose import choose_board
from deploy.transfer.pull import pull_files
from deploy.transfer.push import push_files
from tests.support.board_runs import SERIAL, soon
from tests.support.lab_host import LabHost, know_host, lab_host
from tests.support.sshd import SSHD

WAYS = {"hdc": SERIAL, "ssh": "over-ssh", "host": "behind"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHost]:
    """One computer for all: its emulated board is reached by hdc, by hdc over SSH, and it is a board over SSH itself."""
    if SSHD is None:
        pytest.skip("no sshd is installed (Debian package openssh-server)")
    with lab_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture
def session(session: Session, host: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    know_host(tmp_path / "home", host.sshd, "lab1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    for name, value in host.hdc.environment.items():
        monkeypatch.setenv(name, value)
    boards = {
        "behind": BoardEntry(via="ssh://lab1", key=SERIAL),
        "over-ssh": BoardEntry(serial="lab1", transport="ssh", device_dir=str(tmp_path / "device")),
    }
    (tmp_path / "device").mkdir()
    return session.with_settings(boards=boards)


@pytest.fixture(params=WAYS)
def board(session: Session, request: pytest.FixtureRequest) -> Iterator[Board]:
    board = choose_board(session, WAYS[request.param])
    yield board
    close = getattr(board.host or board, "close", None)
    if close is not None:
        close()


@pytest.fixture
def folder(board: Board) -> Iterator[str]:
    """An empty folder of the board."""
    path = f"{board.profile.device_dir}/contract"
    board.shell(f"mkdir {path}", deadline=soon())
    yield path
    board.shell(f"rm -rf {path}", deadline=soon())


@pytest.mark.parametrize(
    ("script", "status", "output"),
    [
        ("echo out; echo err >&2", 0, b"out\nerr\n"),
        ("printf 'no newline'; exit 3", 3, b"no newline"),
        ("kill -KILL $$", 137, b""),
        ("read x; echo got=$x", 0, b"got=\n"),
        ("printf '\\000\\377 %s' \"it's\"", 0, b"\0\xff it's"),
        (f"echo {'x' * 150_000} | wc -c", 0, b"150001\n"),
        ("echo " + '"\'"' * 9_000 + " | wc -c", 0, b"9001\n"),
    ],
)
def test_a_command_gives_its_status_and_its_output(board: Board, script: str, status: int, output: bytes) -> None:
    result = board.shell(script, deadline=soon())
    assert (result.exit_code, result.output) == (status, output)


def test_a_command_runs_in_the_folder_that_was_named(board: Board, folder: str) -> None:
    assert board.shell("pwd", deadline=soon(), folder=folder).text == f"{folder}\n"
    with pytest.raises(RemoteFolderMissing):
        board.shell("pwd", deadline=soon(), folder=f"{folder}/absent")
    with pytest.raises(UsageError, match="NUL"):
        board.shell("echo \0", deadline=soon())


def test_a_command_is_ended_at_its_deadline(board: Board) -> None:
    with pytest.raises(DeadlineExpired, match="Nothing of it runs on board"):
        board.shell("sleep 600; echo never", deadline=Deadline.after(3.0, "a program"))


@pytest.mark.parametrize("size", [0, 1, 3_000_001])
def test_a_file_goes_there_and_comes_back_the_same(board: Board, folder: str, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "here").write_bytes(content)
    board.send(tmp_path / "here", f"{folder}/a 'file'", deadline=soon())
    board.receive(f"{folder}/a 'file'", tmp_path / "back", deadline=soon())
    assert (tmp_path / "back").read_bytes() == content


def test_what_is_not_there_is_told(board: Board, folder: str, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"x")
    with pytest.raises(RemoteFileMissing):
        board.receive(f"{folder}/absent", tmp_path / "back", deadline=soon())
    with pytest.raises(RemoteFolderMissing):
        board.send(tmp_path / "here", f"{folder}/absent/file", deadline=soon())


def test_a_file_is_sent_once_and_verified(session: Session, board: Board, folder: str, tmp_path: Path) -> None:
    content = os.urandom(100_000)
    (tmp_path / "model").write_bytes(content)
    assert push_files(session, board, [tmp_path / "model"], f"{folder}/there/").bytes_sent == 100_000
    assert push_files(session, board, [tmp_path / "model"], f"{folder}/again/").bytes_sent == 0
    pull_files(session, board, [f"{folder}/again/model"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
