"""A port of the board at a port of this computer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from deploy.ssh.board import SshBoard
from deploy.ssh.forward import forward_ssh_port
from tests.support.board_runs import soon
from tests.support.sshd import LoopbackSshd
from tests.support.waiting import wait_until

SECONDS = 60.0


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a service that sends back what it gets, when it has got it all."""

    def serve(link: socket.socket) -> None:
        with link:
            got = bytearray()
            while chunk := link.recv(65_536):
                got += chunk
            link.sendall(got)

    def accept() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            link.settimeout(SECONDS)
            threading.Thread(target=serve, args=(link,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def ask(port: int, content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as link:
        link.sendall(content)
        link.shutdown(socket.SHUT_WR)
        got = bytearray()
        while chunk := link.recv(65_536):
            got += chunk
        return bytes(got)


def test_what_is_sent_goes_there_and_the_answer_comes_back_to_its_end(board: SshBoard, echo: int) -> None:
    content = bytes(range(256)) * 8_000
    with forward_ssh_port(board.connect(soon()), echo) as forward:
        assert [ask(forward.local, content[:size]) for size in (0, 5)] == [b"", content[:5]]
        assert ask(forward.local, content) == content
    with pytest.raises(ConnectionRefusedError):
        ask(forward.local, b"")


def test_a_port_where_nobody_listens_closes_at_once(board: SshBoard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = int(listener.getsockname()[1])
    with forward_ssh_port(board.connect(soon()), closed) as forward, contextlib.suppress(ConnectionError):
        assert ask(forward.local, b"x") == b""


def test_a_forward_ends_with_the_link(board: SshBoard, sshd: LoopbackSshd, echo: int) -> None:
    with (
        forward_ssh_port(board.connect(soon()), echo) as forward,
        socket.create_connection(("127.0.0.1", forward.local), timeout=SECONDS) as link,
    ):
        link.sendall(b"x")
        assert forward.is_open()
        sshd.cut()
        wait_until("the end of the forward", lambda: not forward.is_open())
        with contextlib.suppress(ConnectionError):
            assert link.recv(1) == b""
