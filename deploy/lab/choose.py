"""Which place of a lab is meant, and which board that is."""

from __future__ import annotations

import os
import re
from typing import Any

from core.addresses import quoted
from core.errors import BoardOffline, ConfigurationError, HostToolMissing, LabUnreached, NoBoard
from core.session import Session
from core.settings import BoardEntry
from deploy.lab.coordinator import connect
from deploy.lab.lend import PlaceLender
from deploy.lab.names import Holder
from deploy.lab.place import DEVICE, HdcDevice, LabPlace

SCHEME = "lab:"
ADDRESS = re.compile(r"(?:[\w.-]+|\[[\dA-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?")
LIST_SECONDS = 3.0
"""For the list of all boards, in which a lab is one source of several."""


def is_lab(name: str) -> bool:
    """Whether a name is that of a lab's board."""
    return name.startswith(SCHEME)


def ask_lab(session: Session, name: str) -> tuple[Session, PlaceLender | None]:
    """The session in which ``lab:PLACE`` or ``lab:+TOKEN`` stands under ``ohforge.boards``, and who lends that board.

    Of a name of another form nothing is to be known. Raises ConfigurationError, HostToolMissing, LabUnreached, NoBoard, BoardOffline.
    """
    if not is_lab(name):
        return session, None
    address = coordinator_of(session)
    if not address:
        raise ConfigurationError(
            f"{name} is a board of a lab, but no coordinator is named.",
            remedy="Set ohforge.lab to HOST:PORT of the labgrid coordinator.",
        )
    with connect(address) as coordinator:
        place = coordinator.find(name.removeprefix(SCHEME))
    boards = {**session.settings.boards, name: _entry(place)}
    return session.with_settings(boards=boards), PlaceLender(address=address, place=place.name)


def coordinator_of(session: Session) -> str:
    """The coordinator's address; empty when none is named. Raises ConfigurationError for what cannot be one."""
    address = session.settings.lab or os.environ.get("LG_COORDINATOR", "")
    found = ADDRESS.fullmatch(address)
    if address and (found is None or not 0 < int(found["port"] or 1) < 65536):
        raise ConfigurationError(
            f"{quoted(address)} is no address of a coordinator, which has the form HOST[:PORT].",
            remedy="Correct the setting ohforge.lab, or the variable LG_COORDINATOR.",
        )
    return address


def list_places(session: Session) -> list[dict[str, Any]]:
    """The places of the lab that have a board, as rows of ``board.list``; a lab that is away is a warning."""
    address = coordinator_of(session)
    if not address:
        return []
    try:
        with connect(address, LIST_SECONDS) as coordinator:
            places = coordinator.places()
    except (LabUnreached, HostToolMissing) as away:
        session.console.warn(f"the boards of the lab are not listed: {away.message}")
        return []
    return [_describe(place) for place in sorted(places, key=lambda each: each.name) if _has_board(place)]


def _entry(place: LabPlace) -> BoardEntry:
    """What would stand of the place's board under ``ohforge.boards``. Raises NoBoard, BoardOffline."""
    if len(place.devices) != 1:
        matches = f"its resources are {', '.join(place.matches)}" if place.matches else "it has no resources"
        if not place.devices and _has_board(place):
            raise BoardOffline(
                f"No exporter offers the board of place {place.name} now; {matches}.",
                remedy="Start labgrid-exporter on the board's host; `labgrid-client resources` shows what is offered.",
            )
        raise NoBoard(
            f"Place {place.name} has {len(place.devices)} resources of the class {DEVICE}, where a board is one; {matches}.",
            remedy=f"`labgrid-client -p {place.name} add-match EXPORTER/GROUP/{DEVICE}` adds one.",
        )
    [device] = place.devices
    return entry_for(device)


def entry_for(device: HdcDevice) -> BoardEntry:
    """What would stand of an exporter's board under ``ohforge.boards``."""
    if not device.is_here:
        via = f"ssh://{device.host.removeprefix('ssh://')}"
        return BoardEntry(
            via=via, key=device.serial, profile=device.profile, hdc_server=device.hdc_server, hdc=device.hdc
        )
    return BoardEntry(serial=device.serial, profile=device.profile, hdc_server=device.hdc_server)


def _has_board(place: LabPlace) -> bool:
    return bool(place.devices) or any(match.split("/")[2] in (DEVICE, "*") for match in place.matches)


def _describe(place: LabPlace) -> dict[str, Any]:
    device = next(iter(place.devices), None)
    where = f"{device.serial} at {device.host}" if device is not None else "its exporter is away"
    state = "acquired" if place.holder else "reserved" if place.reserved_by else "free"
    holder = Holder.read(place.holder or place.reserved_by)
    lease = {"user": holder.user, "host": holder.host, "pid": holder.pid or None, "purpose": state}
    return {
        "serial": f"{SCHEME}{place.name}",
        "key": device.serial if device is not None else "",
        "name": place.name,
        "state": state if device is not None else "away",
        "connection": "lab",
        "profile": (device.profile if device is not None else "") or "generic",
        "note": ", ".join(filter(None, [where, place.comment])),
        "lease": lease if holder.user else None,
    }
