"""A real sshd for the tests, with keys of its own, on loopback; its links can be cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
CONFIGURATION = """\
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
AllowTcpForwarding yes
"""


@dataclass(kw_only=True)
class LoopbackSshd:
    """An sshd that is started for each connection, so that no port has to be free beforehand."""

    folder: Path
    listener: socket.socket
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    refuses: bool = False

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def words(self) -> list[str]:
        """The command line of an sshd whose link is its standard input and output."""
        assert SSHD is not None
        return [SSHD, "-i", "-E", str(self.folder / "sshd.log"), "-f", str(self.folder / "sshd_config")]

    def serve(self) -> None:
        """Starts an sshd for each connection until the listener is closed."""
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            with link:
                if not self.refuses:
                    self.running.append(
                        subprocess.Popen(self.words, stdin=link, stdout=link, stderr=subprocess.DEVNULL)
                    )

    def cut(self) -> None:
        """Ends all links at once, as a power failure on the way does."""
        for process in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=30)

    def freeze(self) -> Callable[[], None]:
        """Stops all that serves the links, which stay open: nothing comes by them. What it returns lets that go on."""
        processes = [number for process in self.running for number in _with_children(process.pid)]
        for number in processes:
            os.kill(number, signal.SIGSTOP)

        def go_on() -> None:
            for number in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGCONT)

        return go_on


def _with_children(number: int) -> list[int]:
    """A process and all that it has started which still runs, shells and their programs left out."""
    try:
        name = Path(f"/proc/{number}/comm").read_text()
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    except OSError:
        return []
    return [number, *(each for child in children for each in _with_children(int(child)))] if "sshd" in name else []


def make_key(path: Path) -> None:
    """A key pair without a passphrase at `path` and ``path.pub``."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=60)


@contextlib.contextmanager
def loopback_sshd(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[LoopbackSshd]:
    """An sshd whose keys lie in `folder`: ``host`` is its own, ``user`` lets this user in; commands get `environment`."""
    for name in ("host", "user"):
        make_key(folder / name)
    given = " ".join(f'"{name}={value}"' for name, value in (environment or {}).items())
    (folder / "sshd_config").write_text(CONFIGURATION.format(folder=folder) + (f"SetEnv {given}\n" if given else ""))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = LoopbackSshd(folder=folder, listener=listener)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=30)
            server.cut()
