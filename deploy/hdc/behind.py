"""Which board behind a host is meant, and whether hdc there has it."""

from __future__ import annotations

from core.deadline import Deadline
from core.errors import BoardOffline, NoBoard, nearest
from core.session import Session
from core.settings import BoardEntry
from deploy.board.profiles import UNKNOWN_BOARD, check_profile, load_profile
from deploy.hdc.board import TCP_KEY, HdcBoard
from deploy.hdc.paths import check_key
from deploy.hdc.program import Hdc
from deploy.hdc.servers import connect_board
from deploy.hdc.targets import list_targets
from deploy.ssh.address import split_host, ssh_serial

READY_SECONDS = 20.0


def serial_behind(entry: BoardEntry) -> str:
    """The serial of a board behind a host as the settings name it: ``ssh://[USER@]HOST[:PORT]/KEY``."""
    return f"{ssh_serial(entry.via)}/{entry.key}"


def find_behind(session: Session, name: str) -> tuple[str, str, BoardEntry] | None:
    """Host, key and settings of the board behind a host of that name or serial; None when it stands for no such board.

    Raises NoBoard for an address that cannot be one.
    """
    entry = session.settings.boards.get(name)
    if entry is not None:
        return (ssh_serial(entry.via), entry.key, entry) if entry.via else None
    if (split := split_host(name)) is None:
        return None
    entries = [entry for entry in session.settings.boards.values() if entry.via]
    return (*split, next((entry for entry in entries if serial_behind(entry) == "/".join(split)), BoardEntry()))


def board_behind(
    session: Session, host: str, key: str, entry: BoardEntry, why: str, *, accept_new: bool = False
) -> HdcBoard:
    """The board that hdc on `host` calls `key`. Neither is asked anything yet. Raises NoBoard, UnknownName for its profile."""
    from deploy.hdc.host import HdcHost

    check_key(key)
    profile = entry.profile or UNKNOWN_BOARD
    check_profile(profile)
    program = entry.hdc or "hdc"
    words = ("-s", entry.hdc_server) if entry.hdc_server else ()
    on_host = HdcHost(session, host, accept_new=accept_new)
    hdc = Hdc(argv=(program, *words), title=f"hdc of {host}", host=on_host)
    kind = "" if profile == UNKNOWN_BOARD else f", {profile}"
    session.console.chosen("board", f"{host}/{key}{kind}", f"{why}; hdc is {program} of the host {host}")
    return HdcBoard(session, hdc, key, lambda: load_profile(profile))


def ready_behind(session: Session, board: HdcBoard) -> HdcBoard:
    """The same board, after hdc there has said that it is usable; one at an address is connected, but not with ``--dry``.

    Raises NoBoard, BoardOffline, BoardUnauthorised, HdcNotFound, LostConnection and what `SshLink.open` raises.
    """
    states = {target.key: target.state for target in list_targets(session, board.hdc)}
    state = states.get(board.key, "")
    ready = Deadline.after(READY_SECONDS + session.settings.timeouts.authorise, f"board {board.serial}")
    if state in ("", "Offline"):
        if TCP_KEY.fullmatch(board.key) and not session.dry:
            if connect_board(session, board.hdc, board.key)[1]:
                board.make_ready(ready)
        elif state:
            raise BoardOffline(
                f"Board {board.serial} is known to hdc there, but not connected now.",
                remedy=f"Reconnect it to the host; `{board.hdc.typed} list targets -v` shows what hdc there has.",
            )
        else:
            raise NoBoard(
                f"hdc of the host has no board {board.serial}; {nearest(board.key, list(states))}.",
                remedy=f"Connect it to the host; `{board.hdc.typed} list targets -v` shows what hdc there has.",
            )
    elif state == "Unauthorized":
        board.make_ready(ready)
    return board
