"""deploy.ssh.board: how often a computer that is gone is asked."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import BoardOffline
from core.patience import Patience
from core.session import Session
from deploy.board.profiles import load_profile
from deploy.ssh import board as boards
from deploy.ssh.board import SshBoard


@contextlib.contextmanager
def hanging_up() -> Iterator[tuple[int, list[int]]]:
    """A port whose every caller is hung up on, and a list with an entry for each of them."""
    calls: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller, (_, port) = server.accept()
                    calls.append(port)
                    caller.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], calls
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(20)


def test_a_computer_that_did_not_answer_is_asked_once_by_each_further_step_and_not_patiently(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(boards, "ATTEMPTS", Patience(pause=0.0, times=3))
    with hanging_up() as (port, calls):
        board = SshBoard(session, f"ssh://nobody@127.0.0.1:{port}", lambda: load_profile("dayu200"))

        def ask() -> int:
            before = len(calls)
            with pytest.raises(BoardOffline):
                board.shell("true", deadline=Deadline.after(60, "nothing"))
            return len(calls) - before

        assert [ask(), ask(), ask()] == [4, 1, 1]
        monkeypatch.setattr(boards, "GONE_SECONDS", 0.0)
        assert ask() == 4
