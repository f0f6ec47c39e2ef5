"""An SSH board: this computer, behind a real sshd."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.patience import Patience
from core.session import Session
from core.settings import BoardEntry
from deploy.hdc.choose import choose_board
from deploy.ssh.board import SshBoard
from deploy.transfer import chunks
from tests.shared.faulty_link import FaultyLink, faulty_link
from tests.support.lab_host import know_host
from tests.support.sshd import SSHD, LoopbackSshd, loopback_sshd

SIZE = 24_000_000
IN_FLIGHT = 12_000_000
"""At most so much is on its way when a link is cut: SSH's window of 2 MB, and what the system keeps for sockets."""


@pytest.fixture(autouse=True)
def own_boards() -> None:
    """No emulated board is used here."""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackSshd]:
    if SSHD is None:
        pytest.skip("no sshd is installed (Debian package openssh-server)")
    with loopback_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(autouse=True)
def home(sshd: LoopbackSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which OpenSSH's configuration knows the board as ``lab``, by its key."""
    home = tmp_path / "home"
    know_host(home, sshd, "lab", "gate")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def session(session: Session, tmp_path: Path) -> Session:
    """One whose settings name the board, and a folder there that is the test's own."""
    entry = BoardEntry(serial="lab", transport="ssh", device_dir=str(tmp_path / "device"))
    (tmp_path / "device").mkdir()
    return session.with_settings(boards={"bench": entry})


@pytest.fixture
def board(session: Session, home: Path) -> Iterator[SshBoard]:
    board = choose_board(session, "bench")
    assert isinstance(board, SshBoard)
    yield board
    board.close()


@pytest.fixture
def link(sshd: LoopbackSshd, home: Path) -> Iterator[FaultyLink]:
    """The link by which ``lab`` is reached."""
    with faulty_link(sshd.port) as link:
        for file in ("config", "known_hosts"):
            path = home / ".ssh" / file
            path.write_text(path.read_text().replace(str(sshd.port), str(link.port)))
        yield link


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a megabyte and more are large."""
    monkeypatch.setattr(chunks, "CHUNKED_FROM", 1_000_000)
    monkeypatch.setattr("deploy.ssh.link.MANY", 1_000_000)
    monkeypatch.setattr("deploy.ssh.board.ATTEMPTS", Patience(pause=0.1, growth=2, times=2))


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    content = os.urandom(SIZE)
    (tmp_path / "model").write_bytes(content)
    return content


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in which each command line of ``ssh`` becomes a line, before the real one is started."""
    real, notes = shutil.which("ssh"), tmp_path / "calls"
    assert real is not None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(f'#!/bin/sh\necho $(echo "$*") >>{notes}\nexec {real} "$@"\n')
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    notes.touch()
    return notes


@pytest.fixture
def greeted(sshd: LoopbackSshd, tmp_path: Path) -> Iterator[None]:
    """Every command begins with a greeting on both outputs, as where the start file of the user's shell prints one."""
    start = tmp_path / "start.sh"
    start.write_text('echo Welcome to the lab\necho a note >&2\nexec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n')
    configuration = sshd.folder / "sshd_config"
    usual = configuration.read_text()
    configuration.write_text(f"{usual}ForceCommand /bin/sh {start}\n")
    yield
    configuration.write_text(usual)
