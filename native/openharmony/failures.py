"""Why ``build.sh`` failed: the first known failure (``failures.yaml``) that its log shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.data_file import read_data
from core.errors import InvalidData, UsageError
from native.build.job import first_errors

FILE = Path(__file__).resolve().parent / "failures.yaml"
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
SUCCESS = re.compile(r"=====build .*successful=====")
STEP = re.compile(r"\[(\d+)/(\d+)\]")
TAIL_BYTES = 8_000_000
"""How much of a log's end is searched. The errors stand there, and a log may have gigabytes."""
GENERAL = ("", "ninja", "unnamed")
KEYS = {"name", "pattern", "sentence", "remedy"}


@dataclass(frozen=True, kw_only=True)
class KnownFailure:
    """An entry of the table."""

    name: str
    pattern: re.Pattern[str]
    sentence: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What a log says. `name` is empty when no entry fits; `evidence` is the line that made the choice."""

    name: str
    sentence: str
    remedy: str
    evidence: str
    excerpt: str
    """The first error and what follows it, or the last lines."""

    @property
    def general(self) -> bool:
        """Whether it says little more than that the build failed."""
        return self.name in GENERAL


def plain_text(log: bytes) -> str:
    """A log without colours, and with the lines that a progress display wrote over each other apart."""
    return COLOUR.sub("", log.decode("utf-8", "replace")).replace("\r", "\n")


def succeeded(text: str) -> bool:
    """Whether build.sh said so in its last words, which must agree with its exit status."""
    return bool(SUCCESS.search(text))


def diagnose(text: str) -> Diagnosis:
    """The first entry of the table that fits a line of `text` (without colours)."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # build.sh recommends bash on every machine whose sh is dash; that is no failure.
    lines = [line for line in lines if "we recommend you to use bash" not in line]
    excerpt = first_errors("\n".join(line for line in lines if not line.startswith("=====build")))
    for failure in load_failures():
        if line := _find(failure.pattern, lines):
            return Diagnosis(
                name=failure.name, sentence=failure.sentence, remedy=failure.remedy, evidence=line, excerpt=excerpt
            )
    return Diagnosis(
        name="",
        sentence="build.sh ended early, without a message that is known.",
        remedy="Read the end of the log.",
        evidence=lines[-1] if lines else "",
        excerpt=excerpt,
    )


def explain_log(path: Path) -> Diagnosis:
    """What a log file says. Raises UsageError when it cannot be read."""
    try:
        text = plain_text(read_tail(path))
    except OSError as error:
        raise UsageError(f"The log {path} cannot be read: {error.strerror}.") from error
    if succeeded(text):
        return Diagnosis(name="", sentence="This build was successful.", remedy="", evidence="", excerpt="")
    return diagnose(text)


def read_tail(path: Path) -> bytes:
    """The last `TAIL_BYTES` of a log."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        return file.read()


@cache
def load_failures() -> tuple[KnownFailure, ...]:
    """The table; raises InvalidData when it has another form."""
    rows = read_data(FILE)
    try:
        if wrong := [row for row in rows if set(row) != KEYS]:
            raise InvalidData(f"{FILE}: an entry must have {', '.join(sorted(KEYS))}, not {', '.join(wrong[0])}.")
        return tuple(KnownFailure(**{**row, "pattern": re.compile(row["pattern"])}) for row in rows)
    except (TypeError, re.error) as error:
        raise InvalidData(f"{FILE} is not a table of failures: {error!r}") from error


def _find(pattern: re.Pattern[str], lines: Iterable[str]) -> str:
    return next((line for line in lines if pattern.search(line)), "")
