"""The boards that hdc servers list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.deadline import Deadline
from core.errors import BoardError, DeadlineExpired
from core.session import Session
from deploy.hdc.errors import find_fault, make_error, without_log_lines
from deploy.hdc.paths import is_key
from deploy.hdc.program import Hdc

LIST_SECONDS = 30.0
"""hdc itself waits about 12 s for a server that does not come up."""
OTHER_LIST_SECONDS = 15.0
NONE = "[Empty]"
STATES = ("Connected", "Offline", "Unauthorized", "Ready", "Unknown", "UNKNOW")
CONNECTIONS = ("USB", "TCP", "UART", "BT")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A board as hdc lists it."""

    key: str
    state: str
    """``Connected``, ``Offline``, ``Unauthorized``, ``Ready`` (seen, not yet usable) or ``Unknown``."""
    connection: str


def list_targets(session: Session, hdc: Hdc, seconds: float = LIST_SECONDS) -> list[Target]:
    """The boards that an hdc server knows. Raises HdcServerError when there is no server to be had."""
    result = hdc.call(session, ("list", "targets", "-v"), deadline=Deadline.after(seconds, "the list of boards"))
    # On standard error stands that there is no server, or what anybody else has to say: never a board.
    targets = read_targets(result.text)
    if not targets and NONE not in result.text:
        everything = without_log_lines(f"{result.text}\n{result.error_text}").strip()
        fault = find_fault(everything, "list")
        if fault is not None or "[Fail]" in result.text:
            raise make_error(fault, everything, subject="Listing the boards", typed=hdc.typed)
    return targets


def read_targets(text: str) -> list[Target]:
    """Understands ``list targets -v`` of every version. None at all is ``[Empty]``, with odd line ends after it."""
    targets = []
    for line in re.split(r"[\r\n]+", text):
        key, *rest = line.split("\t")
        words = [word.strip() for word in rest]
        state = next((word for word in words if word in STATES), "")
        connection = next((word for word in words if word in CONNECTIONS), "")
        if state and is_key(key):
            targets.append(Target(key=key, state="Unknown" if state == "UNKNOW" else state, connection=connection))
    return targets


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
