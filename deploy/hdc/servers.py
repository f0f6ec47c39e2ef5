"""hdc servers of our own, one for each board that is reached by TCP, so that a frozen board blocks no other.

hdc's server is one process for all boards that its port knows, and it stops serving when one of them stops reading. A
server with a port and a temporary folder (``TMPDIR``) of its own is independent of all others; ``hdc kill`` ends the
one of the temporary folder, so with ours it can end no other. Every server claims all USB boards that it sees first,
and one board can be claimed by one server only: so USB boards stay with the server that everybody uses, which is
started before any of ours.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from core.deadline import Deadline
from core.errors import BoardOffline, Failure, HdcServerError
from core.files import write_json
from core.locks import hold
from core.session import Session
from deploy.hdc.board import CONNECTED
from deploy.hdc.errors import find_fault, make_error, without_log_lines
from deploy.hdc.program import Hdc
from deploy.lease.owner import boot_id

CONNECT_SECONDS = 30.0
"""A silent address is waited for without end by hdc itself."""
KILL_SECONDS = 5.0
NOTE = "server.json"
PID_FILE = ".HDCServer.pid"
DEFAULT_PORT = 8710
PORTS_TRIED = 3


@dataclass(frozen=True, kw_only=True)
class OwnServer:
    """Where the server of one board keeps its files; a note there has its port, and whether the board was connected."""

    key: str
    folder: Path

    @classmethod
    def of(cls, session: Session, key: str) -> OwnServer:
        readable = re.sub(r"[^A-Za-z0-9-]", "-", key)[:40]
        digest = hashlib.sha256(key.encode()).hexdigest()[:8]
        return cls(key=key, folder=session.settings.data / "hdc-servers" / f"{readable}-{digest}")

    def read_note(self) -> dict[str, object]:
        """What was noted when the server was used last; nothing when that was before the computer's restart."""
        try:
            note = dict(json.loads((self.folder / NOTE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}
        return note if note.get("boot") == boot_id() and isinstance(note.get("port"), int) else {}

    def choose_port(self) -> int:
        """The port of the last time while it is ours, else a free one, which is noted."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with hold(self.folder / "port.lock", Deadline.after(10, "the port of an hdc server")):
            port = self.read_note().get("port")
            if not isinstance(port, int) or not (is_free(port) or self._is_alive()):
                port = find_free_port()
                self.note(port)
        return port

    def note(self, port: int, **state: bool) -> None:
        write_json(self.folder / NOTE, {"key": self.key, "port": port, "boot": boot_id(), **state})

    def _is_alive(self) -> bool:
        """Whether a server of this folder runs: then it is the one that holds the port."""
        number = self._number()
        return number is not None and _runs(number)

    def has_ended(self) -> bool:
        """Whether a server of this folder has run and is dead: it knows no board any more."""
        number = self._number()
        return number is not None and not _runs(number)

    def _number(self) -> int | None:
        try:
            return int((self.folder / PID_FILE).read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None


def own_hdc(session: Session, hdc: Hdc, key: str) -> Hdc:
    """The same hdc with a server for this board alone, which the first command starts; a Windows hdc has the usual one."""
    if hdc.bridge is not None:
        return hdc
    server = OwnServer.of(session, key)
    return _with_server(hdc, server, server.choose_port())


def connected_hdc(session: Session, hdc: Hdc, key: str) -> Hdc | None:
    """The same hdc with this board's own server, when that has the board as far as is known: the first command tells."""
    if hdc.bridge is not None:
        return None
    server = OwnServer.of(session, key)
    note = server.read_note()
    port = note.get("port")
    if note.get("connected") is not True or not isinstance(port, int) or server.has_ended():
        return None
    return _with_server(hdc, server, port)


def connect_board(session: Session, hdc: Hdc, key: str) -> tuple[Hdc, bool]:
    """Connects a TCP board; returns the hdc to use from here on, and whether the connection is new.

    When the port of an own server turns out to be taken, another one is tried. Raises NoBoard for a wrong address,
    BoardOffline when nothing answers there, HdcServerError.
    """
    for attempt in range(PORTS_TRIED):
        deadline = Deadline.after(CONNECT_SECONDS, f"a connection to {key}")
        result = hdc.call(session, ("tconn", key), deadline=deadline)
        text = without_log_lines(f"{result.text}\n{result.error_text}").strip()
        fault = find_fault(text, "connect") if CONNECTED.search(text) is None else None
        if fault is None and "[Fail]" not in text:
            if hdc.connected is not None:
                hdc.connected(True)
            return hdc, "repeat operation" not in text
        subject = f"Board {hdc.serial_of(key)}"
        failed = make_error(fault, text, subject=subject, typed=hdc.typed, otherwise=BoardOffline)
        if not isinstance(failed, HdcServerError) or hdc.renew is None or attempt == PORTS_TRIED - 1:
            raise failed
        session.console.detail(f"{failed.message}; trying another port")
        hdc = hdc.renew(session)
    raise AssertionError("the last attempt returns or raises")


def end_unused(session: Session, hdc: Hdc, key: str) -> None:
    """Ends the board's own server when it has never had the board: it would run for nobody."""
    server = OwnServer.of(session, key)
    if hdc.connected is not None and "connected" not in server.read_note() and not _is_somebody_else(server.folder):
        end_server(session, hdc)


def own_servers(session: Session, hdc: Hdc) -> list[tuple[str, Hdc]]:
    """Boards with a server of their own that has had them and runs, each with its hdc: to ask a dead one would start it."""
    found: list[tuple[str, Hdc]] = []
    if hdc.bridge is not None:
        return found
    for note_file in sorted((session.settings.data / "hdc-servers").glob(f"*/{NOTE}")):
        server = OwnServer(key="", folder=note_file.parent)
        note = server.read_note()
        key, port = note.get("key"), note.get("port")
        if "connected" not in note or server.has_ended():
            continue
        if isinstance(key, str) and isinstance(port, int) and OwnServer.of(session, key).folder == note_file.parent:
            found.append((key, _with_server(hdc, replace(server, key=key), port)))
    return found


def claim_usb_first(session: Session, hdc: Hdc) -> None:
    """Starts the server that everybody uses when it does not run, so that it, and none of ours, has the USB boards."""
    if hdc.bridge is not None:
        return
    given = os.environ.get("OHOS_HDC_SERVER_PORT", "")
    port = int(given) if given.isdigit() and int(given) < 65536 else DEFAULT_PORT
    if is_free(port):
        # Without it the board can be used all the same.
        with contextlib.suppress(Failure):
            hdc.call(session, ("list", "targets", "-v"), deadline=Deadline.after(CONNECT_SECONDS, "the hdc server"))


def with_folder(hdc: Hdc, folder: Path) -> Hdc:
    """The same hdc with the server of that temporary folder, on the usual port: for the stand-in, which opens none."""

    def renew(session: Session) -> Hdc:
        end_server(session, own)
        return own

    own = replace(hdc, environment={**hdc.environment, "TMPDIR": str(folder)}, renew=renew)
    return own


def _with_server(hdc: Hdc, server: OwnServer, port: int) -> Hdc:
    def renew(session: Session) -> Hdc:
        if not _is_somebody_else(server.folder):
            end_server(session, own)
        fresh = find_free_port()
        server.note(fresh)
        return _with_server(hdc, server, fresh)

    def connected(state: bool) -> None:
        server.note(port, connected=state)

    environment = {**hdc.environment, "TMPDIR": str(server.folder), "OHOS_HDC_SERVER_PORT": str(port)}
    own = replace(hdc, environment=environment, renew=renew, connected=connected)
    return own


def end_server(session: Session, hdc: Hdc) -> None:
    """Ends the server of this hdc's temporary folder. A server that does not even end is left."""
    try:
        hdc.call(session, ("kill",), deadline=Deadline.after(KILL_SECONDS, "the end of an hdc server"))
    except Failure as error:
        session.console.detail(f"the hdc server of {hdc.environment.get('TMPDIR')}: {error.message}")


def _runs(number: int) -> bool:
    try:
        os.kill(number, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _is_somebody_else(folder: Path) -> bool:
    """Whether the number in a server's note belongs to another program by now, which ``hdc kill`` would end."""
    try:
        number = int((folder / PID_FILE).read_text().split()[0])
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, IndexError):
        return False
    return not (b"hdc" in words[0].rpartition(b"/")[2] and b"-m" in words)


def is_free(port: int) -> bool:
    """Whether nobody listens on that port of this computer."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def find_free_port() -> int:
    """A port of this computer that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
