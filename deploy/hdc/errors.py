"""From what hdc printed to one of our errors, by the table ``hdc_errors.yaml``."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import errors
from core.data_file import read_data
from core.errors import BoardError, InvalidData, OhforgeError

TABLE = Path(__file__).with_name("errors.yaml")
OPERATIONS = ("list", "connect", "shell", "send", "receive")
RELEASE = r"\d+\.\d+(\.\d+)?"
LOG_LINE = re.compile(r"^\[[A-Z]\]\[\d{4}-[^\n]*\n?", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One entry of the table."""

    id: str
    pattern: re.Pattern[str]
    error: type[OhforgeError]
    meaning: str
    during: tuple[str, ...] = OPERATIONS
    remedy: str | None = None
    transient: bool = False
    reconnect: bool = False
    asks_user: bool = False
    new_server: bool = False
    server_remembers: bool = False
    since: str = ""
    """First release of OpenHarmony whose hdc says it; empty: every one, or not known."""
    until: str = ""

    @property
    def releases(self) -> str:
        """The releases in words; empty for all."""
        if self.since and self.until:
            return f"{self.since} to {self.until}"
        return f"{self.since} and later" if self.since else f"up to {self.until}" if self.until else ""


@functools.cache
def read_faults() -> tuple[Fault, ...]:
    """The table. Raises InvalidData when an entry is not of the form that its head describes."""
    known = {cls.__name__: cls for cls in errors.all_errors()}
    faults = tuple(_fault(entry, known) for entry in read_data(TABLE))
    if len({fault.id for fault in faults}) != len(faults):
        raise InvalidData(f"{TABLE.name}: two entries have the same id.")
    return faults


def _fault(entry: dict[str, Any], known: dict[str, type[OhforgeError]]) -> Fault:
    try:
        during = tuple(entry.pop("during", OPERATIONS))
        if not set(during) <= set(OPERATIONS):
            raise ValueError(f"unknown operation in {during}")
        since, until = str(entry.get("since", "")), str(entry.get("until", ""))
        if not all(re.fullmatch(RELEASE, release) for release in (since, until) if release):
            raise ValueError("a release is written as in '5.0.3'")
        if since and until and _numbers(since) > _numbers(until):
            raise ValueError("it ended before it began")
        return Fault(
            pattern=re.compile(entry.pop("pattern"), re.IGNORECASE),
            error=known[entry.pop("error")],
            during=during,
            **entry,
        )
    except (KeyError, TypeError, ValueError, re.error) as error:
        raise InvalidData(f"{TABLE.name}: the entry {entry.get('id', entry)!r} is wrong: {error}") from error


def _numbers(release: str) -> list[int]:
    return [int(number) for number in release.split(".")]


def find_fault(text: str, during: str) -> Fault | None:
    """The first entry that fits `text`, which is all that hdc printed during the operation."""
    for fault in read_faults():
        if during in fault.during and fault.pattern.search(text):
            return fault
    return None


def confirm_request(serial: str, seconds: float) -> str:
    """What the user is asked to do while a board waits for an answer."""
    return (
        f"board {serial} asks on its screen whether this computer may connect: confirm it there, best for always; "
        f"waiting up to {seconds:.0f} s"
    )


def without_log_lines(text: str) -> str:
    """`text` without the lines that the hdc client logs to its standard output (``[W][2026-01-31 12:00:00] …``)."""
    return LOG_LINE.sub("", text)


def what_hdc_said(text: str) -> str:
    """What hdc printed, in one line for a message."""
    words = " ".join(text.split())
    return words if len(words) <= 300 else f"{words[:297]}..."


def make_error(
    fault: Fault | None, text: str, *, subject: str, typed: str = "hdc", otherwise: type[OhforgeError] = BoardError
) -> OhforgeError:
    """The error for `fault`; `subject` begins the sentence (``board KEY, sending x``), `otherwise` is for unknown texts.

    `typed` is what the user types for hdc, which may run on another computer.
    """
    said = what_hdc_said(text)
    if fault is None:
        return otherwise(f"{subject}: hdc refused for a reason that is not in the table. It said: {said}")
    remedy = (fault.remedy or fault.error.default_remedy).replace("`hdc ", f"`{typed} ")
    return fault.error(f"{subject}: {fault.meaning}. hdc said: {said}", remedy=remedy)
