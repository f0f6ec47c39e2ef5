"""Logging in at who takes the connection and then says nothing ends with the caller's deadline, whoever opens the link."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from core.deadline import Deadline
from core.errors import BoardOffline, OhforgeError
from core.session import Session
from deploy.board.profiles import load_profile
from deploy.build_host.host import BuildHost
from deploy.hdc.choose import name_board
from deploy.hdc.restart import wait_for_board
from deploy.ssh.board import SshBoard
from deploy.ssh.link import SshLink
from deploy.ssh.login import CONNECT_SECONDS

SHORT = 0.3


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()
    return tmp_path


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], None] = lambda caller: None) -> Iterator[int]:
    """A port that takes every caller and keeps him, after `serve` has done with him what it does."""
    callers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    callers.append(server.accept()[0])
                    serve(callers[-1])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(20)
            for caller in callers:
                caller.close()


def refused(call: Callable[[], object]) -> OhforgeError:
    """What `call` raises, long before the time that logging in may take at most."""
    began = time.monotonic()
    with pytest.raises(BoardOffline) as caught:
        call()
    assert time.monotonic() - began < CONNECT_SECONDS / 2
    return caught.value


def soon() -> Deadline:
    return Deadline.after(SHORT, "an answer")


def test_a_board_that_says_nothing_is_waited_for_until_the_deadline(session: Session) -> None:
    with listening() as port:
        board = SshBoard(session, f"ssh://127.0.0.1:{port}", lambda: load_profile("dayu200"))
        assert "no greeting of an sshd came" in refused(lambda: board.shell("true", deadline=soon())).message


def test_one_that_greets_and_then_says_nothing_too(session: Session) -> None:
    with listening(lambda caller: caller.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")) as port:
        board = SshBoard(session, f"ssh://127.0.0.1:{port}", lambda: load_profile("dayu200"))
        assert "does not go on with logging in" in refused(lambda: board.shell("true", deadline=soon())).message


def test_one_that_never_says_whether_a_key_lets_in_too(home: Path) -> None:
    release = threading.Event()

    class Undecided(paramiko.ServerInterface):
        def get_allowed_auths(self, username: str) -> str:
            return "publickey"

        def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
            release.wait(60)
            return paramiko.AUTH_FAILED  # type: ignore[attr-defined,no-any-return]

    def serve(caller: socket.socket) -> None:
        transport = paramiko.Transport(caller)
        transport.add_server_key(paramiko.ECDSAKey.generate())
        transport.start_server(threading.Event(), Undecided())

    paramiko.ECDSAKey.generate().write_private_key_file(str(home / ".ssh/id_ecdsa"))
    with listening(serve) as port:
        try:
            waiting = Deadline.after(2.0, "an answer")
            error = refused(lambda: SshLink.open(f"ssh://127.0.0.1:{port}", deadline=waiting, accept_new=True))
        finally:
            release.set()
    assert "does not go on with logging in" in error.message


@pytest.mark.parametrize("way", ["ProxyJump 127.0.0.1:{port}", "ProxyCommand sleep 60"])
def test_a_way_there_that_says_nothing_too(home: Path, way: str) -> None:
    with listening() as port:
        (home / ".ssh/config").write_text(f"Host board\n  {way.format(port=port)}\n")
        refused(lambda: SshLink.open("ssh://board", deadline=soon()))


def test_a_build_host_that_says_nothing_too(session: Session) -> None:
    with listening() as port:
        host = BuildHost(session, f"ssh://127.0.0.1:{port}")
        refused(lambda: host.stream("follow", on_output=lambda chunk: None, deadline=soon()))


def test_a_board_behind_a_host_that_says_nothing_is_given_up_in_time_with_the_reason(session: Session) -> None:
    with listening() as port:
        board = name_board(session, f"ssh://127.0.0.1:{port}/1234")
        error = refused(lambda: wait_for_board(session, board, Deadline.after(1.5, "the board")))
    assert "cannot be used after 1.5 s: it is gone" in error.message
    assert "no greeting of an sshd came" in error.message
