"""What was looked at before something is begun, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at.

    `state` is ``ok``, ``missing`` (something cannot work), ``doubtful`` (it may not work) or ``optional`` (not there,
    and not needed).
    """

    name: str
    state: str
    found: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)
