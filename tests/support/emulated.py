"""Emulated boards for tests, which are ended with the tests that used them."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.emulator.board.boards import list_emulated, stop_board

ROOT = Path(__file__).parents[2]
STAND_IN = (sys.executable, "-m", "deploy.emulator.stand_in.cli")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one call of hdc printed, and how it ended."""

    stdout: bytes
    stderr: bytes
    status: int


@dataclass(frozen=True, kw_only=True)
class Hdc:
    """An hdc that can be called: the stand-in, or a real one."""

    argv: tuple[str, ...] = STAND_IN
    environment: dict[str, str] = field(default_factory=dict)
    key: str = "emulated-dayu200"
    real: bool = False

    def __call__(self, *words: str | bytes, seconds: float = 60.0, cwd: Path | None = None) -> Answer:
        """Calls hdc with exactly these words."""
        done = subprocess.run(
            [*self.argv, *words],
            env=self._environment,
            cwd=cwd or ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        return Answer(stdout=done.stdout, stderr=done.stderr, status=done.returncode)

    def board(self, *words: str | bytes, seconds: float = 60.0, cwd: Path | None = None) -> bytes:
        """What hdc prints when it is called for the board; the status must be 0, as it always is."""
        answer = self("-t", self.key, *words, seconds=seconds, cwd=cwd)
        assert answer.status == 0, answer
        assert answer.stderr == b"", answer
        return answer.stdout

    def text(self, *words: str) -> str:
        """What hdc prints when it is called for the board, as text."""
        return self.board(*words, seconds=120).decode()

    def shell(self, script: str, seconds: float = 60.0) -> bytes:
        """The output of a script on the board, passed in the one form that keeps it whole."""
        return self.board("shell", f"{script} ", seconds=seconds)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Starts hdc for the board and does not wait for it."""
        return subprocess.Popen(
            [*self.argv, "-t", self.key, *words],
            env=self._environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def _environment(self) -> dict[str, str]:
        # A call may be made from another folder, and must find the project's modules then.
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        return {**os.environ, "PYTHONPATH": path, **self.environment}


@contextmanager
def emulated_home(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a home for emulated boards with a server of its own; ends all boards afterwards."""
    home, temporary = folder / "boards", folder / "tmp"
    home.mkdir(parents=True, exist_ok=True)
    temporary.mkdir(exist_ok=True)
    environment = {
        "OHFORGE_EMULATOR_HOME": str(home),
        "TMPDIR": str(temporary),
        "OHOS_HDC_SERVER_PORT": str(free_port()),
    }
    try:
        yield environment
    finally:
        Hdc(environment=environment)("kill")
        for board in list_emulated(home):
            stop_board(board)


def free_port() -> int:
    """A TCP port of this computer that nobody uses now, and that the kernel gives nobody who asks for any."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, first) if first > 11_000 else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
