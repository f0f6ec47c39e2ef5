"""A host that has a board: this computer, by a real sshd, with another home and the stand-in for hdc on its PATH."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.emulator.stand_in.program import write_stand_in
from tests.support.emulated import Hdc, emulated_home
from tests.support.sshd import LoopbackSshd, loopback_sshd


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


@contextlib.contextmanager
def lab_host(folder: Path) -> Iterator[LabHost]:
    """The host, whose every file lies in `folder`."""
    home, leases, keys = folder / "home", folder / "leases", folder / "sshd"
    home.mkdir()
    keys.mkdir()
    with emulated_home(folder) as environment:
        given = environment | {
            "HOME": str(home),
            "PATH": f"{write_stand_in(folder / 'bin').parent}:{os.environ['PATH']}",
            "OHFORGE_LEASE_DIR": str(leases),
            "XDG_CACHE_HOME": "",
        }
        with loopback_sshd(keys, given) as sshd:
            yield LabHost(sshd=sshd, home=home, leases=leases, hdc=Hdc(environment=environment))


def know_host(home: Path, sshd: LoopbackSshd, *names: str) -> None:
    """Lets OpenSSH of the user with that home know a host by `names`, and by its key; beside those that it knows."""
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    with (home / ".ssh/config").open("a") as file:
        file.write(
            f"Host {' '.join(names)}\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {sshd.folder}/user\n"
        )
    with (home / ".ssh/known_hosts").open("a") as file:
        file.write(f"[127.0.0.1]:{sshd.port} {(sshd.folder / 'host.pub').read_text()}")
