"""The command line as a user has it: `invoke` in a process of its own, with ``--json``; or `ohforge` in this one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands.program import OhforgeProgram
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
        timeout=seconds,
        check=False,
    )
    assert done.stdout, done.stderr[-3000:]
    return Said(status=done.returncode, answer=json.loads(done.stdout), text=done.stderr)


def said_by(words: list[str]) -> tuple[int, str, str]:
    """Status, standard output and standard error of ``ohforge WORDS`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            OhforgeProgram().run(["ohforge", *words])
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()
