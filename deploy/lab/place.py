"""What a coordinator tells of its places."""

from __future__ import annotations

import socket
from dataclasses import dataclass

DEVICE = "NetworkHDCDevice"
"""The class of the resource, as an exporter's configuration names it."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class HdcDevice:
    """A board as an exporter describes it."""

    host: str
    """The computer on which hdc knows the board; may have a ``USER@`` and a ``:PORT``."""
    serial: str
    hdc_server: str = ""
    profile: str = ""
    hdc: str = ""
    """Path of hdc on that computer; empty: the one on its PATH."""
    available: bool = True

    @property
    def is_here(self) -> bool:
        """Whether the board hangs at this very computer."""
        return self.host in (*LOOPBACK, socket.gethostname(), socket.getfqdn())


@dataclass(frozen=True, kw_only=True)
class LabPlace:
    """One place of a coordinator."""

    name: str
    aliases: tuple[str, ...] = ()
    comment: str = ""
    holder: str = ""
    """Name of who has it; empty when nobody does."""
    allowed: tuple[str, ...] = ()
    """Names of those whom the holder lets work on it as well."""
    reserved_by: str = ""
    since: float = 0.0
    """When it was changed last, as by being acquired, in seconds since 1970."""
    matches: tuple[str, ...] = ()
    """Which resources belong to it: EXPORTER/GROUP/CLASS."""
    devices: tuple[HdcDevice, ...] = ()
