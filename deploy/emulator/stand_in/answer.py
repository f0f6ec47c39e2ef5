"""Who answers a call of the hdc stand-in: the client itself, the server that it ends or becomes, or a command."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

from deploy.emulator.stand_in.arguments import DEBUG_LEVEL, Call
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.commands import run_command
from deploy.emulator.stand_in.state import NoServer, Server
from deploy.emulator.stand_in.usage import USAGE, VERBOSE


def answer(call: Call, server: Server) -> None:
    """Answers a call. Raises NoServer."""
    client = Client(call=call, server=server)
    if "v" in call.flags or (call.command == "version" and not call.arguments):
        client.write(f"Ver: {client.release.version}\n".encode())
    elif "h" in call.flags:
        sys.stderr.write(USAGE + VERBOSE if "verbose" in call.words else USAGE)
    elif call.command == "help":
        client.write((USAGE + VERBOSE if call.arguments == ("verbose",) else USAGE).encode())
    elif call.command == "keygen":
        _make_key(call)
    elif call.command == "kill":
        _kill_server(client)
    elif "m" in call.flags:
        from deploy.emulator.stand_in.server import serve

        client.log(
            "I", f"Program running. Ver: {client.release.version} Pid:{os.getpid()}, port: {server.port}".encode()
        )
        serve(server, client.call.forward_ip)
    else:
        _reach_server(client)
        if not run_command(client):
            client.write(b"Unknown operation command...\n")
            sys.stderr.write(USAGE)


def _kill_server(client: Client) -> None:
    from deploy.emulator.stand_in.server_process import end_server, start_process

    end_server(client.server)
    if "-r" in client.call.arguments:
        start_process(client.server)
    if os.isatty(1):
        client.write(b"Kill server finish")
    elif client.call.level >= DEBUG_LEVEL:
        client.write(b"\r\nKill server finish\n")


def _make_key(call: Call) -> None:
    """``keygen FILE``, which says nothing."""
    from deploy.emulator.protocol.auth import new_key

    with contextlib.suppress(OSError, IndexError):
        new_key(Path(call.arguments[0]))


def _reach_server(client: Client) -> None:
    server = client.server
    down = client.targets.server_fault("server-down")
    if down is None and not server.runs:
        down = client.targets.server_fault("port-taken")
    if down is not None:
        time.sleep(down["seconds"])
        raise NoServer("Connect server failed\n")
    if "p" not in client.call.flags:
        server.start()
    if not server.runs:
        raise NoServer("Connect server failed\n", wait=True)
    if server.read().stuck_on:
        # The server writes to a board that does not read; nobody else is served, until it is killed.
        while server.read().stuck_on:
            time.sleep(0.05)
    if client.targets.server_fault("log-lines"):
        client.log("I", b"client log line")
