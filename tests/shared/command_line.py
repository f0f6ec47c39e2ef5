"""The command line as a user has it: `invoke` in a process of its own, with ``--json``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.session import PROJECT


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a call printed, and how it ended."""

    status: int
    answer: dict[str, Any]
    text: str
    """What is for people: standard error."""


def invoke(*words: str | Path, seconds: float = 600.0, **environment: str) -> Said:
    """Runs ``invoke WORDS --json`` in this process's environment and `environment`."""
    task, *rest = map(str, words)
    options, program = (rest[: rest.index("--")], rest[rest.index("--") :]) if "--" in rest else (rest, [])
    done = subprocess.run(
        [sys.executable, "-m", "invoke", task, *options, "--json", *program],
        cwd=PROJECT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )
    assert done.stdout, done.stderr[-3000:]
    return Said(status=done.returncode, answer=json.loads(done.stdout), text=done.stderr)
