"""How hdc is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from core.deadline import Deadline
from core.errors import HdcNotFound, HostToolMissing
from core.process import OnOutput, Result
from core.session import Session
from deploy.hdc.windows import WindowsBridge


@dataclass(frozen=True, kw_only=True)
class Hdc:
    """How hdc is called: the real program, or the stand-in of the emulated boards."""

    argv: tuple[str, ...]
    title: str
    environment: Mapping[str, str] = field(default_factory=dict)
    emulated: bool = False
    renew: Callable[[Session], Hdc] | None = None
    """Ends the server and returns an hdc with a new one; None when the server is not ours to end."""
    connected: Callable[[bool], None] | None = None
    """Notes whether this server of ours has its board; None when it is not ours."""
    bridge: WindowsBridge | None = None
    """For a Windows program that is called from WSL."""

    def call(
        self, session: Session, words: tuple[str, ...], *, deadline: Deadline, on_stdout: OnOutput | None = None
    ) -> Result:
        """Runs one hdc command. Its exit status means nothing. Raises HdcNotFound when there is no such program."""
        environment = dict(self.environment)
        runner = self.bridge or session.runner
        try:
            return runner.run([*self.argv, *words], deadline=deadline, env=environment, on_stdout=on_stdout)
        except HostToolMissing as error:
            raise HdcNotFound(f"hdc cannot be started: {error.message}") from error
