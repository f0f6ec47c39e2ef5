"""How a command gets to its board."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from deploy.emulator.board.faults import FaultFile
from deploy.emulator.protocol.wire import LinkEnded
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.session import Session
from deploy.emulator.stand_in.targets import NoTarget, Target

BoardCommand = Callable[[Client, Target], None]
SWALLOW_SECONDS = 0.3
"""For so long after ``Connect OK`` an authorised TCP board loses what it is told."""


def with_target(
    complain: Callable[[Client], str | bytes] = lambda client: "",
) -> Callable[[BoardCommand], Callable[[Client], None]]:
    """Gives a command its board, or says why there is none. A link that breaks ends a command in silence.

    `complain` says what is wrong with the command's words, which the server tells before it asks how many boards
    there are, but after it has looked for the one of ``-t``.
    """

    def give(command: BoardCommand) -> Callable[[Client], None]:
        def run(client: Client) -> None:
            try:
                target = client.choose()
                if complaint := complain(client):
                    client.say(complaint)
                    return
                with contextlib.suppress(LinkEnded):
                    command(client, target)
            except NoTarget as error:
                undecided = str(error) == client.release.need_key
                client.say((undecided and complain(client)) or str(error))

        return run

    return give


def simple_command(client: Client, target: Target, command: int, data: bytes = b"") -> None:
    """Sends one frame and shows the answers."""
    with contextlib.closing(client.open(target)) as session:
        session.send(command, data)
        show_all(client, session)


def is_swallowed(client: Client, target: Target) -> bool:
    """Whether a command comes too early after a board was connected."""
    if target.board is None:
        return False
    known = client.server.read().keys.get(target.key, {})
    if target.board.secure and target.board.port and time.time() < float(known.get("since", 0.0)) + SWALLOW_SECONDS:
        return True
    faults = FaultFile(folder=target.board.folder)
    fault = faults.active().get("empty-first")
    if fault is None or int(known.get("told", 0)) >= fault["commands"]:
        return False
    with client.server.change() as state:
        known = state.keys.setdefault(target.key, {})
        known["told"] = int(known.get("told", 0)) + 1
    return faults.use("empty-first") is not None


def show_all(client: Client, session: Session) -> None:
    for command, data in session.answers():
        client.show(command, data)
