"""What is still done when this process dies without a chance to tidy up, as by SIGKILL."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from core.interrupts import interrupts_held

SHELL = "/bin/sh"
UNLESS_TOLD = 'read -r _ || exec "$@"'
"""A line comes when all is in order; the end of the pipe when nobody is left who could write one."""


@contextlib.contextmanager
def done_if_killed(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Iterator[None]:
    """Lets `argv` be run as soon as this process is dead, unless it has left the block by then.

    `env` is added to this process's environment. Nothing else holds the pipe open by which death is told: no program
    that this process starts inherits it.
    """
    with interrupts_held():
        witness = subprocess.Popen(
            [SHELL, "-c", UNLESS_TOLD, SHELL, *argv],
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield
    finally:
        with interrupts_held(), contextlib.suppress(BrokenPipeError):
            witness.communicate(b"\n")
