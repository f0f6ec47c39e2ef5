"""Whether the user of a board has accepted a computer's key."""

from __future__ import annotations

import time

from deploy.emulator.board.faults import Parameters
from deploy.emulator.protocol.releases import Release


def complaint_of(faults: dict[str, Parameters], release: Release) -> str:
    """What a computer hears whose key the board's user has not accepted; empty when nothing keeps it out."""
    if "refused" in faults:
        return release.refused
    fault = faults.get("unauthorised")
    if fault is None or (fault["seconds"] and time.time() >= fault["since"] + fault["seconds"]):
        return ""
    return release.not_answered
