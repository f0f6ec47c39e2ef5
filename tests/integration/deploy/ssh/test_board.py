"""Commands and files over a real sshd."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    BoardOffline,
    BoardUnauthorised,
    DeadlineExpired,
    HostKeyNotTrusted,
    LostConnection,
    NoSpaceOnBoard,
    RemoteFileMissing,
    RemoteFolderMissing,
)
from core.session import PROJECT, Session
from deploy.hdc.choose import choose_board
from deploy.ssh.board import SshBoard
from tests.support.board_runs import soon
from tests.support.sshd import LoopbackSshd, make_key
from tests.support.typed import type_commands
from tests.support.waiting import wait_until

# commands ------------------------------------------------------------------------------------------


def test_everything_that_a_command_started_ends_at_its_deadline(board: SshBoard, tmp_path: Path) -> None:
    with pytest.raises(DeadlineExpired, match="Nothing of it runs on board ssh://lab any more"):
        board.shell(_long_program(tmp_path), deadline=Deadline.after(2.0, "a program"))
    _check_that_it_ends(tmp_path)


def test_everything_that_a_command_started_ends_with_the_link(
    board: SshBoard, sshd: LoopbackSshd, tmp_path: Path
) -> None:
    def cut() -> None:
        wait_until("the program's start", (tmp_path / "pid").exists)
        sshd.refuses = True
        sshd.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        with pytest.raises(LostConnection, match="how it ended is not known"):
            board.shell(_long_program(tmp_path), deadline=soon())
    finally:
        cutter.join()
        sshd.refuses = False
    _check_that_it_ends(tmp_path)
    assert board.shell("echo back", deadline=soon()).output == b"back\n"  # The link is made anew.


def test_a_link_that_is_frozen_is_given_up_long_before_the_deadline(
    board: SshBoard,
    sshd: LoopbackSshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("deploy.ssh.link.ALIVE_SECONDS", 0.2)
    monkeypatch.setattr("deploy.ssh.link.SILENT_SECONDS", 2.0)
    thaw: list[Callable[[], None]] = []

    def freeze() -> None:
        wait_until("the program's start", (tmp_path / "pid").exists)
        thaw.append(sshd.freeze())

    freezer = threading.Thread(target=freeze)
    freezer.start()
    try:
        with pytest.raises(LostConnection, match="how it ended is not known"):
            board.shell(_long_program(tmp_path), deadline=Deadline.after(500.0, "a program"))
    finally:
        freezer.join()
        for go_on in thaw:
            go_on()
    assert "board ssh://lab has answered nothing for" in capsys.readouterr().err
    _check_that_it_ends(tmp_path)


def test_a_quiet_program_is_no_frozen_link(board: SshBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.ssh.link.ALIVE_SECONDS", 0.1)
    monkeypatch.setattr("deploy.ssh.link.SILENT_SECONDS", 1.0)
    assert board.shell("sleep 3; echo done", deadline=soon()).output == b"done\n"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 79), (signal.SIGKILL, -signal.SIGKILL)])
def test_everything_that_a_command_started_ends_with_ohforge(
    home: Path, tmp_path: Path, number: int, status: int
) -> None:
    words = [sys.executable, "-m", "invoke", "board.shell", "--board", "ssh://lab", _long_program(tmp_path)]
    process = subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until("the program's start", (tmp_path / "pid").exists)
        process.send_signal(number)
        assert process.wait(timeout=60) == status
    finally:
        process.kill()
    _check_that_it_ends(tmp_path)


@pytest.mark.usefixtures("greeted")
def test_what_a_start_file_prints_is_no_output(session: Session, tmp_path: Path) -> None:
    board = choose_board(session, "ssh://lab")
    assert isinstance(board, SshBoard)
    with contextlib.closing(board):
        answer = board.shell("echo one; echo two >&2; exit 3", deadline=soon())
        assert (answer.output, answer.exit_code) == (b"one\ntwo\n", 3)
        assert "Welcome" not in board.profile.device_dir
        (tmp_path / "here").write_bytes(b"content")
        board.send(tmp_path / "here", f"{tmp_path}/there", deadline=soon())
        board.receive(f"{tmp_path}/there", tmp_path / "back", deadline=soon())
        assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes() == b"content"
        with pytest.raises(RemoteFolderMissing):
            board.send(tmp_path / "here", f"{tmp_path}/absent/file", deadline=soon())
        errors = bytearray()
        script = "echo answer; echo fault >&2; exit 5"
        assert board._run(script, soon(), errors.extend, on_errors=errors.extend) == 5
        assert bytes(errors) == b"answer\nfault\n"


def test_a_program_in_the_background_outlives_its_command(board: SshBoard, tmp_path: Path) -> None:
    board.shell(f"{_long_program(tmp_path)} >/dev/null 2>&1 & sleep 0.5", deadline=soon())
    assert board.shell(f"kill -KILL $(cat {tmp_path}/pid)", deadline=soon()).exit_code == 0


def _long_program(folder: Path) -> str:
    return f"sh -c 'echo $$ >{folder}/new; mv {folder}/new {folder}/pid; exec sleep 600'"


def _check_that_it_ends(folder: Path) -> None:
    number = int((folder / "pid").read_text())
    wait_until("the end of the program", lambda: not Path(f"/proc/{number}").exists())


# files ---------------------------------------------------------------------------------------------


def test_a_file_that_does_not_fit_or_is_not_there_is_told_so(board: SshBoard, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(bytes(200_000))
    with pytest.raises(NoSpaceOnBoard):
        board.send(tmp_path / "here", "/dev/full", deadline=soon())
    with pytest.raises(RemoteFolderMissing):
        board.send(tmp_path / "here", f"{tmp_path}/absent/file", deadline=soon())
    with pytest.raises(RemoteFileMissing):
        board.receive(f"{tmp_path}/absent", tmp_path / "back", deadline=soon())


# logging in ----------------------------------------------------------------------------------------


def test_a_key_that_is_not_known_is_shown_and_trusted_only_when_that_is_asked_for(
    session: Session, sshd: LoopbackSshd, home: Path
) -> None:
    (home / ".ssh/known_hosts").unlink()
    shown = subprocess.run(
        ["ssh-keygen", "-lf", str(sshd.folder / "host.pub")], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()[1]
    with pytest.raises(HostKeyNotTrusted) as caught:
        choose_board(session, "ssh://lab").shell("true", deadline=soon())
    assert shown in caught.value.message
    assert choose_board(session, "ssh://lab", accept_new=True).shell("true", deadline=soon()).exit_code == 0
    assert choose_board(session, "ssh://lab").shell("true", deadline=soon()).exit_code == 0
    known = ["ssh-keygen", "-F", f"[127.0.0.1]:{sshd.port}", "-f", str(home / ".ssh/known_hosts")]
    assert subprocess.run(known, capture_output=True, check=False, timeout=60).returncode == 0


def test_what_is_said_of_an_unknown_key_on_the_way_can_be_typed_and_lets_in(session: Session, home: Path) -> None:
    configuration = home / ".ssh/config"
    inner = configuration.read_text().replace("lab gate", "inner") + "  ProxyJump gate\n"
    configuration.write_text(configuration.read_text() + inner)
    (home / ".ssh/known_hosts").unlink()
    with pytest.raises(HostKeyNotTrusted) as caught:
        choose_board(session, "ssh://inner").shell("true", deadline=soon())
    type_commands(caught.value.remedy)
    assert choose_board(session, "ssh://inner").shell("true", deadline=soon()).exit_code == 0


def test_another_key_than_the_known_one_is_never_trusted_until_that_is_forgotten(
    session: Session, sshd: LoopbackSshd, home: Path, tmp_path: Path
) -> None:
    make_key(tmp_path / "other")
    other = (tmp_path / "other.pub").read_text()
    (home / ".ssh/known_hosts").unlink()
    (home / ".ssh/known_hosts2").write_text(f"[127.0.0.1]:{sshd.port} {other}")
    for accept_new in (False, True):
        with pytest.raises(HostKeyNotTrusted, match="another key") as caught:
            choose_board(session, "ssh://lab", accept_new=accept_new).shell("true", deadline=soon())
    type_commands(caught.value.remedy)
    assert choose_board(session, "ssh://lab").shell("true", deadline=soon()).exit_code == 0


def test_a_revoked_key_is_never_trusted_and_authorities_trust_nobody(
    session: Session, sshd: LoopbackSshd, home: Path
) -> None:
    known, key = home / ".ssh/known_hosts", (sshd.folder / "host.pub").read_text()
    known.write_text(f"@cert-authority * {key}")
    with pytest.raises(HostKeyNotTrusted, match="is not known"):
        choose_board(session, "ssh://lab").shell("true", deadline=soon())
    known.write_text(f"@cert-authority * {key}[127.0.0.*]:{sshd.port} {key}")
    assert choose_board(session, "ssh://lab").shell("true", deadline=soon()).exit_code == 0
    with known.open("a") as file:
        file.write(f"@revoked * {key}")
    for accept_new in (False, True):
        with pytest.raises(HostKeyNotTrusted, match="revoked"):
            choose_board(session, "ssh://lab", accept_new=accept_new).shell("true", deadline=soon())


@pytest.mark.parametrize("file", ["none", "/dev/null"])
def test_where_no_key_can_be_noted_none_is_accepted(session: Session, home: Path, file: str) -> None:
    with (home / ".ssh/config").open("a") as configuration:
        configuration.write(f"  UserKnownHostsFile {file}\n")
    with pytest.raises(HostKeyNotTrusted) as caught:
        choose_board(session, "ssh://lab", accept_new=True).shell("true", deadline=soon())
    assert "UserKnownHostsFile" in caught.value.remedy


def test_who_has_no_key_for_the_board_is_told_how_to_get_in(
    session: Session, sshd: LoopbackSshd, tmp_path: Path
) -> None:
    make_key(tmp_path / "stranger")
    configuration = Path("~/.ssh/config").expanduser()
    configuration.write_text(configuration.read_text().replace(f"{sshd.folder}/user", f"{tmp_path}/stranger"))
    with pytest.raises(BoardUnauthorised) as caught:
        choose_board(session, "ssh://lab").shell("true", deadline=soon())
    assert "ssh-copy-id" in caught.value.remedy


def test_a_board_behind_another_computer_is_reached_through_it(session: Session, home: Path) -> None:
    configuration = home / ".ssh/config"
    inner = configuration.read_text().replace("lab gate", "inner") + "  ProxyJump gate\n"
    configuration.write_text(configuration.read_text() + inner)
    answer = choose_board(session, "ssh://inner").shell("echo $SSH_CONNECTION", deadline=soon())
    assert answer.exit_code == 0


def test_where_no_sshd_answers_the_board_is_offline(
    session: Session, sshd: LoopbackSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshd, "refuses", True)
    with pytest.raises(BoardOffline):
        choose_board(session, "ssh://lab").shell("true", deadline=Deadline.after(1.0, "an answer"))


def pipe(sshd: LoopbackSshd, home: Path, command: str) -> None:
    """Lets the board ``piped`` be reached by that command of the shell."""
    with (home / ".ssh/config").open("a") as configuration:
        configuration.write(f"Host piped\n  IdentityFile {sshd.folder}/user\n  ProxyCommand {command}\n")
    (home / ".ssh/known_hosts").write_text(f"piped {(sshd.folder / 'host.pub').read_text()}")


def test_a_board_behind_a_program_is_reached_through_it(session: Session, sshd: LoopbackSshd, home: Path) -> None:
    pipe(sshd, home, " ".join(sshd.words))
    board = choose_board(session, "ssh://piped")
    assert isinstance(board, SshBoard)
    with contextlib.closing(board):
        assert board.shell("echo there", deadline=soon()).output == b"there\n"


def test_a_link_by_a_program_ends_with_it(session: Session, sshd: LoopbackSshd, home: Path, tmp_path: Path) -> None:
    pipe(sshd, home, f"sh -c 'echo $$ >{tmp_path}/number; exec {' '.join(sshd.words)}' 2>/dev/null")
    board = choose_board(session, "ssh://piped")
    assert isinstance(board, SshBoard)

    def cut(chunk: bytes) -> None:
        os.kill(int((tmp_path / "number").read_text()), signal.SIGKILL)

    with contextlib.closing(board), pytest.raises(LostConnection):
        board.shell("echo there; sleep 600", deadline=soon(), on_output=cut)


def test_a_program_that_gives_no_link_tells_why(session: Session, sshd: LoopbackSshd, home: Path) -> None:
    pipe(sshd, home, "echo the gate is closed >&2")
    with pytest.raises(BoardOffline, match="ProxyCommand, which said: the gate is closed"):
        choose_board(session, "ssh://piped").shell("true", deadline=Deadline.after(1.0, "an answer"))


def test_somebody_who_answers_nothing_is_asked_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("login", "board"):
        monkeypatch.setattr(f"deploy.ssh.{module}.CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        board = choose_board(session, f"ssh://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(BoardOffline, match="no greeting of an sshd came"):
            board.shell("true", deadline=soon())
        silent.settimeout(30)
        silent.accept()[0].close()
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()


@pytest.mark.parametrize("named_by", ["SSH_AUTH_SOCK", "IdentityAgent"])
def test_a_key_that_only_the_agent_has_lets_in(
    named_by: str, session: Session, sshd: LoopbackSshd, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = home / ".ssh/config"
    configuration.write_text(configuration.read_text().replace(f"  IdentityFile {sshd.folder}/user\n", ""))
    with pytest.raises(BoardUnauthorised):
        choose_board(session, "ssh://lab").shell("true", deadline=soon())
    # The address of a socket has room for 107 bytes.
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        if named_by == "SSH_AUTH_SOCK":
            monkeypatch.setenv(named_by, f"{short}/agent")
        else:
            configuration.write_text(f"{configuration.read_text()}  IdentityAgent {short}/agent\n")
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", f"{short}/agent"], stdout=subprocess.DEVNULL)
        try:
            wait_until("the agent", Path(f"{short}/agent").is_socket)
            subprocess.run(
                ["ssh-add", "-q", str(sshd.folder / "user")],
                env=os.environ | {"SSH_AUTH_SOCK": f"{short}/agent"},
                check=True,
                timeout=60,
            )
            board = choose_board(session, "ssh://lab")
            assert isinstance(board, SshBoard)
            with contextlib.closing(board):
                assert board.shell("true", deadline=soon()).exit_code == 0
        finally:
            agent.terminate()
            agent.wait(timeout=60)
