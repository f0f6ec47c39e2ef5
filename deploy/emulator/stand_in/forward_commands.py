"""``fport`` and ``rport``."""

from __future__ import annotations

from deploy.emulator.protocol.relay import KINDS, BadNode, check_node
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.forward_process import OK, end_forward, is_alive, start_forward
from deploy.emulator.stand_in.on_board import with_target
from deploy.emulator.stand_in.targets import Target


def run_forward(client: Client) -> None:
    """``fport ls``, ``fport rm A B``, ``fport LOCAL REMOTE``, ``rport REMOTE LOCAL``"""
    words = client.call.arguments
    if not words:
        client.say("[Fail]Unknown command...\n")
    elif words == ("ls",) and client.call.command == "fport":
        _list(client)
    elif words[0].startswith("rm") and client.call.command == "fport":
        _remove(client, " ".join(words[1:]))
    else:
        _add(client)


def _complain_of_node(client: Client) -> str:
    known = client.call.arguments[0].startswith(tuple(f"{kind}:" for kind in KINDS))
    return "" if known else "[Fail]Incorrect forward command\n"


def _list(client: Client) -> None:
    with client.server.change() as state:
        state.forwards = [forward for forward in state.forwards if is_alive(forward)]
        lines = [
            f"{forward['key']}    {forward['first']} {forward['second']}    [{forward['direction']}]\n"
            for forward in state.forwards
        ]
    client.say("".join(lines) or "[Empty]")


def _remove(client: Client, rule: str) -> None:
    with client.server.change() as state:
        found = [forward for forward in state.forwards if f"{forward['first']} {forward['second']}" == rule]
        state.forwards = [forward for forward in state.forwards if forward not in found]
    for forward in found:
        end_forward(forward)
    if found:
        client.say(f"Remove forward ruler success, ruler:{rule}")
    else:
        client.say(f"[Fail]Remove forward ruler failed, ruler is not exist {rule}")


@with_target(_complain_of_node)
def _add(client: Client, target: Target) -> None:
    try:
        first, second = (*client.call.arguments, "")[:2]
        check_node(first)
        check_node(second)
    except BadNode as error:
        client.say(f"[Fail]{error}")
        return
    direction = "Forward" if client.call.command == "fport" else "Reverse"
    answer, process = start_forward(target.key, direction, first, second)
    if answer != OK:
        client.say(answer or "[Fail]Forward parament failed")
        return
    with client.server.change() as state:
        state.forwards.append(
            {"key": target.key, "first": first, "second": second, "direction": direction, "pid": process}
        )
    client.say("Forwardport result:OK")
