"""What a user types who does as an error says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

from core.session import PROJECT


def type_commands(remedy: str) -> None:
    """Runs the commands that a remedy shows, which must end well; what is to be typed on the other computer is left out."""
    commands = [shlex.split(shown) for shown in re.findall(r"`([^`]+)`", remedy) if shown != "ssh-keygen -lf"]
    assert commands
    for program, *words in commands:
        called = [sys.executable, "-m", "invoke"] if program == "ohforge" else [program]
        subprocess.run([*called, *words], cwd=PROJECT, capture_output=True, check=True, timeout=120)
