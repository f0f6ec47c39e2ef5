"""The emulated boards, as boards behind an hdc: theirs is the stand-in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from core.errors import ConfigurationError, NoBoard
from core.session import PROJECT, Session
from core.settings import BoardEntry
from deploy.board.profiles import check_profile, list_profiles, load_profile
from deploy.board.protocol import Board
from deploy.hdc.board import TCP_KEY, HdcBoard
from deploy.hdc.paths import check_key
from deploy.hdc.program import Hdc
from deploy.hdc.servers import with_folder

EMULATED = "emulated-"
DEFAULT_PROFILE = "dayu200"
DEFAULT_SERIAL = f"{EMULATED}{DEFAULT_PROFILE}"


def stand_in(session: Session, serial: str = "") -> Hdc:
    """The hdc of the emulated boards; for the board `serial` with a server of its own, which blocks no other board."""
    search = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
    home = session.settings.emulated_boards
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


def serial_of(name: str, entry: BoardEntry | None = None) -> str:
    """The serial of the board of that name under ``ohforge.boards``: an emulated one's where none is written."""
    return (entry.serial if entry is not None else "") or f"{EMULATED}{name.removeprefix(EMULATED)}"


def find_emulated(session: Session, name: str) -> tuple[str, str] | None:
    """Serial and profile of the emulated board of that name; None when the name stands for no emulated board."""
    entry = session.settings.boards.get(name)
    if entry is not None:
        if entry.via or (entry.serial and not entry.serial.startswith(EMULATED)):
            return None
        serial = serial_of(name, entry)
        return serial, entry.profile or serial.removeprefix(EMULATED)
    if TCP_KEY.fullmatch(name):
        return None
    boards = emulated_boards(session)
    return next(((serial, boards[serial]) for serial in (name, serial_of(name)) if serial in boards), None)


def emulated_boards(session: Session) -> dict[str, str]:
    """All emulated boards and their profiles: one for each profile, those of the settings, and those that were made."""
    from deploy.emulator.board.boards import list_emulated

    found = {f"{EMULATED}{profile}": profile for profile in list_profiles()}
    for name, entry in session.settings.boards.items():
        if not entry.via and (not entry.serial or entry.serial.startswith(EMULATED)):
            serial = serial_of(name, entry)
            found.setdefault(serial, entry.profile or serial.removeprefix(EMULATED))
    made = [board for board in list_emulated(session.settings.emulated_boards) if not board.port]
    return found | {board.serial: board.profile for board in made if board.serial not in found}


def default_board(session: Session, why: str) -> HdcBoard:
    """The emulated board that is meant when there is no real one. Raises NoBoard when the settings want none."""
    if session.settings.emulated == "never":
        raise NoBoard(
            f"No board was named, {why}, and by the setting ohforge.emulated no emulated one takes its place.",
            remedy=f"Connect a board, name one with --board, or use the emulated one with --board {DEFAULT_PROFILE}.",
        )
    return emulated_board(session, DEFAULT_SERIAL, DEFAULT_PROFILE, why)


def emulated_board(session: Session, serial: str, profile: str, why: str) -> HdcBoard:
    """The emulated board of that serial, which is made when it is not there; `why` it is meant is said.

    Raises NoBoard for a serial that hdc would not take, ConfigurationError when it is of another kind.
    """
    from deploy.emulator.board.boards import board_folder

    check_key(serial)
    folder = board_folder(serial, session.settings.emulated_boards)
    check_profile(profile)
    name = serial.removeprefix(EMULATED)
    if name != profile:
        kind = _kind_of_emulated(session, folder, profile)
        if name in list_profiles() or kind != profile:
            raise ConfigurationError(
                f"The emulated board {serial} is of the kind {kind}, but ohforge.boards says {profile}.",
                remedy="Choose another name for it under ohforge.boards.",
            )
    session.console.chosen("board", f"emulated {name}" + (f", a {profile}" if name != profile else ""), why)
    return HdcBoard(session, stand_in(session, serial), serial, lambda: load_profile(profile, emulated=True))


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
    home = session.settings.emulated_boards
    made = (home / board.serial / "board.json").is_file() and _server_folder(home, board.serial).is_dir()
    return made and is_running(read_board(home / board.serial))


def limits_of(session: Session, serial: str) -> dict[str, float]:
    """The real limits that an emulated board has been given, by their names in `EmulatedBoard`."""
    from deploy.emulator.board.boards import LIMITS, board_folder, read_board

    try:
        board = read_board(board_folder(serial, session.settings.emulated_boards))
    except FileNotFoundError:
        return {}
    return {name: getattr(board, name) for name in LIMITS if getattr(board, name)}
