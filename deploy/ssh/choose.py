"""Which SSH board is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.session import Session
from core.settings import BoardEntry
from deploy.board.profiles import UNKNOWN_BOARD, check_profile, load_profile
from deploy.ssh.address import is_ssh, ssh_serial

if TYPE_CHECKING:
    from deploy.ssh.board import SshBoard


def find_ssh(session: Session, name: str) -> tuple[str, BoardEntry] | None:
    """Serial and settings of the SSH board of that name or address; None when it stands for no SSH board. Raises NoBoard."""
    entry = session.settings.boards.get(name)
    if entry is not None:
        return (ssh_serial(entry.serial), entry) if entry.over_ssh else None
    if not is_ssh(name):
        return None
    serial = ssh_serial(name)
    return serial, ssh_entries(session).get(serial, BoardEntry())


def ssh_entries(session: Session) -> dict[str, BoardEntry]:
    """The SSH boards of the settings by their serials."""
    entries = session.settings.boards.values()
    return {ssh_serial(entry.serial): entry for entry in entries if entry.over_ssh}


def ssh_board(session: Session, serial: str, entry: BoardEntry, why: str, *, accept_new: bool = False) -> SshBoard:
    """The SSH board of that serial, which is connected when something is asked of it. Raises UnknownName for its profile."""
    from deploy.ssh.board import SshBoard

    profile = entry.profile or UNKNOWN_BOARD
    check_profile(profile)
    kind = "" if profile == UNKNOWN_BOARD else f", {profile}"
    session.console.chosen("board", f"{serial}{kind}", why)
    return SshBoard(session, serial, lambda: load_profile(profile), device_dir=entry.device_dir, accept_new=accept_new)
