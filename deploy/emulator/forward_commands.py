"""``fport`` and ``rport``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deploy.emulator.client import Client


def run_forward(client: Client) -> None:
    """``fport ls``: there are none yet."""
    client.say("[Empty]")
