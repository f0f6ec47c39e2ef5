"""How hdc is called."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import HdcNotFound, HostToolMissing
from core.last_will import done_if_killed
from core.process import OnOutput, Result
from core.session import Session
from deploy.hdc.paths import harmless_path
from deploy.hdc.windows import WindowsBridge

if TYPE_CHECKING:
    from deploy.hdc.host import HdcHost


@dataclass(frozen=True, kw_only=True)
class Hdc:
    """How hdc is called: the real program, here or on a host, or the stand-in of the emulated boards."""

    argv: tuple[str, ...]
    title: str
    environment: Mapping[str, str] = field(default_factory=dict)
    emulated: bool = False
    host: HdcHost | None = None
    """The computer on which it runs; None: this one."""
    renew: Callable[[Session], Hdc] | None = None
    """Ends the server and returns an hdc with a new one; None when the server is not ours to end."""
    connected: Callable[[bool], None] | None = None
    """Notes whether this server of ours has its board; None when it is not ours."""
    bridge: WindowsBridge | None = None
    """For a Windows program that is called from WSL."""

    @property
    def typed(self) -> str:
        """What a user types for hdc where he sits."""
        return "hdc" if self.host is None else shlex.join(["ssh", self.host.serial, *self.argv])

    def serial_of(self, key: str) -> str:
        """The serial of the board that this hdc calls `key`."""
        return key if self.host is None else f"{self.host.serial}/{key}"

    def call(
        self, session: Session, words: tuple[str, ...], *, deadline: Deadline, on_stdout: OnOutput | None = None
    ) -> Result:
        """Runs one hdc command. Its exit status means nothing.

        Raises HdcNotFound when there is no such program, LostConnection when the link to its host ends.
        """
        if self.host is not None:
            return self.host.call((*self.argv, *words), deadline=deadline, on_stdout=on_stdout)
        environment = dict(self.environment)
        runner = self.bridge or session.runner
        try:
            return runner.run([*self.argv, *words], deadline=deadline, env=environment, on_stdout=on_stdout)
        except HostToolMissing as error:
            raise HdcNotFound(f"hdc cannot be started: {error.message}") from error

    def called_if_killed(self, words: tuple[str, ...]) -> contextlib.AbstractContextManager[None]:
        """Lets an hdc command be run when this process dies, or its link to the host does, before the block ends."""
        if self.host is not None:
            return self.host.called_if_lost((*self.argv, *words))
        return done_if_killed((*self.argv, *words), self.environment)

    def source(self, local: Path, deadline: Deadline) -> contextlib.AbstractContextManager[str | Path]:
        """A path, where hdc runs, of the content of `local`, which hdc takes unharmed."""
        return self.host.source(local, deadline) if self.host is not None else harmless_path(local)

    def target(self, local: Path, deadline: Deadline) -> contextlib.AbstractContextManager[str | Path]:
        """A path, where hdc runs, that it takes unharmed; what it writes there ends up as `local`."""
        return self.host.target(local, deadline) if self.host is not None else harmless_path(local)

    def size_of(self, target: str, deadline: Deadline) -> int | None:
        """Bytes of a file of `target`; None when there is none."""
        if self.host is not None:
            return self.host.size_of(target, deadline)
        return Path(target).stat().st_size if Path(target).is_file() else None
