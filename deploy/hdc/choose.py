"""Which hdc and which board is meant, and why."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.deadline import Deadline
from core.errors import (
    BoardError,
    BoardOffline,
    BoardUnauthorised,
    ConfigurationError,
    DeadlineExpired,
    HdcNotFound,
    NoBoard,
    SeveralBoards,
    nearest,
)
from core.session import PROJECT, Session
from core.settings import BoardEntry
from deploy.board.profiles import list_profiles, load_profile
from deploy.board.protocol import Board
from deploy.hdc.board import CONFIRMATION, RETRIES, TCP_KEY, Hdc, HdcBoard
from deploy.hdc.errors import confirm_request, find_fault, make_error, without_log_lines
from deploy.hdc.paths import check_key
from deploy.hdc.servers import claim_usb_first, connect_board, own_hdc, own_servers, with_folder
from deploy.lease.lease import LeasePlace

EMULATED = "emulated-"
DEFAULT_PROFILE = "dayu200"
UNKNOWN_BOARD = "generic"
DEFAULT_SERIAL = f"{EMULATED}{DEFAULT_PROFILE}"
LIST_SECONDS = 30.0
"""hdc itself waits about 12 s for a server that does not come up."""
OTHER_LIST_SECONDS = 15.0
READY_SECONDS = 20.0
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
    was chosen and why is said; with ``--dry`` none is made, started or connected. Raises NoBoard, SeveralBoards, BoardUnauthorised, BoardOffline, HdcNotFound.
    """
    if name:
        return _named_board(session, name, "named by --board")
    if session.settings.board:
        return _named_board(session, session.settings.board, "the setting ohforge.board")
    hdc = find_hdc(session)
    if hdc is None:
        return _emulated_board(
            session, DEFAULT_SERIAL, DEFAULT_PROFILE, "no hdc is installed, so there is no real board"
        )
    targets = ask_servers(session, [hdc, *(own for _, own in own_servers(session, hdc))])
    usable = [key for key, (target, _) in targets.items() if target.state == "Connected"]
    if len(usable) > 1:
        raise SeveralBoards(f"{len(usable)} boards are connected: {', '.join(usable)}.")
    if usable:
        server, entry = targets[usable[0]][1], entry_of(session, usable[0])
        return _real_board(session, server, usable[0], entry, "the only connected board")
    for key, (target, server) in targets.items():
        if target.state == "Unauthorized":
            return _accepted_board(session, server, key, entry_of(session, key), "the only board")
    lost = "".join(f"; {key} is {target.state.lower()}" for key, (target, _) in targets.items())
    return _emulated_board(session, DEFAULT_SERIAL, DEFAULT_PROFILE, f"no real board is connected{lost}")


def locate_board(session: Session, name: str = "") -> LeasePlace:
    """Where the leases of the board of that name are noted, found without asking hdc whenever a name is given.

    So a board that is frozen or unplugged can be released too. Raises what `choose_board` raises.
    """
    named = name or session.settings.board
    if not named:
        board = choose_board(session)
        return LeasePlace.of(session, board.serial, emulated=board.emulated)
    entry = session.settings.boards.get(named)
    emulated = _find_emulated(session, named)
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
            return _real_hdc(path)
    found = _hdc_of_sdk(session) or shutil.which("hdc")
    return _real_hdc(str(found)) if found else None


def stand_in(session: Session, serial: str = "") -> Hdc:
    """The hdc of the emulated boards; for the board `serial` with a server of its own, which blocks no other board."""
    search = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    home = _emulated_home(session)
    hdc = Hdc(
        argv=(sys.executable, "-m", "deploy.emulator.stand_in.cli"),
        title="hdc stand-in of ohforge",
        environment={"PYTHONPATH": search, "OHFORGE_EMULATOR_HOME": str(home)},
        emulated=True,
    )
    if not serial:
        return hdc
    folder = _server_folder(home, serial)
    if not session.dry:
        folder.mkdir(parents=True, exist_ok=True)
    return with_folder(hdc, folder)


def _server_folder(home: Path, serial: str) -> Path:
    return home / ".servers" / serial


def list_targets(session: Session, hdc: Hdc, seconds: float = LIST_SECONDS) -> list[Target]:
    """The boards that an hdc server knows. Raises HdcServerError when there is no server to be had."""
    result = hdc.call(session, ("list", "targets", "-v"), deadline=Deadline.after(seconds, "the list of boards"))
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
    if (emulated := _find_emulated(session, name)) is not None:
        return _emulated_board(session, *emulated, why)
    entry = session.settings.boards.get(name)
    if entry is not None:
        return _checked_board(session, entry.serial, entry, f"{why}; its serial stands under ohforge.boards")
    return _checked_board(session, name, entry_of(session, name), why)


def _checked_board(session: Session, key: str, entry: BoardEntry, why: str) -> Board:
    """A real board, after hdc has said that it is usable."""
    check_key(key)
    hdc = find_hdc(session)
    if hdc is None:
        raise NoBoard(
            f"There is no board {key!r}; {nearest(key, known_names(session, []))}. No hdc is installed, "
            "so real boards cannot be reached.",
            remedy="Install the SDK's toolchains with `ohforge sdk.fetch`, or set ohforge.hdc to the path of hdc.",
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
        raise NoBoard(f"There is no board {key!r}; {nearest(key, known)}. hdc is {hdc.argv[0]}.")
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
    """A board whose user is asked now; it may swallow the first command after the answer."""
    _wait_for_user(session, hdc, key)
    board = _real_board(session, hdc, key, entry, why)
    board.make_ready(Deadline.after(READY_SECONDS, f"a sign of life of board {key}"))
    return board


def _wait_for_user(session: Session, hdc: Hdc, key: str) -> None:
    """Waits until the board's user has confirmed. Raises BoardUnauthorised when that takes too long."""
    waiting = Deadline.after(session.settings.timeouts.authorise, f"the user of board {key}")
    if not waiting.expired:
        session.console.info(confirm_request(key, waiting.remaining))
    for _ in CONFIRMATION.rounds(waiting):
        if any(target.key == key and target.state == "Connected" for target in list_targets(session, hdc)):
            return
    raise BoardUnauthorised(
        f"Board {key} has not accepted this computer's key (waited {waiting.seconds:g} s).",
        remedy="Confirm the dialog on the board's screen, then run again; ohforge.timeouts.authorise waits longer for it.",
    )


# servers -------------------------------------------------------------------------------------------


def ask_servers(session: Session, servers: Sequence[Hdc]) -> dict[str, tuple[Target, Hdc]]:
    """The boards of all servers by key, each with a server that has it, connected where one is.

    Only the first server's failure is one; another that does not answer is said.
    """
    found: dict[str, tuple[Target, Hdc]] = {}
    for at, server in enumerate(servers):
        try:
            targets = list_targets(session, server, LIST_SECONDS if at == 0 else OTHER_LIST_SECONDS)
        except (BoardError, DeadlineExpired) as error:
            if at == 0:
                raise
            where = " ".join(server.argv[1:]) or f"of {server.environment.get('TMPDIR', '')}"
            session.console.warn(f"the hdc server {where} does not answer: {error.message}")
            continue
        for target in targets:
            if target.key not in found or (target.state == "Connected" != found[target.key][0].state):
                found[target.key] = (target, server)
    return found


# emulated boards -----------------------------------------------------------------------------------


def _find_emulated(session: Session, name: str) -> tuple[str, str] | None:
    """Serial and profile of the emulated board of that name; None when the name stands for no emulated board."""
    entry = session.settings.boards.get(name)
    if entry is not None:
        if entry.serial and not entry.serial.startswith(EMULATED):
            return None
        serial = entry.serial or f"{EMULATED}{name.removeprefix(EMULATED)}"
        return serial, entry.profile or serial.removeprefix(EMULATED)
    serial = f"{EMULATED}{name.removeprefix(EMULATED)}"
    profile = emulated_boards(session).get(serial)
    return (serial, profile) if profile is not None else None


def emulated_boards(session: Session) -> dict[str, str]:
    """All emulated boards and their profiles: one for each profile, those of the settings, and those that were made."""
    from deploy.emulator.board.boards import list_emulated

    found = {f"{EMULATED}{profile}": profile for profile in list_profiles()}
    for name, entry in session.settings.boards.items():
        if not entry.serial or entry.serial.startswith(EMULATED):
            serial = entry.serial or f"{EMULATED}{name.removeprefix(EMULATED)}"
            found.setdefault(serial, entry.profile or serial.removeprefix(EMULATED))
    made = [board for board in list_emulated(_emulated_home(session)) if not board.port]
    return found | {board.serial: board.profile for board in made if board.serial not in found}


def _emulated_home(session: Session) -> Path:
    return Path(os.environ.get("OHFORGE_EMULATOR_HOME") or session.settings.data / "boards")


def _emulated_board(session: Session, serial: str, profile: str, why: str) -> Board:
    from deploy.emulator.board.boards import board_folder

    check_key(serial)
    folder = board_folder(serial, _emulated_home(session))
    loaded = load_profile(profile, emulated=True)
    name = serial.removeprefix(EMULATED)
    if name != profile:
        kind = _kind_of_emulated(session, folder, profile)
        if name in list_profiles() or kind != profile:
            raise ConfigurationError(
                f"The emulated board {serial} is of the kind {kind}, but ohforge.boards says {profile}.",
                remedy="Choose another name for it under ohforge.boards.",
            )
    session.console.chosen("board", f"emulated {name}" + (f", a {profile}" if name != profile else ""), why)
    return HdcBoard(session, stand_in(session, serial), serial, loaded)


def _kind_of_emulated(session: Session, folder: Path, profile: str) -> str:
    """The profile of the emulated board in `folder`, which is made as a `profile` when it is not there and may be made."""
    from deploy.emulator.board.boards import create_board, read_board

    if session.dry:
        return read_board(folder).profile if (folder / "board.json").is_file() else profile
    return create_board(folder.name, home=folder.parent, **({} if folder.exists() else {"profile": profile})).profile


def is_up(session: Session, board: Board) -> bool:
    """Whether the board can be asked as things are: an emulated one may have to be made or started first."""
    from deploy.emulator.board.boards import is_running, read_board

    if not board.emulated:
        return True
    home = _emulated_home(session)
    made = (home / board.serial / "board.json").is_file() and _server_folder(home, board.serial).is_dir()
    return made and is_running(read_board(home / board.serial))


def _real_board(session: Session, hdc: Hdc, key: str, entry: BoardEntry, why: str) -> HdcBoard:
    profile = load_profile(entry.profile or UNKNOWN_BOARD)
    kind = "" if profile.name == UNKNOWN_BOARD else f", {profile.title}"
    session.console.chosen("board", f"{key}{kind}", f"{why}; hdc is {hdc.argv[0]}")
    return HdcBoard(session, hdc, key, profile)


def entry_of(session: Session, key: str) -> BoardEntry:
    """What the settings say of the board with that serial."""
    return next((entry for entry in session.settings.boards.values() if entry.serial == key), BoardEntry())


# hdc -----------------------------------------------------------------------------------------------


def _real_hdc(path: str) -> Hdc:
    return Hdc(argv=(path,), title=f"hdc {path}")


def at_server(hdc: Hdc, server: str) -> Hdc:
    """The same hdc with the server at that address, on this computer or another."""
    return dataclasses.replace(hdc, argv=(*hdc.argv, "-s", server)) if server else hdc


def _hdc_of_sdk(session: Session) -> Path | None:
    from toolchains.sdk import find_hdc as find_in_sdk

    return find_in_sdk(session)
