"""What can be asked of every run, whatever is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deploy.run.conditions import Conditions
from deploy.transfer.links import Links

if TYPE_CHECKING:
    from deploy.run.hilog import LogFilter


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a program is to be run. Empty text, 0 and None mean "not said"."""

    timeout: float = 0.0
    """Seconds for the program alone; 0: the setting ``ohforge.timeouts.run``."""
    environment: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    """Patterns of files in the run's folder that are fetched afterwards."""
    links: Links = Links.FOLLOW
    """What becomes of links among them."""
    conditions: Conditions = field(default_factory=Conditions)
    run_engine: str = ""
    """``agent``, ``shell`` or ``auto``; empty: the setting ``ohforge.run_engine``."""
    log: LogFilter | None = None
    """Which lines of the board's log the record shall have; None: all, and only when they are needed."""
