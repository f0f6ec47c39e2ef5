"""The one object that every step takes: settings, console and runner of this call of ohforge."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from core.console import Console
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
    """With ``--dry``: say what would be done, and change nothing."""
