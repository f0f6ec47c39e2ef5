"""From a board's key to a session with its daemon."""

from __future__ import annotations

import socket

from deploy.emulator.board.boards import connect
from deploy.emulator.protocol.wire import LinkEnded
from deploy.emulator.stand_in.session import Session
from deploy.emulator.stand_in.targets import NoTarget, Target

TCP_SECONDS = 1.0
"""How long hdc gives a board on 127.0.0.1 to answer; a silent one elsewhere is waited for without end."""


def open_session(target: Target, version: str) -> Session:
    """A session with the board's daemon. Raises LinkEnded, and NoTarget when the board has not accepted this host."""
    if target.board is not None and not target.board.port:
        return Session(connect(target.board), target.key, f"Ver: {version}")
    try:
        session = connect_tcp(target.key, version, seconds=None)
    except OSError as error:
        raise LinkEnded(str(error)) from error
    if complaint := session.tags.get("emgmsg"):
        session.close()
        raise NoTarget(f"[Fail]{complaint}")
    return session


def connect_tcp(key: str, version: str, *, seconds: float | None) -> Session:
    """A session with the daemon at ``IP:PORT``. Raises OSError or LinkEnded; `seconds` bounds the greeting."""
    address, _, port = key.rpartition(":")
    connection = socket.create_connection((address, int(port)), timeout=seconds)
    try:
        session = Session(connection, key, f"Ver: {version}")
    except BaseException:
        connection.close()
        raise
    connection.settimeout(None)
    return session
