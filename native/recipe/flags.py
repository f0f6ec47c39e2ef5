"""Flags that recipes bring to ``board.run``: what one kind of model, or one program, can be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.errors import UnknownName, UsageError

Given = str | int | list[str]


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One flag, as its recipe describes it."""

    name: str
    help: str
    kind: str = "text"
    """``text``, ``number`` (whole), ``switch`` or ``list`` (may be given again)."""
    choices: tuple[str, ...] = ()
    parameter: str = ""
    """Of the run section, that the flag sets; empty for a flag that `role` takes."""
    value: str = ""
    """What a switch sets the parameter to."""
    role: str = ""
    """What the flag's value is when it is no parameter: ``inputs``, ``labels`` or ``network``."""


def split_given(
    flags: Iterable[Flag], given: Mapping[str, Given], whose: str
) -> tuple[dict[str, str | int | float], dict[str, list[str]]]:
    """What was given, as parameters and by role. `whose` completes "a flag of ".

    Raises UnknownName for a flag that is not among `flags`, UsageError for a value that is not among its choices.
    """
    known = {flag.name: flag for flag in flags}
    parameters: dict[str, str | int | float] = {}
    roles: dict[str, list[str]] = {}
    for name, value in given.items():
        flag = known.get(name)
        if flag is None:
            others = ", ".join(f"--{other}" for other in known) or "none"
            raise UnknownName(f"--{name} is not for {whose}.", remedy=f"Its own flags are: {others}.")
        if flag.choices and value not in flag.choices:
            raise UsageError(f"--{name} takes {', '.join(flag.choices)}, not {value!r}.")
        if flag.role:
            roles[flag.role] = value if isinstance(value, list) else [str(value)]
        elif not isinstance(value, list):
            parameters[flag.parameter] = flag.value or value
    return parameters, roles
