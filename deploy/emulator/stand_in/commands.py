"""Which function answers a command. The modules of commands are loaded when they are needed: a call has to start quickly."""

from __future__ import annotations

from deploy.emulator.stand_in.client import Client


def run_command(client: Client) -> bool:
    """Runs the command of a call; False when there is none of that name."""
    from deploy.emulator.stand_in.board_commands import BOARD_COMMANDS

    command = "wait" if client.call.command.startswith("wait") else client.call.command
    if command in BOARD_COMMANDS:
        BOARD_COMMANDS[command](client)
        return True
    if command in ("fport", "rport"):
        from deploy.emulator.stand_in.forward_commands import run_forward

        run_forward(client)
        return True
    from deploy.emulator.stand_in.host_commands import HOST_COMMANDS

    if command in HOST_COMMANDS:
        HOST_COMMANDS[command](client)
        return True
    return False
