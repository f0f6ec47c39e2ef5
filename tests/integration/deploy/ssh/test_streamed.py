"""Large files over SSH, by the system's own ssh where that is let in: cuts, corruption, kills, keys, and where it is not."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ContentDiffers, NoSpaceOnBoard, SourceError, TransferError
from core.session import Session
from deploy.hdc.choose import choose_board
from deploy.ssh.board import SshBoard
from deploy.transfer import streamed
from deploy.transfer.pull import pull_files
from deploy.transfer.push import push_files
from tests.integration.deploy.ssh.conftest import IN_FLIGHT, SIZE
from tests.shared.faulty_link import FaultyLink
from tests.support.board_runs import soon
from tests.support.processes import processes_about
from tests.support.ssh_transfers import BEGUN, change_the_end, cut_for_good, end_when_begun
from tests.support.sshd import LoopbackSshd, loopback_sshd
from tests.support.transfers import flip_byte, parts_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("large")


def push(session: Session, board: SshBoard, tmp_path: Path) -> int:
    """Bytes that were sent."""
    return push_files(session, board, [tmp_path / "model"], f"{tmp_path}/there/").bytes_sent


def joined(tmp_path: Path, content: bytes) -> Path:
    """Where the file grows."""
    return tmp_path / "device/ohforge/store" / parts_of(content) / "joined"


def arrived(tmp_path: Path) -> bytes:
    return (tmp_path / "there/model").read_bytes()


def push_until_cut(
    session: Session, board: SshBoard, sshd: LoopbackSshd, link: FaultyLink, tmp_path: Path, content: bytes
) -> int:
    """Bytes that are there of a push that is broken off at nine tenths of the file, when no link can be made any more."""
    (tmp_path / "device").mkdir(exist_ok=True)
    cut_for_good(board, sshd, link, SIZE * 9 // 10, lambda: push(session, board, tmp_path))
    wait_until("the end of what wrote there", lambda: not processes_about(parts_of(content)))
    return joined(tmp_path, content).stat().st_size


# the way ---------------------------------------------------------------------------------------------


def test_a_large_file_goes_there_and_back_by_the_systems_own_ssh(
    session: Session, board: SshBoard, calls: Path, content: bytes, tmp_path: Path
) -> None:
    assert push(session, board, tmp_path) == SIZE
    assert len(calls.read_text().splitlines()) == 1
    assert arrived(tmp_path) == content
    assert push(session, board, tmp_path) == 0
    assert len(calls.read_text().splitlines()) == 1
    pull_files(session, board, [f"{tmp_path}/there/model"], tmp_path / "back")
    assert len(calls.read_text().splitlines()) == 2
    assert (tmp_path / "back").read_bytes() == content


@pytest.mark.usefixtures("greeted")
def test_what_a_start_file_prints_gets_into_no_file(
    session: Session, board: SshBoard, calls: Path, content: bytes, tmp_path: Path
) -> None:
    assert push(session, board, tmp_path) == SIZE
    assert arrived(tmp_path) == content
    pull_files(session, board, [f"{tmp_path}/there/model"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    assert len(calls.read_text().splitlines()) == 1  # What ssh itself writes into a file would begin with it.


def test_a_small_file_takes_no_connection_of_its_own(
    session: Session, board: SshBoard, calls: Path, tmp_path: Path
) -> None:
    (tmp_path / "model").write_bytes(bytes(999_999))
    assert push(session, board, tmp_path) == 999_999
    pull_files(session, board, [f"{tmp_path}/there/model"], tmp_path / "back")
    assert calls.read_text() == ""


def test_a_file_goes_by_the_computers_on_the_way(
    session: Session, sshd: LoopbackSshd, home: Path, calls: Path, content: bytes, tmp_path: Path
) -> None:
    configuration = home / ".ssh/config"
    inner = configuration.read_text().replace("lab gate", "inner") + "  ProxyJump piped\n"
    piped = f"Host piped\n  IdentityFile {sshd.folder}/user\n  ProxyCommand {' '.join(sshd.words)}\n"
    configuration.write_text(configuration.read_text() + inner + piped)
    with (home / ".ssh/known_hosts").open("a") as known:
        known.write(f"piped {(sshd.folder / 'host.pub').read_text()}")
    board = choose_board(session.with_settings(boards={}), "ssh://inner")
    assert isinstance(board, SshBoard)
    with contextlib.closing(board):
        board._device_dir = f"{tmp_path}/device"
        assert push(session, board, tmp_path) == SIZE
    assert arrived(tmp_path) == content
    assert len(calls.read_text().splitlines()) == 1


def test_bytes_that_are_made_on_the_way_go_by_the_systems_own_ssh_too(
    board: SshBoard, calls: Path, tmp_path: Path
) -> None:
    def feed(fails: bool) -> Iterator[bytes]:
        yield from (bytes([number]) * 100_000 for number in range(50))
        if fails:
            raise SourceError("gone")

    link, count = board.connect(soon()), list[bytes]()
    command = f"cat >{tmp_path}/there; echo done"
    status = link.run_with_feed(command, feed(False), size=5_000_000, deadline=soon(), on_output=count.append)
    assert (status, b"".join(count)) == (0, b"done\n")
    assert (tmp_path / "there").read_bytes() == b"".join(bytes([number]) * 100_000 for number in range(50))
    with pytest.raises(SourceError):
        link.run_with_feed(command, feed(True), size=5_000_000, deadline=soon(), on_output=count.append)
    # What takes nothing ends, however much there would be.
    assert link.run_with_feed("exit 3", feed(False), size=5_000_000, deadline=soon(), on_output=count.append) == 3
    assert len(calls.read_text().splitlines()) == 3


# where ssh is not let in -------------------------------------------------------------------------------


def test_without_ssh_a_large_file_goes_by_the_connection_that_is_open(
    session: Session, board: SshBoard, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.ssh.openssh.shutil.which", lambda name: None)
    assert push(session, board, tmp_path) == SIZE
    assert arrived(tmp_path) == content
    pull_files(session, board, [f"{tmp_path}/there/model"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def test_a_key_that_ssh_does_not_take_lets_our_own_connection_in(
    session: Session,
    board: SshBoard,
    sshd: LoopbackSshd,
    home: Path,
    calls: Path,
    content: bytes,
    tmp_path: Path,
) -> None:
    # OpenSSH refuses a private key that others may read (ssh(1), "Identity file").
    shutil.copy(sshd.folder / "user", tmp_path / "open")
    (tmp_path / "open").chmod(0o644)
    configuration = home / ".ssh/config"
    configuration.write_text(configuration.read_text().replace(f"{sshd.folder}/user", f"{tmp_path}/open"))
    assert push(session, board, tmp_path) == SIZE
    assert arrived(tmp_path) == content
    assert len(calls.read_text().splitlines()) == 1, "it was tried once"


def test_who_answers_ssh_alone_with_another_key_gets_nothing(
    session: Session,
    board: SshBoard,
    sshd: LoopbackSshd,
    link: FaultyLink,
    content: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "other").mkdir()
    with loopback_sshd(tmp_path / "other") as other:
        shutil.copy(sshd.folder / "user.pub", other.folder / "user.pub")
        board.shell("true", deadline=soon())
        link.target = other.port
        assert push(session, board, tmp_path) == SIZE
        said = (other.folder / "sshd.log").read_text()
    assert arrived(tmp_path) == content
    assert "Accepted" not in said
    assert "with another key than the known one" in capsys.readouterr().err


def test_nothing_secret_and_nothing_of_the_files_stands_on_a_command_line(
    session: Session, board: SshBoard, sshd: LoopbackSshd, calls: Path, content: bytes, tmp_path: Path
) -> None:
    assert push(session, board, tmp_path) == SIZE
    line = calls.read_text()
    key = (sshd.folder / "user").read_text().splitlines()[1:-1]
    assert not any(part in line for part in key)
    assert shlex.split(line)[0] == "-F"
    assert not Path(shlex.split(line)[1]).exists(), "its configuration is gone"


# what goes wrong ---------------------------------------------------------------------------------------


def test_a_push_that_was_cut_at_nine_tenths_sends_only_the_rest(
    session: Session, board: SshBoard, sshd: LoopbackSshd, link: FaultyLink, content: bytes, tmp_path: Path
) -> None:
    there = push_until_cut(session, board, sshd, link, tmp_path, content)
    assert there > SIZE * 9 // 10 - IN_FLIGHT
    assert push(session, board, tmp_path) == SIZE - there
    assert arrived(tmp_path) == content


@pytest.mark.exhaustive
def test_a_push_goes_on_by_a_new_link_by_itself(
    session: Session, board: SshBoard, link: FaultyLink, content: bytes, tmp_path: Path
) -> None:
    board.shell("true", deadline=soon())
    link.fault("cut", SIZE * 9 // 10)
    assert SIZE <= push(session, board, tmp_path) <= SIZE + IN_FLIGHT
    assert arrived(tmp_path) == content


def test_a_part_that_is_not_what_the_file_begins_with_is_sent_anew(
    session: Session,
    board: SshBoard,
    sshd: LoopbackSshd,
    link: FaultyLink,
    content: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    push_until_cut(session, board, sshd, link, tmp_path, content)
    flip_byte(joined(tmp_path, content))
    assert push(session, board, tmp_path) == SIZE
    assert arrived(tmp_path) == content
    assert "is not what it should be; sending all of it" in capsys.readouterr().err


def test_what_the_board_writes_differently_never_gets_the_files_name(
    session: Session, board: SshBoard, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = streamed.BY_PYTHON.replace("left = room[:count]", "room[0] ^= 1; left = room[:count]")
    monkeypatch.setattr(streamed, "BY_PYTHON", changed)
    with pytest.raises(ContentDiffers):
        push(session, board, tmp_path)
    assert not (tmp_path / "there/model").exists()
    assert not list((tmp_path / "device/ohforge/store").glob("*.ok"))


def test_a_file_that_is_changed_while_it_is_sent_is_an_error_and_leaves_nothing(
    session: Session, board: SshBoard, link: FaultyLink, content: bytes, tmp_path: Path
) -> None:
    link.rate = 10_000_000
    link.on_fault = lambda: change_the_end(tmp_path / "model")
    link.fault("none", SIZE // 2)  # More than a second after its hash was begun.
    with pytest.raises(TransferError, match="was changed while it was being sent"):
        push(session, board, tmp_path)
    assert not (tmp_path / "there/model").exists()
    assert not joined(tmp_path, content).exists()


@pytest.mark.parametrize("writer", ["python3", "tee"])
def test_a_disk_that_is_full_is_told_so(
    session: Session, board: SshBoard, content: bytes, tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if writer == "tee":
        monkeypatch.setattr(streamed, "PYTHONS", ("absent",))
    # /dev/full takes nothing, and says why.
    template = streamed.render_script

    def render(name: str, **values: object) -> str:
        return template(name, **values).replace(" joined)", " /dev/full)").replace("-a joined", "-a /dev/full")

    monkeypatch.setattr(streamed, "render_script", render)
    with pytest.raises(NoSpaceOnBoard):
        push(session, board, tmp_path)
    assert not (tmp_path / "there/model").exists()


def test_without_python_the_boards_own_tools_write_and_hash(
    session: Session,
    board: SshBoard,
    sshd: LoopbackSshd,
    link: FaultyLink,
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streamed, "PYTHONS", ("absent",))
    template = streamed.render_script
    assert push(session, board, tmp_path) == SIZE
    assert arrived(tmp_path) == content
    shutil.rmtree(tmp_path / "device")

    def without_openssl(name: str, **values: object) -> str:
        return template(name, **values).replace("openssl", "absent")

    monkeypatch.setattr(streamed, "render_script", without_openssl)
    there = push_until_cut(session, board, sshd, link, tmp_path, content)
    assert push(session, board, tmp_path) == SIZE - there
    assert arrived(tmp_path) == content


# what ends it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_push_that_is_ended_leaves_nothing_running_and_goes_on_where_it_was(
    session: Session, board: SshBoard, link: FaultyLink, content: bytes, tmp_path: Path, home: Path, number: int
) -> None:
    link.rate = 4_000_000
    (tmp_path / "invoke.yaml").write_text(
        f"ohforge:\n  boards:\n    bench: {{serial: lab, transport: ssh, device_dir: {tmp_path}/device}}\n"
    )
    words = ["board.push", str(tmp_path / "model"), f"{tmp_path}/there/", "--board", "bench"]
    part = joined(tmp_path, content)
    end_when_begun(words, tmp_path, part, number)
    wait_until("the end of all that it started", lambda: not processes_about(parts_of(content)))
    link.rate = 0
    there = part.stat().st_size
    assert BEGUN < there < SIZE
    assert push(session, board, tmp_path) == SIZE - there
    assert arrived(tmp_path) == content


def test_a_writer_whose_link_is_dead_is_ended_by_the_next_push(
    session: Session, board: SshBoard, link: FaultyLink, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.ssh.link.SILENT_SECONDS", 4.0)
    board.shell("true", deadline=soon())
    link.fault("freeze", SIZE // 2)
    assert SIZE <= push(session, board, tmp_path) <= SIZE + IN_FLIGHT
    assert arrived(tmp_path) == content
