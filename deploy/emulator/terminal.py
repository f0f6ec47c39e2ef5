"""``shell`` without a command, on a terminal."""

from __future__ import annotations

import os
import select
import termios
import tty
from typing import TYPE_CHECKING

from deploy.emulator.wire import Command

if TYPE_CHECKING:
    from deploy.emulator.client import Client
    from deploy.emulator.link import Link


def relay_terminal(client: Client, link: Link) -> None:
    """Passes keys to the board and the board's output to the terminal until the board's shell ends."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        answers = link.answers()
        while True:
            ready, _, _ = select.select([0, link.fileno()], [], [])
            if 0 in ready:
                keys = os.read(0, 4096)
                if not keys:
                    return
                link.send(Command.SHELL_DATA, keys)
            if link.fileno() in ready:
                answer = next(answers, None)
                if answer is None:
                    return
                client.show(*answer)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
