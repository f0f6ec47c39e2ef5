"""An emulated board behind a host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.session import Session
from core.settings import BoardEntry
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from tests.support.board_runs import SERIAL
from tests.support.lab_host import LabHost, know_host, lab_host
from tests.support.sshd import SSHD


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHost]:
    if SSHD is None:
        pytest.skip("no sshd is installed (Debian package openssh-server)")
    with lab_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture(autouse=True)
def laptop(host: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this computer's user, whose OpenSSH knows the host as ``lab1``; no hdc is installed here."""
    home = tmp_path / "home"
    know_host(home, host.sshd, "lab1")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OHFORGE_HDC", "/nowhere/hdc")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def session(session: Session) -> Session:
    entry = BoardEntry(via="ssh://lab1", key=SERIAL, profile="dayu200")
    return session.with_settings(boards={"bench": entry})


@pytest.fixture
def board(session: Session) -> Iterator[HdcBoard]:
    board = choose_board(session, "bench")
    assert isinstance(board, HdcBoard) and board.host is not None
    yield board
    board.host.close()
