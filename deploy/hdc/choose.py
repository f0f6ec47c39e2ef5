"""Which hdc and which board is meant, and why."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from core.addresses import quoted
from core.deadline import Deadline
from core.errors import (
    BoardError,
    BoardOffline,
    BoardUnauthorised,
    DeadlineExpired,
    HdcNotFound,
    NoBoard,
    SeveralBoards,
    UsageError,
    nearest,
)
from core.session import Session
from core.settings import BoardEntry
from deploy.board.profiles import UNKNOWN_BOARD, check_profile, load_profile
from deploy.board.protocol import Board
from deploy.hdc.behind import board_behind, find_behind, ready_behind
from deploy.hdc.board import RETRIES, TCP_KEY, HdcBoard
from deploy.hdc.emulated import (
    DEFAULT_PROFILE,
    EMULATED,
    default_board,
    emulated_board,
    emulated_boards,
    find_emulated,
)
from deploy.hdc.paths import check_key
from deploy.hdc.program import Hdc
from deploy.hdc.servers import claim_usb_first, connect_board, connected_hdc, end_unused, own_hdc, own_servers
from deploy.hdc.targets import ask_servers, list_targets
from deploy.hdc.windows import find_bridge
from deploy.lab.choose import ask_lab, is_lab
from deploy.lease.lease import LeasePlace
from deploy.ssh.choose import find_ssh, ssh_board

READY_SECONDS = 20.0
INSTALL_HDC = "Install the SDK's toolchains with `ohforge sdk.fetch`, or set ohforge.hdc to the path of hdc."
USE_EMULATED = f"use the emulated board with --board {DEFAULT_PROFILE}"


def choose_board(session: Session, name: str = "", *, accept_new: bool = False) -> Board:
    """The board of that name: a serial, an SSH address, a place of a lab, a name under ``ohforge.boards`` or an emulated profile.

    Without a name: the one of the settings, else the only connected real one, else the emulated `dayu200` when hdc
    knows no real one at all. What was chosen and why is said; with ``--dry`` none is made, started or connected.
    `accept_new` trusts the key of an SSH board that is not known yet.
    Raises NoBoard, SeveralBoards, BoardUnauthorised, BoardOffline, HdcNotFound, and for a lab what `ask_lab` raises.
    """
    named, why = (name, "named by --board") if name else (session.settings.board, "the setting ohforge.board")
    if named:
        asked, lender = ask_lab(session, named)
        board = _named_board(asked, named, f"{why}; {lender}" if lender else why, accept_new=accept_new)
        board.lender = lender
        return board
    hdc = find_hdc(session)
    if hdc is None:
        return default_board(session, "no hdc is installed, so there is no real board")
    targets = ask_servers(session, [hdc, *(own for _, own in own_servers(session, hdc))])
    usable = [key for key, (target, _) in targets.items() if target.state == "Connected"]
    if len(usable) > 1:
        raise SeveralBoards(f"{len(usable)} boards are connected: {', '.join(usable)}.")
    if usable:
        server, entry = targets[usable[0]][1], entry_of(session, usable[0])
        return _real_board(session, server, usable[0], entry, "the only connected board")
    for key, (target, server) in targets.items():
        if target.state == "Unauthorized":
            try:
                return _accepted_board(session, server, key, entry_of(session, key), "the only board")
            except BoardUnauthorised as refused:
                raise BoardUnauthorised(refused.message, remedy=f"{refused.remedy} Or {USE_EMULATED}.") from None
    if targets:
        lost = ", ".join(f"{key} ({target.state.lower()})" for key, (target, _) in targets.items())
        raise BoardOffline(
            f"No board was named, and hdc knows none that can be used, only {lost}.",
            remedy=f"Reconnect it, or {USE_EMULATED}; a TCP board that is gone for good is forgotten after `hdc kill`.",
        )
    return default_board(session, "no real board is connected")


def name_board(session: Session, name: str = "") -> HdcBoard:
    """The board of that name, whether it can be used now or not; else the only one that hdc knows, as `choose_board` does.

    Raises NoBoard, SeveralBoards, HdcNotFound, and for a lab what `ask_lab` raises.
    """
    named, why = (name, "named by --board") if name else (session.settings.board, "the setting ohforge.board")
    asked, lender = ask_lab(session, named)
    board = _board_in_any_state(asked, named, f"{why}; {lender}" if lender else why)
    board.lender = lender
    return board


def _board_in_any_state(session: Session, named: str, why: str) -> HdcBoard:
    if named and (behind := find_behind(session, named)) is not None:
        return board_behind(session, *behind, why)
    if named and (emulated := find_emulated(session, named)) is not None:
        return emulated_board(session, *emulated, why)
    if named and (over_ssh := find_ssh(session, named)) is not None:
        raise UsageError(
            f"{over_ssh[0]} is an SSH board; restarting and waiting are for boards behind hdc.",
            remedy=f"Restart it with `ohforge board.shell --board {named} reboot`; whether it is back, "
            f"`ohforge board.info --board {named}` tells.",
        )
    hdc = find_hdc(session)
    if not named:
        known = {} if hdc is None else ask_servers(session, [hdc, *(own for _, own in own_servers(session, hdc))])
        if not known:
            return default_board(session, "no real board is known")
        if len(known) > 1:
            raise SeveralBoards(f"{len(known)} boards are known: {', '.join(known)}.")
        [(key, (_, server))] = known.items()
        return _real_board(session, server, key, entry_of(session, key), "the only board that hdc knows")
    entry = session.settings.boards.get(named) or entry_of(session, named)
    key = entry.serial or named
    check_key(key)
    if hdc is None:
        raise NoBoard(f"No hdc is installed, so the board {quoted(key)} cannot be reached.", remedy=INSTALL_HDC)
    if TCP_KEY.fullmatch(key) and session.settings.own_servers and not entry.hdc_server and not session.dry:
        hdc = connected_hdc(session, hdc, key) or own_hdc(session, hdc, key)
    return _real_board(session, at_server(hdc, entry.hdc_server), key, entry, why)


def locate_board(session: Session, name: str = "") -> LeasePlace:
    """Where the leases of the board of that name are noted, found without asking hdc whenever a name is given.

    So a board that is frozen or unplugged can be released too. Raises what `choose_board` raises.
    """
    named = name or session.settings.board
    if is_lab(named):
        place = named.partition(":")[2]
        raise UsageError(
            f"{named} is kept and given back by labgrid's own client.",
            remedy=f"`labgrid-client -p {place} acquire` keeps it, `labgrid-client -p {place} release` gives it back.",
        )
    if not named:
        board = choose_board(session)
        return LeasePlace.of_board(session, board)
    if (behind := find_behind(session, named)) is not None:
        return LeasePlace.of_board(session, board_behind(session, *behind, "named by --board"))
    if (over_ssh := find_ssh(session, named)) is not None:
        return LeasePlace.of(session, over_ssh[0], emulated=False)
    entry = session.settings.boards.get(named)
    emulated = find_emulated(session, named)
    serial = emulated[0] if emulated is not None else entry.serial if entry is not None else named
    check_key(serial)
    return LeasePlace.of(session, serial, emulated=emulated is not None)


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
            return _real_hdc(session, path)
    found = _hdc_of_sdk(session) or shutil.which("hdc")
    return _real_hdc(session, str(found)) if found else None


# by name -------------------------------------------------------------------------------------------


def _named_board(session: Session, name: str, why: str, *, accept_new: bool) -> Board:
    if (behind := find_behind(session, name)) is not None:
        return ready_behind(session, board_behind(session, *behind, why, accept_new=accept_new))
    if (over_ssh := find_ssh(session, name)) is not None:
        return ssh_board(session, *over_ssh, why, accept_new=accept_new)
    if (emulated := find_emulated(session, name)) is not None:
        return emulated_board(session, *emulated, why)
    entry = session.settings.boards.get(name)
    if entry is not None:
        where = "" if is_lab(name) else "; its serial stands under ohforge.boards"
        return _checked_board(session, entry.serial, entry, f"{why}{where}")
    return _checked_board(session, name, entry_of(session, name), why)


def _checked_board(session: Session, key: str, entry: BoardEntry, why: str) -> Board:
    """A real board, after hdc has said that it is usable."""
    check_key(key)
    hdc = find_hdc(session)
    if hdc is None:
        raise NoBoard(
            f"There is no board {quoted(key)}; {nearest(key, known_names(session, []))}. No hdc is installed, "
            "so real boards cannot be reached.",
            remedy=INSTALL_HDC,
        )
    if TCP_KEY.fullmatch(key) and not session.dry:
        return _tcp_board(session, hdc, key, entry, why)
    if entry.hdc_server:
        servers = [at_server(hdc, entry.hdc_server)]
    else:
        servers = [hdc, *(own for _, own in own_servers(session, hdc))]
    targets = ask_servers(session, servers)
    if key not in targets and TCP_KEY.fullmatch(key):
        raise BoardOffline(
            f"Board {key} is not connected, and with --dry none is.",
            remedy=f"`ohforge board.info --board {key}` connects it.",
        )
    if key not in targets:
        known = known_names(session, list(targets))
        raise NoBoard(f"There is no board {quoted(key)}; {nearest(key, known)}. hdc is {hdc.argv[0]}.")
    target, server = targets[key]
    if target.state == "Unauthorized":
        return _accepted_board(session, server, key, entry, why)
    if target.state == "Offline":
        raise BoardOffline(f"Board {key} is known to hdc, but not connected now.")
    return _real_board(session, server, key, entry, why)


def _tcp_board(session: Session, hdc: Hdc, key: str, entry: BoardEntry, why: str) -> Board:
    """A board at an address: connected when it is not, through a server of its own unless one is named."""
    if entry.hdc_server or not session.settings.own_servers:
        server = at_server(hdc, entry.hdc_server)
    elif (known := connected_hdc(session, hdc, key)) is not None:
        return _real_board(session, known, key, entry, why)
    else:
        claim_usb_first(session, hdc)
        server = own_hdc(session, hdc, key)
    server, fresh = _connect(session, hdc, server, key)
    board = _real_board(session, server, key, entry, why)
    if fresh:
        seconds = READY_SECONDS + session.settings.timeouts.authorise
        board.make_ready(Deadline.after(seconds, f"a sign of life of board {key}"))
    return board


def _connect(session: Session, hdc: Hdc, server: Hdc, key: str) -> tuple[Hdc, bool]:
    """A server that has the board connected, and whether the connection is new.

    A board that is being started refuses at first; and hdc gives up after a second when it has to make its keys.
    """
    for pause in (*RETRIES.pauses(), None):
        try:
            return connect_board(session, server, key)
        except BoardOffline as offline:
            other = _with_connection(session, hdc, key)
            if other is not None or pause is None:
                end_unused(session, server, key)
            if other is not None:
                return other, False
            if pause is None:
                raise
            session.console.detail(f"{offline.message} Trying again.")
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _with_connection(session: Session, hdc: Hdc, key: str) -> Hdc | None:
    """The hdc that everybody uses when its server has the board connected: some boards take one server at a time."""
    with contextlib.suppress(BoardError, DeadlineExpired):
        if any(target.key == key and target.state == "Connected" for target in list_targets(session, hdc)):
            return hdc
    return None


def known_names(session: Session, keys: Sequence[str]) -> list[str]:
    """Every name that --board takes at the moment."""
    emulated = [serial.removeprefix(EMULATED) for serial in emulated_boards(session)]
    return list(dict.fromkeys([*keys, *session.settings.boards, *emulated]))


def _accepted_board(session: Session, hdc: Hdc, key: str, entry: BoardEntry, why: str) -> Board:
    """A board whose user is asked now. Raises BoardUnauthorised when he does not agree in time."""
    board = _real_board(session, hdc, key, entry, why)
    seconds = READY_SECONDS + session.settings.timeouts.authorise
    board.make_ready(Deadline.after(seconds, f"the user of board {key}"))
    return board


def _real_board(session: Session, hdc: Hdc, key: str, entry: BoardEntry, why: str) -> HdcBoard:
    profile = entry.profile or UNKNOWN_BOARD
    check_profile(profile)
    kind = "" if profile == UNKNOWN_BOARD else f", {profile}"
    session.console.chosen("board", f"{key}{kind}", f"{why}; hdc is {hdc.argv[0]}")
    return HdcBoard(session, hdc, key, lambda: load_profile(profile))


def entry_of(session: Session, key: str) -> BoardEntry:
    """What the settings say of the board with that serial."""
    return next((entry for entry in session.settings.boards.values() if entry.serial == key), BoardEntry())


# hdc -----------------------------------------------------------------------------------------------


def _real_hdc(session: Session, path: str) -> Hdc:
    return Hdc(argv=(path,), title=f"hdc {path}", bridge=find_bridge(session, path))


def at_server(hdc: Hdc, server: str) -> Hdc:
    """The same hdc with the server at that address, on this computer or another."""
    return dataclasses.replace(hdc, argv=(*hdc.argv, "-s", server)) if server else hdc


def _hdc_of_sdk(session: Session) -> Path | None:
    from toolchains.sdk import find_hdc as find_in_sdk

    return find_in_sdk(session)
