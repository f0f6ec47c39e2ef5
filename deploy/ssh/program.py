"""A link that a program of the user's is (ProxyCommand): it carries the bytes by its standard input and output."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from typing import IO

LAST_BYTES = 2000
"""Of what the program said on standard error; what says why it ended comes last."""
ENDING_SECONDS = 2.0


class ProgramLink(socket.socket):
    """This side of it. When the program ends, so does what comes by the link, as with any other socket."""

    process: subprocess.Popen[bytes]
    said: IO[bytes]

    @classmethod
    def start(cls, command: str) -> ProgramLink:
        """Starts a command line of the shell, as OpenSSH does: with ``exec``, so that the shell is gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            link = cls(fileno=ours.detach())
            link.said = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it; a pipe would fill up
            link.process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=link.said,
                start_new_session=True,
            )
        return link

    def end(self) -> str:
        """Ends the program and whatever it has started; the last line that it said, empty when it said nothing."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(ENDING_SECONDS)
                break
        self.close()
        with self.said as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_BYTES))
            lines = said.read().decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
