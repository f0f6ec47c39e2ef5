"""The command line as a user has it: `invoke` in a process of its own, with ``--json``; or `ohforge` in this one."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from commands.program import OhforgeProgram
from tests.shared.command_line import Said, invoke

__all__ = ["Said", "invoke", "said_by"]


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
