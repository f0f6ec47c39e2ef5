"""Who answers a call of the hdc stand-in: the client itself, the server that it ends or becomes, or a command."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from deploy.emulator.stand_in.arguments import Call
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.commands import run_command
from deploy.emulator.stand_in.state import NoServer, Server

USAGE = """\
hdc stand-in for emulated OpenHarmony boards

hdc [-t KEY] [-s [IP:]PORT] COMMAND
  list targets [-v]                     boards
  wait                                  until a board is connected
  tconn KEY [-remove]                   connect a board over TCP
  shell [COMMAND]                       run a command on the board
  file send|recv [-a|-z|-m|-sync] FROM TO
  fport LOCAL REMOTE, rport REMOTE LOCAL, fport ls, fport rm LOCAL REMOTE
  hilog                                 the board's log
  target mount, target boot, smode, tmode usb|port [N]
  start, kill, checkserver, version
"""
"""The real hdc prints a text of its own here."""


def answer(call: Call, server: Server) -> None:
    """Answers a call. Raises NoServer."""
    client = Client(call=call, server=server)
    if "v" in call.flags or call.command == "version":
        client.write(f"Ver: {client.release.version}\n".encode())
    elif "h" in call.flags:
        sys.stderr.write(USAGE)
    elif call.command == "help":
        client.write(USAGE.encode())
    elif call.command == "kill":
        _kill_server(client)
    elif "m" in call.flags:
        from deploy.emulator.stand_in.server import serve

        serve(server)
    else:
        _reach_server(client)
        if not run_command(client):
            client.write(b"Unknown operation command...\n")
            sys.stderr.write(USAGE)


def _kill_server(client: Client) -> None:
    state = client.server.kill()
    if state.forwards:
        from deploy.emulator.stand_in.forward_process import end_forward

        for forward in state.forwards:
            end_forward(forward)
    if state.process:
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.process, signal.SIGTERM)
    if "-r" in client.call.arguments:
        client.server.start()
    if os.isatty(1):
        client.write(b"Kill server finish")


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
