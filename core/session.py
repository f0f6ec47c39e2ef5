"""The one object that every step takes: settings, console and runner of this call of ohforge."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.console import Console, Verbosity
from core.process import RealRunner, Runner
from core.settings import Settings

PROJECT = Path(__file__).resolve().parent.parent
"""The folder of ohforge itself: recipes, templates and profiles stand below it."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """State of one call. Steps are functions ``verb_noun(session, …)``."""

    settings: Settings = field(default_factory=Settings)
    console: Console = field(default_factory=Console)
    runner: Runner = field(default_factory=RealRunner)
    dry: bool = False
    """With ``--dry``, in a task that changes something: say what would be done, and change nothing."""

    def quietly(self) -> Session:
        """The same session, in which nothing is said but warnings, unless ``--verbose`` asks for all."""
        if self.console.verbosity is Verbosity.VERBOSE:
            return self
        return replace(self, console=Console(json_mode=self.console.json_mode, verbosity=Verbosity.QUIET))

    def on_stderr(self) -> Session:
        """The same session with what is said going to stderr, so that stdout can be read by another program."""
        return replace(self, console=Console(json_mode=True, verbosity=self.console.verbosity))

    def with_settings(self, **changes: Any) -> Session:
        """The same session with these settings changed."""
        return replace(self, settings=replace(self.settings, **changes))
