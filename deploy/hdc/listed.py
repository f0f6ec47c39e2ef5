"""All boards that there are, real and emulated, with what is known of each without asking it."""

from __future__ import annotations

from typing import Any

from core.session import Session
from deploy.board.profiles import UNKNOWN_BOARD, load_profile
from deploy.hdc.behind import serial_behind
from deploy.hdc.choose import at_server, entry_of, find_hdc
from deploy.hdc.emulated import EMULATED, emulated_boards
from deploy.hdc.program import Hdc
from deploy.hdc.servers import own_servers
from deploy.hdc.targets import Target, ask_servers
from deploy.lab.choose import list_places
from deploy.lease.lease import LeasePlace, find_holder
from deploy.ssh.choose import ssh_entries


def list_boards(session: Session) -> list[dict[str, Any]]:
    """All boards, with their users: those that hdc lists, that the settings name, the emulated ones, and those of the lab."""
    hdc = find_hdc(session)
    targets = ask_servers(session, _all_servers(session, hdc)) if hdc is not None else {}
    found = [_describe(target, session) for target, _ in targets.values()]
    for serial in ssh_entries(session):
        found.append(_describe(Target(key=serial, state="not asked", connection="SSH"), session))
    for name, entry in session.settings.boards.items():
        if entry.via:
            there = Target(key=serial_behind(entry), state="not asked", connection="hdc over SSH")
            found.append(_describe(there, session, name))
        elif (
            not entry.over_ssh
            and entry.serial
            and entry.serial not in targets
            and not entry.serial.startswith(EMULATED)
        ):
            found.append(_describe(Target(key=entry.serial, state="not connected", connection=""), session, name))
    for serial, profile in emulated_boards(session).items():
        found.append(
            {
                "serial": serial,
                "name": serial.removeprefix(EMULATED),
                "state": "ready",
                "connection": "",
                "profile": profile,
                "emulated": True,
                "note": load_profile(profile, emulated=True).title,
            }
        )
    for board in found:
        holder = find_holder(LeasePlace.of(session, board["serial"], emulated=board["emulated"]))
        board["lease"] = holder.as_json() if holder is not None else None
    for place in list_places(session):
        found.append(place | {"emulated": place["key"].startswith(EMULATED)})
    return found


def _all_servers(session: Session, hdc: Hdc) -> list[Hdc]:
    """The server that everybody uses, those of our own, and those that the settings name."""
    named = dict.fromkeys(entry.hdc_server for entry in session.settings.boards.values() if entry.hdc_server)
    return [hdc, *(own for _, own in own_servers(session, hdc)), *(at_server(hdc, server) for server in named)]


def _describe(target: Target, session: Session, name: str = "") -> dict[str, Any]:
    entry = session.settings.boards.get(name) or ssh_entries(session).get(target.key) or entry_of(session, target.key)
    names = [name] if name else [n for n, e in session.settings.boards.items() if e is entry]
    return {
        "serial": target.key,
        "name": names[0] if names else "",
        "state": target.state.lower(),
        "connection": target.connection,
        "profile": entry.profile or UNKNOWN_BOARD,
        "emulated": False,
        "note": f"named {names[0]}" if names else target.connection,
    }
