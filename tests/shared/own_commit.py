"""Which ohforge a table was made with."""

from __future__ import annotations

import subprocess

from core.session import PROJECT


def own_commit() -> str:
    """The short name of the commit, with ``-dirty`` behind it when something is changed."""
    words = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
