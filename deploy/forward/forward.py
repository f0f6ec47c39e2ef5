"""A port of a board at a port of this computer, by ``hdc fport`` or SSH, for as long as it is needed.

A board behind a host has both: hdc forwards to the host, SSH from there to this computer.
hdc ends with status 0 whatever it did: only its words tell. Its server holds the forwards, so one outlives the process
that asked for it, and is gone without a word when the server or the link ends.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from core.deadline import Deadline
from core.errors import BoardError, Failure, ForwardLost, UsageError
from core.session import Session
from deploy.board.protocol import Board
from deploy.hdc.board import HdcBoard
from deploy.hdc.errors import find_fault, make_error, without_log_lines
from deploy.hdc.program import Hdc
from deploy.hdc.servers import find_free_port
from deploy.ssh.board import SshBoard
from deploy.ssh.forward import SshForward, forward_ssh_port

ANSWER_SECONDS = 30.0
PORTS_TRIED = 5
"""Of a port that is free nobody knows whether it still is when hdc listens there."""
TAKEN = "port-forward-taken"
DONE = "Forwardport result:OK"
RULE = re.compile(
    r"^(?P<key>\S+)\s+(?P<here>\S+)\s+(?P<there>\S+)\s+\[(?P<direction>Forward|Reverse)\]\s*$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One row of ``hdc fport ls``. The ends are written as hdc does: ``tcp:8080``, ``localabstract:name`` …"""

    key: str
    here: str
    there: str
    direction: str
    """``Forward``: this computer listens; ``Reverse``: the board does."""


class Forward(Protocol):
    """A port of a board's loopback that can be connected to on this computer's."""

    @property
    def local(self) -> int: ...

    @property
    def remote(self) -> int: ...

    def check(self) -> None:
        """Raises ForwardLost when it is not forwarded any more."""


class HdcForward:
    """A port that an hdc server forwards."""

    def __init__(self, session: Session, board: HdcBoard, local: int, remote: int) -> None:
        self._session, self._board = session, board
        self.local = local
        self.remote = remote

    @property
    def _rule(self) -> Rule:
        here, there = f"tcp:{self.local}", f"tcp:{self.remote}"
        return Rule(key=self._board.key, here=here, there=there, direction="Forward")

    def check(self) -> None:
        """Raises ForwardLost when hdc does not forward the port any more."""
        try:
            why = "" if self._rule in list_forwards(self._session, self._board.hdc) else "hdc does not list it any more"
        except Failure as error:
            why = f"hdc cannot be asked for it: {error.message}"
        if why:
            raise ForwardLost(
                f"Port {self.remote} of board {self._board.serial} is no longer forwarded to port {self.local} of "
                f"{'this computer' if self._board.host is None else 'its host'}: {why.rstrip('.')}."
            )

    def open(self) -> bool:
        """Asks hdc to listen; False when the port of this computer is taken. Raises what hdc refuses it with."""
        words = ("-t", self._board.key, "fport", self._rule.here, self._rule.there)
        waiting = Deadline.after(ANSWER_SECONDS, f"the forwarding of port {self.remote} of board {self._board.serial}")
        said = self._board.hdc.call(self._session, words, deadline=waiting)
        text = without_log_lines(f"{said.text}\n{said.error_text}").strip()
        if DONE in text and "[Fail]" not in text:
            return True
        fault = find_fault(text, "shell")
        if fault is not None and fault.id == TAKEN:
            return False
        subject = f"Board {self._board.serial}, forwarding port {self.remote}"
        raise make_error(fault, text or "nothing", subject=subject, typed=self._board.hdc.typed)

    def close(self) -> None:
        """Ends it. One that is gone already is as good."""
        with contextlib.suppress(Failure):
            waiting = Deadline.after(ANSWER_SECONDS, f"the end of the forwarding of port {self.remote}")
            self._board.hdc.call(self._session, self.remove_words, deadline=waiting)

    @property
    def remove_words(self) -> tuple[str, ...]:
        """The command of hdc that ends it."""
        return ("fport", "rm", self._rule.here, self._rule.there)


class SshForwarding:
    """A port that this process forwards through its own connection to the board, with which it ends."""

    def __init__(self, serial: str, channels: SshForward) -> None:
        self._serial, self._channels = serial, channels
        self.local, self.remote = channels.local, channels.remote

    def check(self) -> None:
        """Raises ForwardLost when the connection has ended."""
        if not self._channels.is_open():
            raise ForwardLost(
                f"Port {self.remote} of board {self._serial} is no longer forwarded to port {self.local} of this "
                "computer: the connection to the board has ended."
            )


class ThroughHost:
    """A port of a board that hdc forwards to its host, and the connection to the host from there."""

    def __init__(self, there: HdcForward, here: SshForwarding) -> None:
        self._there, self._here = there, here
        self.local, self.remote = here.local, there.remote

    def check(self) -> None:
        """Raises ForwardLost when either has ended."""
        self._here.check()
        self._there.check()


@contextlib.contextmanager
def forward_port(session: Session, board: Board, remote: int) -> Iterator[Forward]:
    """Forwards a TCP port of the board's loopback to a free port of this computer's while the block runs.

    It ends with the block, and with this process however that ends. Raises BoardError when no free port can be had,
    UsageError for a board whose ports cannot be forwarded, and what hdc refuses it with.
    """
    require_forwarding(board)
    if isinstance(board, SshBoard):
        waiting = Deadline.after(ANSWER_SECONDS, f"a connection to board {board.serial}")
        with forward_ssh_port(board.connect(waiting), remote) as channels:
            yield SshForwarding(board.serial, channels)
    elif isinstance(board, HdcBoard):
        with _forward_by_hdc(session, board, remote) as forward:
            if board.host is None:
                yield forward
                return
            waiting = Deadline.after(ANSWER_SECONDS, f"a connection to the host {board.host.serial}")
            with forward_ssh_port(board.host.connect(waiting), forward.local) as channels:
                yield ThroughHost(forward, SshForwarding(board.serial, channels))


def require_forwarding(board: Board) -> None:
    """Raises UsageError for a board whose ports cannot be forwarded."""
    if not isinstance(board, HdcBoard | SshBoard):
        raise UsageError(f"Board {board.serial} is reached neither by hdc nor by SSH: its ports cannot be forwarded.")


@contextlib.contextmanager
def _forward_by_hdc(session: Session, board: HdcBoard, remote: int) -> Iterator[HdcForward]:
    for _ in range(PORTS_TRIED):
        port = find_free_port() if board.host is None else board.host.find_port()
        forward = HdcForward(session, board, port, remote)
        with board.hdc.called_if_killed(forward.remove_words), contextlib.ExitStack() as ending:
            # hdc may have listened, whatever interrupts the answer.
            ending.callback(forward.close)
            if not forward.open():
                ending.pop_all()
                continue
            yield forward
            return
    raise BoardError(
        f"No port of the computer with hdc could be had for port {remote} of board {board.serial}: {PORTS_TRIED} that were free "
        "had been taken by others when hdc was to listen there.",
        remedy=f"`{board.hdc.typed} fport ls` lists those that are forwarded.",
    )


def list_forwards(session: Session, hdc: Hdc) -> list[Rule]:
    """All that this hdc server forwards, for whatever board. Raises HdcServerError when there is no server to be had."""
    said = hdc.call(session, ("fport", "ls"), deadline=Deadline.after(ANSWER_SECONDS, "the list of forwarded ports"))
    rules = [Rule(**found.groupdict()) for found in RULE.finditer(said.text)]
    if not rules and "[Empty]" not in said.text:
        text = without_log_lines(f"{said.text}\n{said.error_text}").strip()
        fault = find_fault(text, "list")
        raise make_error(fault, text or "nothing", subject="Listing the forwarded ports", typed=hdc.typed)
    return rules
