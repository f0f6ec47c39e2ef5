"""How the daemon meets a host: at once, or after the board's user has agreed to it."""

from __future__ import annotations

import time

from deploy.emulator.board.consent import complaint_of
from deploy.emulator.board.session import Session
from deploy.emulator.protocol.wire import (
    BANNER,
    Auth,
    Command,
    Level,
    LinkEnded,
    pack,
    pack_tags,
    read_frame,
    text,
    unpack,
)

FIRST_WITH_TAGS = b"Ver: 3.0.0b"
"""Hosts of an older version get the board's name alone; versions are compared as strings."""
TOO_OLD = "[E000001]:The sdk hdc.exe version is too low, please upgrade to the latest version."


def greet(session: Session, *, secure: bool) -> None:
    """Shakes hands. Raises LinkEnded when the other side is no host, or one that cannot prove who it is."""
    hello = _read(session)
    version = text(hello, 6)
    if version < FIRST_WITH_TAGS:
        session.refusal = TOO_OLD if secure else ""
        session.send(
            0, Command.HANDSHAKE, pack(BANNER, Auth.OK, 0, b"", session.board.shown.host_name.encode(), version)
        )
    else:
        if secure:
            _authorise(session, version)
        _agree(session, version, "", "SUCCESS")
    session.send(0, Command.CHANNEL_CLOSE, b"\x01")


def _read(session: Session) -> dict[int, int | bytes]:
    while True:
        _, command, data = read_frame(session.link)
        if command == Command.HANDSHAKE:
            break
        if command not in (Command.CHANNEL_CLOSE, Command.HEARTBEAT):
            raise LinkEnded("no handshake")
    hello = unpack(data)
    if text(hello, 1) != BANNER:
        raise LinkEnded("no handshake")
    return hello


def _agree(session: Session, version: bytes, complaint: str, status: str) -> None:
    tags = {
        "emgmsg": complaint,
        "devname": session.board.shown.host_name,
        "daemonauthstatus": status,
    }
    release = session.board.release
    tags |= {"1200": "enable"} if release.bundles else {}
    tags |= {"supportfeatures": "heartbeat"} if release.heartbeat else {}
    session.send(0, Command.HANDSHAKE, pack(BANNER, Auth.OK, 0, b"", pack_tags(tags), version))


def _authorise(session: Session, version: bytes) -> None:
    from deploy.emulator.protocol import auth

    _ask(session, Auth.PUBLIC_KEY, pack_tags({"authtype": "1"}), version)
    _, _, pem = text(_read(session), 5).partition(auth.SEPARATOR)
    known = auth.KnownKeys(session.board.folder / "known_hosts")
    if not known.has(pem):
        _ask_user(session, version)
        known.add(pem)
    token = auth.new_token()
    _ask(session, Auth.SIGNATURE, token, version)
    if not auth.is_signed(pem, token, text(_read(session), 5)):
        _ask(session, Auth.FAIL, b"", version)
        raise LinkEnded("the signature is wrong")


def _ask(session: Session, kind: int, message: bytes, version: bytes) -> None:
    session.send(0, Command.HANDSHAKE, pack(BANNER, kind, 0, b"", message, version))


def _ask_user(session: Session, version: bytes) -> None:
    """The dialog on the board's screen. Its user says yes, unless a fault says otherwise."""
    told = ""
    while True:
        faults = session.board.faults.active()
        complaint = complaint_of(faults, session.board.release)
        if not complaint:
            return
        if complaint != told:
            message = complaint.removeprefix("[Fail]")
            _agree(session, version, message, "DAEMON_UNAUTH")
            session.send(0, Command.CHANNEL_CLOSE, b"\x01")
            session.echo(0, Level.FAIL, message)
            told = complaint
        if session.is_gone():
            raise LinkEnded("the host has gone")
        time.sleep(0.05)
