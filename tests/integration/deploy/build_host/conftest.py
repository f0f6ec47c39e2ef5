"""A build host: this computer behind a real sshd, with another home and the packages of this environment."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.build_host import helper
from tests.support.sshd import SSHD, LoopbackSshd, loopback_sshd


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the test knows of the host. `base` is where ohforge keeps everything there."""

    sshd: LoopbackSshd
    home: Path

    @property
    def base(self) -> Path:
        return self.home / ".cache/ohforge/build-host"

    @property
    def attempts(self) -> list[Path]:
        return sorted(path.parent for path in self.base.glob("jobs/*/*/request.json"))


@pytest.fixture(autouse=True)
def own_boards() -> None:
    """No emulated board is used here."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Iterator[Host]:
    if SSHD is None or shutil.which("make") is None:
        pytest.skip("sshd and make are not both installed (Debian packages openssh-server, make)")
    home = tmp_path_factory.mktemp("host")
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "ZIG_GLOBAL_CACHE_DIR": str(shared_cache / "zig"),
    }
    with loopback_sshd(tmp_path_factory.mktemp("sshd"), environment) as server:
        host = Host(sshd=server, home=home)
        yield host
        # Of tests that failed.
        for attempt in filter(helper.runs, host.attempts):
            os.killpg(int((attempt / "running").read_text()), signal.SIGTERM)


@pytest.fixture(autouse=True)
def here(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The caller's home, in which OpenSSH's configuration knows the host as ``arm-server``, by its key."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/config").write_text(
        f"Host arm-server\n  HostName 127.0.0.1\n  Port {host.sshd.port}\n  User {getpass.getuser()}\n"
        f"  IdentityFile {host.sshd.folder}/user\n"
    )
    (home / ".ssh/known_hosts").write_text(
        f"[127.0.0.1]:{host.sshd.port} {(host.sshd.folder / 'host.pub').read_text()}"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home
