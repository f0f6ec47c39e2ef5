"""Commands that the server answers without asking a board."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from deploy.emulator.board.boards import START_SECONDS, EmulatedBoard, generation, list_emulated, start_board
from deploy.emulator.board.faults import FaultFile
from deploy.emulator.protocol.wire import LinkEnded
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.connect import TCP_SECONDS, connect_tcp

POLL_SECONDS = 1.0
REMOVE = " -remove"
LONGEST_ADDRESS = 50
OCTETS = frozenset(map(str, range(256)))


def list_targets(client: Client) -> None:
    """``list targets [-v]``"""
    targets = [
        target
        for target in client.targets.all()
        if target.board is None or not FaultFile(folder=target.board.folder).use("unlisted")
    ]
    if "-v" in client.call.arguments:
        # The client appends a column by replacing every line end of the server's answer.
        lines = [f"{target.key}\t\t{target.kind}\t{target.status}\t{target.name}\n" for target in targets]
        answer = "".join(lines).encode() or b"[Empty]\r\n"
        client.write(answer.replace(b"\n", client.columns + b"\n"))
        return
    forms = {"Connected": "{}\n", "Unauthorized": "{}\tUnauthorized\n"}
    listed = [forms[target.status].format(target.key) for target in targets if target.status in forms]
    client.say("".join(listed) or "[Empty]")


def check_server(client: Client) -> None:
    """``checkserver``"""
    version = client.release.version
    client.write(f"Client version:Ver: {version}, server version:Ver: {version}\n".encode())


def wait_for_board(client: Client) -> None:
    """``wait``: until any board, or the one of ``-t``, is connected, or the server killed."""
    key, born = client.call.key, client.server.read().born
    while client.server.runs and client.server.read().born == born:
        if any(target.status == "Connected" and key in ("", target.key) for target in client.targets.all()):
            return
        time.sleep(POLL_SECONDS)


def connect_board(client: Client) -> None:
    """``tconn KEY [-remove]``"""
    text = client.call.rest.decode("utf-8", "surrogateescape").removeprefix(" ")
    removes = text.endswith(REMOVE)
    key = text.removesuffix(REMOVE).rstrip()
    if key.startswith("localhost:"):
        key = f"127.0.0.1:{key.partition(':')[2]}"
    complaint = _complaint(client, key, too_long=not removes and len(os.fsencode(key)) > LONGEST_ADDRESS)
    if complaint:
        client.say(complaint)
        return
    if removes:
        _remove(client, key)
        return
    known = {target.key: target for target in client.targets.all()}
    if key in known and known[key].status == "Connected":
        client.say("[Info]Target is connected, repeat operation")
        return
    board = next((board for board in list_emulated() if board.key == key), None)
    if ":" not in key:
        client.say("[Fail]CreateConnect failed")
        return
    try:
        name = _meet(client, key, board)
    except (LinkEnded, OSError):
        with client.server.change() as state:
            state.keys[key] = {"status": "Offline"}
        client.say("[Fail]Connect failed")
        return
    with client.server.change() as state:
        state.keys[key] = {
            "name": name,
            "generation": generation(board) if board is not None else "",
            "since": time.time(),
        }
    client.say("Connect OK")


def _meet(client: Client, key: str, board: EmulatedBoard | None) -> str:
    if board is not None:
        if "offline" in FaultFile(folder=board.folder).active():
            raise LinkEnded("offline")
        start_board(board)
    # A board of ours answers, but may take longer for it on a busy machine than a real one does.
    seconds = START_SECONDS if board is not None else TCP_SECONDS if key.startswith("127.0.0.1:") else None
    session = connect_tcp(key, client.release.version, seconds=seconds)
    session.close()
    return session.tags.get("devname", "")


def _remove(client: Client, key: str) -> None:
    with client.server.change() as state:
        if key not in state.keys or state.keys[key].get("status") == "Offline":
            client.say("[Fail]No target available")
            return
        # The key stays listed, as Offline, until the server is killed.
        state.keys[key]["status"] = "Offline"


def _complaint(client: Client, key: str, *, too_long: bool) -> str:
    """What the server finds wrong with an address before it tries it; empty when nothing is."""
    complaint = "[Fail]Error connect key's size\n" if too_long else ""
    address, colon, port = key.partition(":")
    if not colon:
        return complaint
    parts = address.split(".")
    # What is left out between two dots is found missing later than what is there and wrong.
    looks_like_one = len(parts) == 4 and all(not part or part in OCTETS for part in parts)
    if not looks_like_one and client.release.checks_address:
        return "[Fail][E001104]:IP address incorrect\n"
    if not port.isdigit():
        return "[Fail]Port incorrect\n"
    if not (looks_like_one and all(parts)) or not 0 < int(port) < 65536:
        return "[Fail]IP:Port incorrect\n"
    return complaint


def start_server(client: Client) -> None:
    """``start [-r]``: a process that other clients can talk to; the stand-in itself needs none."""
    from deploy.emulator.stand_in.server_process import end_server, start_process

    if "-r" in client.call.arguments:
        end_server(client.server)
    start_process(client.server)


def reconnect(client: Client) -> None:
    """``reconnect KEY``: as if the board's cable had been pulled and put in again."""
    key = client.call.rest.decode("utf-8", "surrogateescape").strip()
    known = {target.key: target for target in client.targets.all()}
    if not key:
        client.say("[Fail]Usage: reconnect <target-key>")
    elif key not in known or known[key].status != "Connected":
        client.say(f"[Fail]Target device {key} not available")
    elif known[key].kind != "USB":
        client.say("[Fail]Reconnect only supports USB devices")
    else:
        client.say(f"Reconnecting {key} ...")


def discover(client: Client) -> None:
    """``discover``: looks for boards in the network, where there are none."""
    client.say(f"[Info]Please add HDC server's firewall ruler to allow udp incoming, udpport:{client.server.port}")
    client.say("[Info]Broadcast find daemon, total:0")


def refuse_words(client: Client) -> None:
    """``version`` with words behind it, which goes to the server and is no command there."""
    client.say("[Fail]Unknown command...\n")


def choose_any(client: Client) -> None:
    """``any``, which is no key but a command: it connects the first board, and fails when there is just one."""
    line = client.call.rest.strip()
    if line:
        client.say("[Fail]Unknown command...\n")
        return
    count = sum(target.status != "Offline" for target in client.targets.all())
    answers = {0: "[Fail]No target available", 1: client.release.broken_link}
    client.say(answers.get(count, "[Info]Target is connected, repeat operation"))


HOST_COMMANDS: dict[str, Callable[[Client], None]] = {
    "list targets": list_targets,
    "checkserver": check_server,
    "wait": wait_for_board,
    "tconn": connect_board,
    "start": start_server,
    "any": choose_any,
    "reconnect": reconnect,
    "discover": discover,
    "version": refuse_words,
}
