"""What the start files of the user's shell print before a command begins is no output of the command's.

sshd starts each command by the user's own shell, and a bash reads ``~/.bashrc`` then, which may greet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class AfterToken:
    """Hands on what follows the line of a token; when none has come, all of it in the end."""

    token: str
    """Empty: all is handed on."""
    hand_on: Callable[[bytes], object]
    greeting: bytes = b""
    """What came before."""
    begun: bool = field(init=False)

    def __post_init__(self) -> None:
        self.begun = not self.token

    def add(self, chunk: bytes) -> None:
        if self.begun:
            self.hand_on(chunk)
            return
        self.greeting, found, rest = (self.greeting + chunk).partition(f"{self.token}\n".encode())
        self.begun = bool(found)
        if rest:
            self.hand_on(rest)

    def finish(self) -> None:
        if not self.begun and self.greeting:
            self.hand_on(self.greeting)
