"""Large files from a board over SSH: cuts, corruption, kills, and files that are changed on the way."""

from __future__ import annotations

import fcntl
import shutil
import signal
from collections import namedtuple
from pathlib import Path

import pytest

from core.errors import Busy, ContentDiffers, NotEnoughSpace, TransferError
from core.session import Session
from deploy.ssh.board import SshBoard
from deploy.transfer import receive_streamed
from deploy.transfer.pull import as_name, fetch_files, pull_files
from deploy.transfer.receive_streamed import streamed_part
from tests.integration.deploy.ssh.conftest import IN_FLIGHT, SIZE
from tests.shared.faulty_link import FaultyLink
from tests.support.board_runs import soon
from tests.support.processes import processes_about
from tests.support.ssh_transfers import BEGUN, change_the_end, cut_for_good, end_when_begun
from tests.support.sshd import LoopbackSshd
from tests.support.transfers import flip_byte
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("large")


@pytest.fixture
def offsets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From which byte on the board was asked to send, each time."""
    asked: list[int] = []
    template = receive_streamed.render_script

    def render(name: str, **values: object) -> str:
        asked.append(int(str(values["offset"])))
        return template(name, **values)

    monkeypatch.setattr(receive_streamed, "render_script", render)
    return asked


@pytest.fixture
def part(board: SshBoard, tmp_path: Path) -> Path:
    """Where the file grows here."""
    return streamed_part(board.serial, f"{tmp_path}/model", tmp_path / "here/back")


def pull(session: Session, board: SshBoard, tmp_path: Path) -> bytes:
    """What has arrived."""
    (tmp_path / "here").mkdir(exist_ok=True)
    pull_files(session, board, [f"{tmp_path}/model"], tmp_path / "here/back")
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["back"]
    return (tmp_path / "here/back").read_bytes()


def pull_until_cut(
    session: Session, board: SshBoard, sshd: LoopbackSshd, link: FaultyLink, tmp_path: Path, part: Path
) -> int:
    """Bytes that are here of a pull that is broken off."""
    cut_for_good(board, sshd, link, SIZE * 9 // 10, lambda: pull(session, board, tmp_path))
    assert not (tmp_path / "here/back").exists()
    assert part.stat().st_mode & 0o777 == 0o600
    return part.stat().st_size


def test_a_pull_goes_on_by_a_new_link_by_itself(
    session: Session, board: SshBoard, link: FaultyLink, content: bytes, tmp_path: Path, offsets: list[int]
) -> None:
    board.shell("true", deadline=soon())
    link.fault("cut", SIZE // 2)
    assert pull(session, board, tmp_path) == content
    assert offsets[0] == 0
    assert SIZE // 2 - IN_FLIGHT < offsets[1] < SIZE // 2


def test_a_pull_that_was_cut_fetches_only_the_rest(
    session: Session,
    board: SshBoard,
    sshd: LoopbackSshd,
    link: FaultyLink,
    content: bytes,
    tmp_path: Path,
    part: Path,
    offsets: list[int],
) -> None:
    here = pull_until_cut(session, board, sshd, link, tmp_path, part)
    assert SIZE * 9 // 10 - IN_FLIGHT < here < SIZE
    offsets.clear()
    assert pull(session, board, tmp_path) == content
    assert offsets == [here]


def test_of_outputs_that_were_cut_nothing_stays(
    session: Session, board: SshBoard, sshd: LoopbackSshd, link: FaultyLink, tmp_path: Path, part: Path
) -> None:
    def fetch() -> None:
        part.parent.mkdir()
        fetch_files(session, board, [as_name("model")], folder=str(tmp_path), place=lambda name: part.parent / "back")

    cut_for_good(board, sshd, link, SIZE * 9 // 10, fetch)
    assert list(part.parent.iterdir()) == []


def test_a_part_that_is_not_what_the_file_begins_with_is_fetched_anew(
    session: Session,
    board: SshBoard,
    sshd: LoopbackSshd,
    link: FaultyLink,
    content: bytes,
    tmp_path: Path,
    part: Path,
    offsets: list[int],
) -> None:
    here = pull_until_cut(session, board, sshd, link, tmp_path, part)
    flip_byte(part)
    offsets.clear()
    assert pull(session, board, tmp_path) == content
    assert offsets == [here, 0]


def test_what_the_board_sends_differently_never_gets_the_files_name(
    session: Session, board: SshBoard, content: bytes, tmp_path: Path, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = receive_streamed.render_script

    def render(name: str, **values: object) -> str:
        return template(name, **values).replace('cat "$f"', 'cat "$f" | tr a b')

    monkeypatch.setattr(receive_streamed, "render_script", render)
    with pytest.raises(ContentDiffers):
        pull(session, board, tmp_path)
    assert not list((tmp_path / "here").iterdir())


def test_a_file_that_is_changed_there_while_it_is_sent_is_an_error_and_leaves_nothing(
    session: Session, board: SshBoard, link: FaultyLink, content: bytes, tmp_path: Path
) -> None:
    link.on_fault = lambda: change_the_end(tmp_path / "model")
    link.fault("none", SIZE // 8)  # What is in flight then does not reach to the end.
    with pytest.raises(TransferError, match=r"model of board ssh://lab was changed while it was being received"):
        pull(session, board, tmp_path)
    assert not list((tmp_path / "here").iterdir())


def test_a_file_that_does_not_fit_here_is_told_so_before_a_byte_is_sent(
    session: Session, board: SshBoard, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")  # As shutil has it.
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(free=SIZE - 1))
    with pytest.raises(NotEnoughSpace):
        pull(session, board, tmp_path)
    assert not list((tmp_path / "here").iterdir())


def test_a_link_that_somebody_has_laid_where_the_file_grows_is_not_followed(
    session: Session, board: SshBoard, content: bytes, tmp_path: Path, part: Path
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "another").write_bytes(b"of value")
    part.symlink_to(tmp_path / "another")
    assert pull(session, board, tmp_path) == content
    assert not (tmp_path / "here/back").is_symlink()
    assert (tmp_path / "another").read_bytes() == b"of value"


def test_two_do_not_write_to_one_file(
    session: Session, board: SshBoard, content: bytes, tmp_path: Path, part: Path
) -> None:
    (tmp_path / "here").mkdir()
    with part.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Busy):
            pull(session, board, tmp_path)
        assert part.read_bytes() == b""
    assert pull(session, board, tmp_path) == content


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_pull_that_is_ended_leaves_nothing_running_and_goes_on_where_it_was(
    session: Session,
    board: SshBoard,
    link: FaultyLink,
    content: bytes,
    tmp_path: Path,
    part: Path,
    offsets: list[int],
    number: int,
) -> None:
    link.rate = 4_000_000
    (tmp_path / "here").mkdir()
    words = ["board.pull", str(tmp_path / "model"), str(tmp_path / "here/back"), "--board", board.serial]
    end_when_begun(words, tmp_path, part, number)
    wait_until("the end of all that it started", lambda: not processes_about(f"f={tmp_path}/model"))
    link.rate = 0
    here = part.stat().st_size
    assert BEGUN < here < SIZE
    assert pull(session, board, tmp_path) == content
    assert offsets == [here]
