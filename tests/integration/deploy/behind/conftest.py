"""An emulated board behind a host: this computer, by a real sshd, with another home and the stand-in for hdc on its PATH."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.session import Session
from core.settings import BoardEntry
from deploy.emulator.stand_in.program import write_stand_in
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from tests.support.board_runs import SERIAL
from tests.support.emulated import Hdc, emulated_home
from tests.support.sshd import SSHD, LoopbackSshd, loopback_sshd


@dataclass(frozen=True, kw_only=True)
class LabHost:
    """What the "host" has: its sshd, the folders of its user, and hdc as one who sits there calls it."""

    sshd: LoopbackSshd
    home: Path
    leases: Path
    hdc: Hdc

    @property
    def stage(self) -> Path:
        """Where files for boards lie."""
        return self.home / ".cache/ohforge/stage/ohforge/store"

    def staged(self) -> dict[str, int]:
        """Names and sizes of what lies there, notes left out."""
        if not self.stage.is_dir():
            return {}
        return {file.name: file.stat().st_size for file in self.stage.iterdir() if file.suffix != ".ok"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHost]:
    if SSHD is None:
        pytest.skip("no sshd is installed (Debian package openssh-server)")
    folder = tmp_path_factory.mktemp("host")
    home, leases = folder / "home", folder / "leases"
    home.mkdir()
    with emulated_home(folder) as environment:
        bin_ = write_stand_in(folder / "bin").parent
        given = environment | {
            "HOME": str(home),
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "OHFORGE_LEASE_DIR": str(leases),
            "XDG_CACHE_HOME": "",
        }
        with loopback_sshd(tmp_path_factory.mktemp("sshd"), given) as sshd:
            yield LabHost(sshd=sshd, home=home, leases=leases, hdc=Hdc(environment=environment))


@pytest.fixture(autouse=True)
def laptop(host: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of this computer's user, whose OpenSSH knows the host as ``lab1``; no hdc is installed here."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/config").write_text(
        f"Host lab1\n  HostName 127.0.0.1\n  Port {host.sshd.port}\n  User {getpass.getuser()}\n"
        f"  IdentityFile {host.sshd.folder}/user\n"
    )
    (home / ".ssh/known_hosts").write_text(
        f"[127.0.0.1]:{host.sshd.port} {(host.sshd.folder / 'host.pub').read_text()}"
    )
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
