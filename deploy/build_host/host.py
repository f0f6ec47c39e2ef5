"""A build host: calls of its helper by a connection that is made anew when it broke."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from core.deadline import Deadline
from core.errors import BoardOffline, HostToolMissing, LostConnection, OhforgeError, TransferError, all_errors
from core.patience import Patience
from core.session import Session
from deploy.build_host import helper
from deploy.ssh.link import SshLink

T = TypeVar("T")
ATTEMPTS = Patience(pause=0.5, growth=2, times=6)
"""At reaching the host again after the link was lost: half a minute in all."""
COME_BACK = (
    "Run the same command when the host answers (`ssh -v` shows whether it does): what is there is not sent again, and a build "
    "follows what runs there, or goes on with what was compiled."
)
HELPER = Path(helper.__file__).read_text
PYTHONS = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
OLDEST = (3, 11)
NO_PYTHON = b"ohforge-no-python"
FIND_PYTHON = f"""\
for p in {" ".join(PYTHONS)}; do
  "$p" -c 'import sys; sys.exit(sys.version_info < {OLDEST})' 2>/dev/null && exec "$p" -c "$0" "$@"
done
echo {NO_PYTHON.decode()}"""


class BuildHost:
    """A computer behind an sshd that builds for this one. `serial` is its ``ssh://`` address."""

    def __init__(self, session: Session, serial: str) -> None:
        self._session = session
        self._opened: SshLink | None = None
        self.serial = serial

    def persist(self, do: Callable[[], T]) -> T:
        """Does something again that the loss of the link has ended; a host that was never reached is not waited for."""
        for pause in (*ATTEMPTS.pauses(), None):
            try:
                return do()
            except (LostConnection, BoardOffline) as lost:
                if pause is None or self._opened is None:
                    raise
                self._session.console.detail(f"{lost.message} Trying again.")
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def ask(self, command: str, *words: str, given: object = None) -> Mapping[str, Any]:
        """What the helper answers; `given` goes to it as JSON. Raises what it says that went wrong, LostConnection."""
        return self.send(command, *words, feed=[json.dumps(given).encode()])

    def send(self, command: str, *words: str, feed: Iterable[bytes | memoryview], size: int = 0) -> Mapping[str, Any]:
        """As `ask`, with bytes for the helper, of which there are about `size`."""
        said = bytearray()
        status = self._call((command, *words), said.extend, feed=feed, size=size)
        if NO_PYTHON in said:
            raise HostToolMissing(
                f"The build host {self.serial} has no Python {'.'.join(map(str, OLDEST))} or newer on its PATH.",
                remedy="Install it there: `sudo apt-get install python3 python3-venv`.",
            )
        for line in bytes(said).splitlines():
            if line.startswith(helper.ANSWER):
                answer = dict(json.loads(line.removeprefix(helper.ANSWER)))
                if "error" in answer:
                    raise make_error(answer["error"], self.serial)
                return answer
        text = bytes(said).decode("utf-8", "replace").strip()
        if status is None:
            raise LostConnection(
                f"The link to the build host {self.serial} ended before it answered.", remedy=COME_BACK
            )
        raise TransferError(f"The build host {self.serial} did not understand: {text[-500:] or f'status {status}'}.")

    def stream(
        self,
        command: str,
        *words: str,
        on_output: Callable[[bytes], object],
        deadline: Deadline | None = None,
        given: object = None,
    ) -> bool:
        """Hands on the bytes of an answer that is no JSON; False when the link ended before the answer did."""
        begun, waiting = False, b""

        def hand_on(chunk: bytes) -> None:
            nonlocal begun, waiting
            if begun:
                on_output(chunk)
                return
            waiting += chunk
            _, found, rest = waiting.partition(helper.BEGIN)
            if found:
                begun = True
                if rest:
                    on_output(rest)

        feed = () if given is None else (json.dumps(given).encode(),)
        status = self._call((command, *words), hand_on, feed=feed, deadline=deadline)
        if status is not None and (status != 0 or not begun):
            text = waiting.decode("utf-8", "replace").strip()
            raise TransferError(f"The build host {self.serial} ended with status {status}: {text[-500:]}")
        return status is not None

    def close(self) -> None:
        """Ends the connection."""
        if self._opened is not None:
            self._opened.close()

    def _call(
        self,
        words: Iterable[str],
        on_output: Callable[[bytes], object],
        *,
        feed: Iterable[bytes | memoryview] = (),
        size: int = 0,
        deadline: Deadline | None = None,
    ) -> int | None:
        seconds = self._session.settings.timeouts.transfer
        deadline = deadline or Deadline.after(seconds, f"an answer of the build host {self.serial}")
        if self._opened is None or not self._opened.is_open:
            self._opened = SshLink.open(self.serial, deadline=deadline)
        # The helper is an argument, so that its input is free for what is sent.
        command = shlex.join(["/bin/sh", "-c", FIND_PYTHON, HELPER(encoding="utf-8"), *words])
        return self._opened.run_with_feed(f"exec {command}", feed, size=size, deadline=deadline, on_output=on_output)


def make_error(error: Mapping[str, Any], serial: str) -> OhforgeError:
    """An error of the build host as one of ours, of the same class; where it happened stands after what."""
    kind = next((kind for kind in all_errors() if kind.code == error["code"]), OhforgeError)
    message = f"{error['message']}\n(on the build host {serial})"
    return kind(message, remedy=str(error["remedy"]), **dict(error.get("details", {})))
