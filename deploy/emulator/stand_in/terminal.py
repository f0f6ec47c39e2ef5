"""``shell`` without a command, on a terminal."""

from __future__ import annotations

import os
import select
import termios
import tty

from deploy.emulator.protocol.wire import Command
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.session import Session


def relay_terminal(client: Client, session: Session) -> None:
    """Passes keys to the board and the board's output to the terminal until the board's shell ends."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        answers = session.answers()
        while True:
            ready, _, _ = select.select([0, session.fileno()], [], [])
            if 0 in ready:
                keys = os.read(0, 4096)
                if not keys:
                    return
                session.send(Command.SHELL_DATA, keys)
            if session.fileno() in ready:
                answer = next(answers, None)
                if answer is None:
                    return
                client.show(*answer)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
