"""A board that is a folder of this computer: scripts run in its real shell, files are copied. Faults can be put in."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from core.deadline import Deadline
from core.errors import RemoteFolderMissing
from core.process import OnOutput
from deploy.board.protocol import Profile, ShellResult
from deploy.hdc.paths import check_local_file, check_remote_path

Before = Callable[[str], None]
SHELL = shutil.which("mksh") or "/bin/sh"


class LocalBoard:
    """Implements `deploy.board.protocol.Board`. `calls` names what was asked, in order.

    `on_shell` and `on_send` may raise, or change what is there, before (shell) or after (send) the thing is done;
    `replies` are texts in the output of a script that are replaced, such as the free space that ``df`` reports;
    `environment` is added to that of the shell.
    """

    serial = "local-board"
    emulated = False
    lender = None
    host = None

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.calls: list[str] = []
        self.on_shell: Before = lambda script: None
        self.on_send: Before = lambda remote: None
        self.on_receive: Callable[[Path], None] = lambda local: None
        self.replies: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.profile = replace(LOCAL_PROFILE, device_dir=str(folder))

    @property
    def store(self) -> Path:
        return self.folder / "ohforge" / "store"

    def stored(self) -> list[str]:
        """Names in the store without the notes."""
        return sorted(path.name for path in self.store.glob("*") if not path.name.endswith(".ok"))

    def shell(
        self,
        script: str,
        *,
        deadline: Deadline,
        folder: str = "",
        on_output: OnOutput | None = None,
        says_start: bool = False,
    ) -> ShellResult:
        self.calls.append("shell")
        self.on_shell(script)
        started = time.monotonic()
        stream = on_output if not self.replies else None
        returncode, output = _run(script, folder or "/", deadline, stream, {**os.environ, **self.environment})
        for pattern, text in self.replies.items():
            output = re.sub(pattern.encode(), text.encode(), output, flags=re.MULTILINE)
        if on_output is not None and stream is None and output:
            on_output(output)
        status = returncode if returncode >= 0 else 128 - returncode
        return ShellResult(exit_code=status, output=output, seconds=time.monotonic() - started)

    def send(self, local: Path, remote: str, *, deadline: Deadline) -> None:
        self.calls.append("send")
        check_local_file(local)
        check_remote_path(remote)
        if not Path(remote).parent.is_dir():
            raise RemoteFolderMissing(f"{remote}: no such file or directory")
        shutil.copyfile(local, remote)
        self.on_send(remote)

    def receive(self, remote: str, local: Path, *, deadline: Deadline) -> None:
        self.calls.append("receive")
        check_remote_path(remote)
        shutil.copyfile(remote, local)
        self.on_receive(local)


def _run(
    script: str, folder: str, deadline: Deadline, on_output: OnOutput | None, environment: dict[str, str]
) -> tuple[int, bytes]:
    """Status and output, which is handed on as it comes. The process is killed on the deadline."""
    kept = bytearray()
    with subprocess.Popen(
        [SHELL, "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        try:
            while True:
                if deadline.expired:
                    raise deadline.error()
                if not select.select([process.stdout], [], [], min(0.1, deadline.remaining))[0]:
                    continue
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    break
                kept += chunk
                if on_output is not None:
                    on_output(chunk)
        except BaseException:
            process.kill()
            raise
    return process.returncode, bytes(kept)


LOCAL_PROFILE = Profile(
    name="generic",
    title="a folder of this computer",
    soc="",
    cpu="generic",
    cores=1,
    memory_bytes=1_000_000_000,
    arches=("arm64", "arm32"),
    static_only=(),
)
