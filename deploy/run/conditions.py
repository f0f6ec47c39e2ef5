"""Under which conditions a program runs on a board: limits, CPUs, niceness, and how often the board is sampled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.errors import UsageError, unknown_name
from core.files import read_amount

UNLIMITED = "unlimited"
LIMITS: Mapping[str, tuple[str, int]] = {
    "as": ("v", 1024),
    "core": ("c", 512),
    "cpu": ("t", 1),
    "data": ("d", 1024),
    "fsize": ("f", 512),
    "memlock": ("l", 1024),
    "nofile": ("n", 1),
    "nproc": ("p", 1),
    "rss": ("m", 1024),
    "stack": ("s", 1024),
}
"""Limits by their names in ``setrlimit``: the letter of the shell's ``ulimit`` (mksh, dash) and its unit in bytes."""
OTHER_NAMES = {"memory": "as", "files": "nofile", "processes": "nproc", "file-size": "fsize"}
CPUS_MOST = 1024
NICE_LEAST, NICE_MOST = -20, 19


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What was asked for; what is empty or 0 is left as it is on the board."""

    limits: Mapping[str, int | str] = field(default_factory=dict)
    """By the names of `LIMITS`, in bytes, seconds or pieces, or ``unlimited``."""
    cpus: tuple[int, ...] = ()
    nice: int = 0
    sample_seconds: float = 0.0
    pin: bool = False
    """Whether the agent shall fix the clocks of the CPUs while the program runs."""

    @property
    def cpu_list(self) -> str:
        """Such as ``0-3,6``."""
        parts: list[list[int]] = []
        for cpu in self.cpus:
            if parts and cpu == parts[-1][-1] + 1:
                parts[-1][1:] = [cpu]
            else:
                parts.append([cpu])
        return ",".join("-".join(map(str, part)) for part in parts)

    @property
    def cpu_mask(self) -> str:
        """In hexadecimal, as ``taskset`` takes it everywhere."""
        return f"{sum(1 << cpu for cpu in self.cpus):x}" if self.cpus else ""

    @property
    def ulimits(self) -> list[tuple[str, str, int | str]]:
        """Name, letter and value for the shell's ``ulimit``; its units are larger, so values are rounded up."""
        rows: list[tuple[str, str, int | str]] = []
        for name, value in self.limits.items():
            letter, unit = LIMITS[name]
            rows.append((name, letter, value if isinstance(value, str) else -(-value // unit)))
        return rows

    def as_json(self) -> dict[str, Any]:
        return {
            "limits": dict(self.limits),
            "cpus": self.cpu_list,
            "nice": self.nice,
            "sample_seconds": self.sample_seconds,
        }


def read_conditions(
    *, limits: Iterable[str] = (), cpus: str = "", nice: int = 0, sample_seconds: float = 0.0
) -> Conditions:
    """Understands what was typed: limits as ``NAME=VALUE``, CPUs as ``0-3,6`` or as a mask ``0x4f``. Raises UsageError."""
    if not NICE_LEAST <= nice <= NICE_MOST:
        raise UsageError(f"A niceness of {nice} does not exist; it goes from {NICE_LEAST} to {NICE_MOST}.")
    if not 0 <= sample_seconds <= 3600:
        raise UsageError(f"Samples cannot be taken every {sample_seconds:g} seconds.", remedy="Use 0.05 to 3600.")
    return Conditions(
        limits=dict(map(_read_limit, limits)), cpus=_read_cpus(cpus), nice=nice, sample_seconds=sample_seconds
    )


def _read_limit(text: str) -> tuple[str, int | str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--limit {text!r} is not of the form NAME=VALUE.")
    known = OTHER_NAMES.get(name, name)
    if known not in LIMITS:
        raise unknown_name("limit", name, {**LIMITS, **OTHER_NAMES})
    if value == UNLIMITED:
        return known, value
    amount = read_amount(value)
    if amount is None:
        raise UsageError(
            f"--limit {text!r}: {value!r} is not an amount.",
            remedy="Write a number, one with K, M or G (times 1024), or unlimited; cpu is in seconds, nofile and nproc count.",
        )
    return known, amount


def _read_cpus(text: str) -> tuple[int, ...]:
    cpus: set[int] = set()
    if re.fullmatch(r"0x[0-9a-fA-F]{1,256}", text):
        mask = int(text, 16)
        cpus = {cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1}
    elif re.fullmatch(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", text):
        for part in text.split(","):
            first, _, last = part.partition("-")
            cpus |= set(range(int(first), int(last or first) + 1))
    if text and (not cpus or max(cpus) >= CPUS_MOST):
        raise UsageError(f"--cpus {text!r} names no CPUs.", remedy="Write a list such as 0-3,6 or a mask such as 0x4f.")
    return tuple(sorted(cpus))
