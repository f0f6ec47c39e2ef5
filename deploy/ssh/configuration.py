"""What the user's OpenSSH configuration says of a computer, with the files that it includes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError

WORD = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*)")
EVERYBODY = "Host *"
HERE = "ohforgereachesthis"
"""A word that OpenSSH does not have: where a computer's settings have it, the block in which it stands is its own."""
DEEPEST = 16
"""Of files that include files; OpenSSH has the same limit."""


def look_up(file: Path, name: str) -> Mapping[str, Any]:
    """The settings of the computer called `name`, by their names in small letters; none when there is no such file.

    Raises ConfigurationError when it cannot be read or understood.
    """
    import paramiko

    if not file.exists():
        return {}
    try:
        return paramiko.SSHConfig.from_text("\n".join(_Lines(name).read(file, []))).lookup(name)
    except (paramiko.ConfigParseError, paramiko.CouldNotCanonicalize, ImportError, ValueError, KeyError) as error:
        remedy = "Correct it, or write the address out: ssh://USER@HOST:22."
        raise ConfigurationError(f"{file} is not understood: {error}.", remedy=remedy) from None


class _Lines:
    """The lines that count for a computer; paramiko does not know ``Include``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, file: Path, before: list[str], depth: int = 0) -> list[str]:
        """All lines up to the end of `file`, whose own follow those `before`."""
        if depth > DEEPEST:
            raise ConfigurationError(f"{file} is included by itself.", remedy="Take the Include out of it.")
        try:
            text = file.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            remedy = "Check what it is, and its mode bits."
            raise ConfigurationError(f"{file} cannot be read: {error.strerror}.", remedy=remedy) from None
        lines, block = list(before), EVERYBODY
        for line in text.splitlines():
            found = WORD.fullmatch(line)
            word = found[1].lower() if found is not None else ""
            if found is not None and word == "include":
                if self._counts(lines):
                    for included in _files(found[2]):
                        lines = [*self.read(included, lines, depth + 1), block]
                continue
            if word in ("host", "match"):
                block = line
            lines.append(line)
        return lines

    def _counts(self, lines: list[str]) -> bool:
        """Whether what follows these lines is said of the computer."""
        import paramiko

        return HERE in paramiko.SSHConfig.from_text("\n".join([*lines, f"{HERE} yes"])).lookup(self._name)


def _files(patterns: str) -> Iterator[Path]:
    """The files that an Include names, relative to ``~/.ssh``."""
    for pattern in shlex.split(patterns, comments=True):
        place = Path("~/.ssh").expanduser() / Path(pattern).expanduser()
        yield from sorted(
            path for path in Path(place.anchor).glob(str(place.relative_to(place.anchor))) if path.is_file()
        )
