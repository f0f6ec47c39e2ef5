"""Which hdc and which board is meant, and why."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.errors import BoardOffline, BoardUnauthorised, HdcNotFound, NoBoard, SeveralBoards, nearest
from core.session import PROJECT, Session
from core.settings import BoardEntry
from deploy.board import Board
from deploy.hdc import TCP_KEY, Hdc, HdcBoard
from deploy.hdc_errors import find_fault, make_error, without_log_lines
from deploy.hdc_paths import check_key
from deploy.lease import LeasePlace, find_holder
from deploy.profiles import list_profiles, load_profile

EMULATED = "emulated-"
DEFAULT_PROFILE = "dayu200"
UNKNOWN_BOARD = "generic"
LIST_SECONDS = 30.0
"""hdc itself waits about 12 s for a server that does not come up."""
STATES = ("Connected", "Offline", "Unauthorized", "Ready", "Unknown", "UNKNOW")
CONNECTIONS = ("USB", "TCP", "UART", "BT")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A board as hdc lists it."""

    key: str
    state: str
    """``Connected``, ``Offline``, ``Unauthorized``, ``Ready`` (seen, not yet usable) or ``Unknown``."""
    connection: str


def choose_board(session: Session, name: str = "") -> Board:
    """The board of that name: a serial, a name under ``ohforge.boards`` or an emulated profile.

    Without a name: the one of the settings, else the only connected real one, else the emulated `dayu200`. What
    was chosen and why is said. Raises NoBoard, SeveralBoards, BoardUnauthorised, BoardOffline, HdcNotFound.
    """
    if name:
        return _named_board(session, name, "named by --board")
    if session.settings.board:
        return _named_board(session, session.settings.board, "the setting ohforge.board")
    hdc = find_hdc(session)
    if hdc is None:
        return _emulated_board(session, DEFAULT_PROFILE, "no hdc is installed, so there is no real board")
    targets = list_targets(session, hdc)
    usable = [target for target in targets if target.state == "Connected"]
    if len(usable) > 1:
        keys = ", ".join(target.key for target in usable)
        raise SeveralBoards(f"{len(usable)} boards are connected: {keys}.")
    if usable:
        return _real_board(session, hdc, usable[0].key, _entry_of(session, usable[0].key), "the only connected board")
    if unauthorised := [target for target in targets if target.state == "Unauthorized"]:
        raise _unauthorised(unauthorised[0].key)
    return _emulated_board(session, DEFAULT_PROFILE, "no real board is connected")


def list_boards(session: Session) -> list[dict[str, Any]]:
    """All boards: those that hdc lists, those that the settings name, and the emulated ones."""
    hdc = find_hdc(session)
    targets = list_targets(session, hdc) if hdc is not None else []
    found = [_describe(target.key, target.state.lower(), target.connection, session) for target in targets]
    listed = {target.key for target in targets}
    for name, entry in session.settings.boards.items():
        if entry.serial and entry.serial not in listed and not entry.serial.startswith(EMULATED):
            found.append(_describe(entry.serial, "not connected", "", session, name))
    for profile in list_profiles():
        found.append(
            {
                "serial": f"{EMULATED}{profile}",
                "name": profile,
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
    return found


def locate_board(session: Session, name: str = "") -> LeasePlace:
    """Where the leases of the board of that name are noted, found without asking hdc whenever a name is given.

    So a board that is frozen or unplugged can be released too. Raises what `choose_board` raises.
    """
    named = name or session.settings.board
    if not named:
        board = choose_board(session)
        return LeasePlace.of(session, board.serial, emulated=board.emulated)
    entry = session.settings.boards.get(named)
    serial = entry.serial or f"{EMULATED}{entry.profile or named}" if entry is not None else named
    if serial in list_profiles():
        serial = f"{EMULATED}{serial}"
    check_key(serial)
    return LeasePlace.of(session, serial, emulated=serial.startswith(EMULATED))


def find_hdc(session: Session) -> Hdc | None:
    """The hdc of the variable OHFORGE_HDC, of the settings, of the newest SDK or of PATH; None when there is none.

    Raises HdcNotFound when the one that was named does not exist or cannot be executed.
    """
    named = (("the variable OHFORGE_HDC", os.environ.get("OHFORGE_HDC", "")), ("ohforge.hdc", session.settings.hdc))
    for where, text in named:
        if text:
            path = shutil.which(str(Path(text).expanduser()))
            if path is None:
                raise HdcNotFound(f"{text}, named by {where}, is no program that can be executed.")
            return _real_hdc(path)
    found = _hdc_of_sdk(session) or shutil.which("hdc")
    return _real_hdc(str(found)) if found else None


def stand_in(session: Session) -> Hdc:
    """The hdc of the emulated boards."""
    search = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    home = os.environ.get("OHFORGE_EMULATOR_HOME") or str(session.settings.data / "boards")
    return Hdc(
        argv=(sys.executable, "-m", "deploy.emulator.cli"),
        title="hdc stand-in of ohforge",
        environment={"PYTHONPATH": search, "OHFORGE_EMULATOR_HOME": home},
        emulated=True,
    )


def list_targets(session: Session, hdc: Hdc) -> list[Target]:
    """The boards that an hdc server knows. Raises HdcServerError when there is no server to be had."""
    result = hdc.call(session, ("list", "targets", "-v"), deadline=Deadline.after(LIST_SECONDS, "the list of boards"))
    text = without_log_lines(f"{result.text}\n{result.error_text}").strip()
    fault = find_fault(text, "list")
    if fault is not None or "[Fail]" in text:
        raise make_error(fault, text, subject="Listing the boards")
    return read_targets(text)


def read_targets(text: str) -> list[Target]:
    """Understands ``list targets [-v]`` of every version. None at all is ``[Empty]``, with odd line ends after it."""
    targets = []
    for line in re.split(r"[\r\n]+", text):
        key, *rest = line.split("\t")
        if not key.strip() or key.startswith("["):
            continue
        words = [word.strip() for word in rest]
        state = next((word for word in words if word in STATES), "" if words else "Connected")
        connection = next((word for word in words if word in CONNECTIONS), "")
        if state:
            targets.append(
                Target(key=key.strip(), state="Unknown" if state == "UNKNOW" else state, connection=connection)
            )
    return targets


# by name -------------------------------------------------------------------------------------------


def _named_board(session: Session, name: str, why: str) -> Board:
    entry = session.settings.boards.get(name)
    if entry is not None:
        why = f"{why}; its serial stands under ohforge.boards"
        if not entry.serial or entry.serial.startswith(EMULATED):
            return _emulated_board(session, entry.serial.removeprefix(EMULATED) or entry.profile or name, why)
        return _checked_board(session, entry.serial, entry, why)
    profile = name.removeprefix(EMULATED)
    if profile in list_profiles():
        return _emulated_board(session, profile, why)
    return _checked_board(session, name, _entry_of(session, name), why)


def _checked_board(session: Session, key: str, entry: BoardEntry, why: str) -> Board:
    """A real board, after hdc has said that it is usable."""
    check_key(key)
    hdc = find_hdc(session)
    if hdc is None:
        raise NoBoard(
            f"There is no board {key!r}; {nearest(key, known_names(session, []))}. No hdc is installed, "
            "so real boards cannot be reached.",
            remedy="Install the SDK's toolchains with `invoke sdk.fetch`, or set ohforge.hdc to the path of hdc.",
        )
    hdc = _at_server(hdc, entry.hdc_server)
    targets = list_targets(session, hdc)
    states = {target.key: target.state for target in targets}
    if TCP_KEY.fullmatch(key) and states.get(key) in (None, "Offline"):
        _connect(session, hdc, key)
    elif key not in states:
        known = known_names(session, targets)
        raise NoBoard(f"There is no board {key!r}; {nearest(key, known)}. hdc is {hdc.argv[0]}.")
    elif states[key] == "Unauthorized":
        raise _unauthorised(key)
    elif states[key] == "Offline":
        raise BoardOffline(f"Board {key} is known to hdc, but not connected now.")
    return _real_board(session, hdc, key, entry, why)


def known_names(session: Session, targets: Sequence[Target]) -> list[str]:
    """Every name that --board takes at the moment."""
    return [*(target.key for target in targets), *session.settings.boards, *list_profiles()]


def _connect(session: Session, hdc: Hdc, key: str) -> None:
    """Connects a TCP board. Raises NoBoard for a wrong address, BoardOffline when nothing answers there."""
    result = hdc.call(session, ("tconn", key), deadline=Deadline.after(LIST_SECONDS, f"a connection to {key}"))
    text = without_log_lines(f"{result.text}\n{result.error_text}").strip()
    fault = find_fault(text, "connect")
    if fault is not None or "[Fail]" in text:
        raise make_error(fault, text, subject=f"Board {key}", otherwise=BoardOffline)


def _unauthorised(key: str) -> BoardUnauthorised:
    return BoardUnauthorised(f"Board {key} has not accepted this computer's key.")


def _emulated_board(session: Session, profile: str, why: str) -> Board:
    loaded = load_profile(profile, emulated=True)
    session.console.chosen("board", f"emulated {profile}", why)
    return HdcBoard(session, stand_in(session), f"{EMULATED}{profile}", loaded)


def _real_board(session: Session, hdc: Hdc, key: str, entry: BoardEntry, why: str) -> Board:
    profile = load_profile(entry.profile or UNKNOWN_BOARD)
    kind = "" if profile.name == UNKNOWN_BOARD else f", {profile.title}"
    session.console.chosen("board", f"{key}{kind}", f"{why}; hdc is {hdc.argv[0]}")
    return HdcBoard(session, hdc, key, profile)


def _entry_of(session: Session, key: str) -> BoardEntry:
    return next((entry for entry in session.settings.boards.values() if entry.serial == key), BoardEntry())


def _describe(key: str, state: str, connection: str, session: Session, name: str = "") -> dict[str, Any]:
    entry = _entry_of(session, key)
    names = [name] if name else [n for n, e in session.settings.boards.items() if e.serial == key]
    return {
        "serial": key,
        "name": names[0] if names else "",
        "state": state,
        "connection": connection,
        "profile": entry.profile or UNKNOWN_BOARD,
        "emulated": False,
        "note": f"named {names[0]}" if names else connection,
    }


# hdc -----------------------------------------------------------------------------------------------


def _real_hdc(path: str) -> Hdc:
    return Hdc(argv=(path,), title=f"hdc {path}")


def _at_server(hdc: Hdc, server: str) -> Hdc:
    if not server:
        return hdc
    return Hdc(argv=(*hdc.argv, "-s", server), title=hdc.title, environment=hdc.environment)


def _hdc_of_sdk(session: Session) -> Path | None:
    from toolchains.sdk import find_hdc as find_in_sdk

    return find_in_sdk(session)
