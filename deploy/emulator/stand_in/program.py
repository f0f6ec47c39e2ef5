"""The stand-in as a program called hdc, for everything that looks for one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from core.files import write_atomic
from deploy.emulator import CODE
from deploy.emulator.board.boards import HOME, boards_home


def write_stand_in(folder: Path) -> Path:
    """Writes the stand-in as a program called hdc into `folder`, which is made; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "hdc"
    path = f"PYTHONPATH={shlex.quote(str(CODE))}${{PYTHONPATH:+:$PYTHONPATH}}"
    home = f'{HOME}="${{{HOME}:-"{boards_home()}"}}"'
    call = f'exec {shlex.quote(sys.executable)} -m deploy.emulator.stand_in.cli "$@"'
    write_atomic(program, f"#!/bin/sh\nexport {path} {home}\n{call}\n", mode=0o755)
    return program
