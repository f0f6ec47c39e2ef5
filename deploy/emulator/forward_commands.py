"""``fport`` and ``rport``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.emulator.forward import OK, end_forward, is_alive, start_forward
from deploy.emulator.forwarding import BadNode, check_node
from deploy.emulator.targets import NoTarget

if TYPE_CHECKING:
    from deploy.emulator.client import Client


def run_forward(client: Client) -> None:
    """``fport ls``, ``fport rm A B``, ``fport LOCAL REMOTE``, ``rport REMOTE LOCAL``"""
    words = client.call.arguments
    if words[:1] == ("ls",):
        _list(client)
    elif words[:1] == ("rm",) and len(words) == 3:
        _remove(client, words[1], words[2])
    elif len(words) == 2:
        _add(client, words[0], words[1])
    else:
        client.say("[Fail]Incorrect forward command\n")


def _list(client: Client) -> None:
    with client.server.change() as state:
        state.forwards = [forward for forward in state.forwards if is_alive(forward)]
        lines = [
            f"{forward['key']}    {forward['first']} {forward['second']}    [{forward['direction']}]\n"
            for forward in state.forwards
        ]
    client.say("".join(lines) or "[Empty]")


def _remove(client: Client, first: str, second: str) -> None:
    with client.server.change() as state:
        found = [forward for forward in state.forwards if (forward["first"], forward["second"]) == (first, second)]
        state.forwards = [forward for forward in state.forwards if forward not in found]
    for forward in found:
        end_forward(forward)
    if found:
        client.say(f"Remove forward ruler success, ruler:{first} {second}")
    else:
        client.say(f"[Fail]Remove forward ruler failed, ruler is not exist {first} {second}")


def _add(client: Client, first: str, second: str) -> None:
    try:
        target = client.targets.choose(client.call.key)
        check_node(first)
        check_node(second)
    except NoTarget as error:
        client.refuse(error)
        return
    except BadNode as error:
        client.say(f"[Fail]{error}")
        return
    direction = "Forward" if client.call.words == "fport" else "Reverse"
    answer, process = start_forward(target.key, direction, first, second)
    if answer != OK:
        client.say(answer or "[Fail]Forward parament failed")
        return
    with client.server.change() as state:
        state.forwards.append(
            {"key": target.key, "first": first, "second": second, "direction": direction, "pid": process}
        )
    client.say("Forwardport result:OK")
