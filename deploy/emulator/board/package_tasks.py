"""What hdcd does for ``install`` and ``uninstall``: it hands everything to the bundle manager, which no emulated board has."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from pathlib import Path

from deploy.emulator.board.session import Session
from deploy.emulator.protocol.file_arguments import TaskFailed, split_arguments
from deploy.emulator.protocol.file_transfer import Incoming
from deploy.emulator.protocol.wire import BEGIN_FEATURES, Command, number, pack, text, unpack

STAGING = "/data/local/tmp/"
INSTALLED, UNINSTALLED = 1, 2
_INJECTION = re.compile(r"[^\w .,:/@=-]")
"""What no option and no package needs, and a shell would take for more than a word."""


class _PackageTask:
    def __init__(self, session: Session, channel: int) -> None:
        self._session = session
        self._channel = channel
        self._said = ""

    def start(self) -> None:
        """The host speaks first."""

    def stop(self) -> None:
        """What the bundle manager has begun it ends."""

    def _ask_manager(self, kind: int, words: str) -> None:
        """Runs ``bm WORDS`` and tells the host what it said, behind all that it has said on this channel before."""
        done, said = False, "Incorrect package name or option"
        if not _INJECTION.search(words):
            started = self._session.board.run_shell(f"bm {words}".encode())
            with os.fdopen(started.output, "rb") as output:
                said = os.fsdecode(output.read()).replace("\n", " ")
            done = started.process.wait() == 0
        self._said += said
        with contextlib.suppress(OSError):  # The host may have gone.
            self._session.send(self._channel, Command.APP_FINISH, bytes([kind, done]), os.fsencode(self._said))


class InstallTask(_PackageTask):
    """The board's end of ``install``: packages one after another, each of which is stored, installed and removed."""

    def __init__(self, session: Session, channel: int) -> None:
        super().__init__(session, channel)
        self._incoming = Incoming(to_host=session.board.to_host, release=session.board.release)
        self._options = ""

    def handle(self, command: int, data: bytes) -> None:
        try:
            if command == Command.APP_CHECK:
                self._open(unpack(data))
                self._session.send(self._channel, Command.APP_BEGIN, BEGIN_FEATURES)
            elif command == Command.APP_DATA and self._incoming.take(data):
                threading.Thread(target=self._install, args=(self._incoming.path,), daemon=True).start()
        except TaskFailed as failed:
            self._session.end(self._channel, fail=str(failed))

    def stop(self) -> None:
        self._incoming.close()

    def _open(self, check: dict[int, int | bytes]) -> None:
        name = os.fsencode(Path(os.fsdecode(text(check, 6))).name)
        self._options = os.fsdecode(text(check, 4))
        self._incoming.open(pack(number(check, 1), 0, 0, b"", STAGING.encode() + name, name))

    def _install(self, path: str) -> None:
        named = "" if {"-p", "-s"} & set(self._options.split()) else "-p "
        self._ask_manager(INSTALLED, f"install {self._options} {named}{path}")
        self._session.board.to_host(path).unlink(missing_ok=True)


class UninstallTask(_PackageTask):
    """The board's end of ``uninstall``, which it leads once it has been asked."""

    def handle(self, command: int, data: bytes) -> None:
        words = [os.fsdecode(word) for word in split_arguments(data.rstrip(b"\0"))]
        options = [word for word in words if word.startswith("-")]
        packages = [word for word in words if not word.startswith("-")]
        self._session.send(self._channel, Command.WAKEUP, b"")
        words = [*options, *([] if "-n" in options else ["-n"]), *packages]
        threading.Thread(
            target=self._ask_manager, args=(UNINSTALLED, f"uninstall {' '.join(words)}"), daemon=True
        ).start()
