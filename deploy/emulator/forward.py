"""Forwarded ports."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Any


def end_forward(forward: dict[str, Any]) -> None:
    """Ends the process that serves a forwarded port."""
    with contextlib.suppress(ProcessLookupError, KeyError):
        os.kill(int(forward["pid"]), signal.SIGTERM)
