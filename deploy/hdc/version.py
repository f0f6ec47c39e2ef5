"""How a board is reached, for records."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.files import write_json
from core.session import Session
from deploy.board.protocol import Board
from deploy.hdc.board import STOP_SECONDS, HdcBoard
from deploy.hdc.program import Hdc
from deploy.ssh.board import SshBoard


def describe_link(session: Session, board: Board) -> dict[str, Any]:
    """How a board is reached, for records: the program and its version, the host that has the board, the lab that lent it."""
    lent = {"lab": board.lender.as_json()} if board.lender is not None else {}
    return {**_program(session, board), **lent}


def tell_link(link: Mapping[str, Any]) -> str:
    """The same in words, out of a record."""
    via = f" on {link['via']}" if "via" in link else ""
    lab = f"; place {link['lab']['place']} of the lab at {link['lab']['coordinator']}" if "lab" in link else ""
    return f"{link['program']} {link['version']}{via}{lab}"


def _program(session: Session, board: Board) -> dict[str, str]:
    if isinstance(board, SshBoard):
        return {"kind": "ssh", "program": "paramiko", "version": importlib.metadata.version("paramiko")}
    if not isinstance(board, HdcBoard):
        return {"kind": "other", "program": type(board).__name__, "version": ""}
    hdc = board.hdc
    if hdc.emulated:
        return {"kind": "stand-in", "program": hdc.title, "version": importlib.metadata.version("ohforge")}
    if hdc.host is not None:
        return {"kind": "hdc", "program": hdc.argv[0], "version": _ask_version(session, hdc), "via": hdc.host.serial}
    return {"kind": "hdc", "program": hdc.argv[0], "version": read_version(session, hdc)}


def read_version(session: Session, hdc: Hdc) -> str:
    """What ``hdc -v`` says, remembered for as long as the program is the same file: one process less for every run."""
    state = Path(hdc.argv[0]).stat()
    key = f"{hdc.argv[0]} {state.st_size} {state.st_mtime_ns}"
    notes = session.settings.cache / "hdc-versions.json"
    try:
        known = dict(json.loads(notes.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        known = {}
    if key not in known:
        known[key] = _ask_version(session, hdc)
        write_json(notes, known)
    return str(known[key])


def _ask_version(session: Session, hdc: Hdc) -> str:
    said = hdc.call(session, ("-v",), deadline=Deadline.after(STOP_SECONDS, "the version of hdc"))
    return said.text.strip().removeprefix("Ver: ")
