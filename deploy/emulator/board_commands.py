"""Commands that a board answers."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from deploy.emulator.targets import NoTarget, Target
from deploy.emulator.wire import Command, LinkEnded

if TYPE_CHECKING:
    from deploy.emulator.client import Client
    from deploy.emulator.link import Link

USB_RETURN_SECONDS = 2.0
"""How long a USB board is away when its daemon is restarted, and when the board is."""
BOOT_SECONDS = 4.0
SWALLOW_SECONDS = 0.3
"""For so long after ``Connect OK`` an authorised TCP board loses what it is told."""


def with_target(command: Callable[[Client, Target], None]) -> Callable[[Client], None]:
    """Gives a command its board, or says why there is none. A link that breaks ends a command in silence."""

    def run(client: Client) -> None:
        try:
            target = client.targets.choose(client.call.key)
            with contextlib.suppress(LinkEnded):
                command(client, target)
        except NoTarget as error:
            client.refuse(error)

    return run


@with_target
def run_shell(client: Client, target: Target) -> None:
    """``shell [TEXT]``"""
    text = client.call.rest.strip(b" \t\r\n")
    # Words that came to nothing, because one was too long, are an empty command, not a terminal.
    if not client.call.arguments:
        _run_terminal(client, target)
        return
    if text.startswith(b"-"):
        _run_in_bundle(client, target, text)
        return
    if is_swallowed(client, target):
        return
    with contextlib.closing(client.open(target)) as link:
        link.send(Command.EXECUTE, text)
        show_all(client, link)


def is_swallowed(client: Client, target: Target) -> bool:
    """Whether a command comes too early after a ``tconn`` to a board that asks for authorisation."""
    if target.board is None or not (target.board.secure and target.board.port):
        return False
    since = float(client.server.read().keys.get(target.key, {}).get("since", 0.0))
    return time.time() < since + SWALLOW_SECONDS


def show_all(client: Client, link: Link) -> None:
    for command, data in link.answers():
        client.show(command, data)


def _run_in_bundle(client: Client, target: Target, text: bytes) -> None:
    option, _, rest = text.partition(b" ")
    if option != b"-b":
        client.say(b"[Fail][E003003] Unsupport shell option: " + option + b"\n")
        return
    bundle, _, line = rest.strip().partition(b" ")
    records = b"".join(
        tag.to_bytes(4, "little") + len(value).to_bytes(4, "little") + value for tag, value in ((0, line), (1, bundle))
    )
    simple_command(client, target, Command.EXECUTE_EX, records)


def _run_terminal(client: Client, target: Target) -> None:
    if not os.isatty(0):
        client.log("W", b"Not support stdio TTY mode")
    with contextlib.closing(client.open(target)) as link:
        link.send(Command.SHELL_START)
        if os.isatty(0):
            from deploy.emulator.terminal import relay_terminal

            relay_terminal(client, link)
        else:
            show_all(client, link)


def simple_command(client: Client, target: Target, command: int, data: bytes = b"") -> None:
    """Sends one frame and shows the answers."""
    with contextlib.closing(client.open(target)) as link:
        link.send(command, data)
        show_all(client, link)


@with_target
def show_log(client: Client, target: Target) -> None:
    """``hilog``: every argument but -h is dropped."""
    simple_command(client, target, Command.HILOG, b"h" if "-h" in client.call.arguments else b"")


@with_target
def remount(client: Client, target: Target) -> None:
    """``target mount``"""
    simple_command(client, target, Command.REMOUNT)


@with_target
def reboot(client: Client, target: Target) -> None:
    """``target boot [MODE]``"""
    _go_away(client, target, BOOT_SECONDS)
    simple_command(client, target, Command.REBOOT, client.call.rest.strip())


@with_target
def change_user(client: Client, target: Target) -> None:
    """``smode [-r]``"""
    with contextlib.closing(client.open(target)) as link:
        link.send(Command.ROOTRUN, b"r" if "-r" in client.call.arguments else b"")
        try:
            show_all(client, link)
        except LinkEnded:
            _go_away(client, target, USB_RETURN_SECONDS)


def _go_away(client: Client, target: Target, seconds: float) -> None:
    """A USB board comes back by itself; a TCP board is lost, which its daemon's new generation shows."""
    if target.kind == "USB":
        with client.server.change() as state:
            state.keys[target.key] = {"back_at": time.time() + seconds}


@with_target
def set_run_mode(client: Client, target: Target) -> None:
    """``tmode usb | port [N] | port close``"""
    mode = client.call.rest.strip()
    words = mode.split()
    if not words or words[0] not in (b"usb", b"port") or len(words) > 2:
        client.say("[Fail]Unknown command...\n")
        return
    simple_command(client, target, Command.RUNMODE, mode)


@with_target
def list_debuggable(client: Client, target: Target) -> None:
    """``jpid``"""
    simple_command(client, target, Command.JDWP_LIST)


@with_target
def bug_report(client: Client, target: Target) -> None:
    """``bugreport``"""
    simple_command(client, target, Command.BUGREPORT)


@with_target
def send_files(client: Client, target: Target) -> None:
    """``file send``"""
    from deploy.emulator.file_commands import send

    send(client, target)


@with_target
def receive_files(client: Client, target: Target) -> None:
    """``file recv``"""
    from deploy.emulator.file_commands import receive

    receive(client, target)


BOARD_COMMANDS: dict[str, Callable[[Client], None]] = {
    "shell": run_shell,
    "hilog": show_log,
    "target mount": remount,
    "target boot": reboot,
    "smode": change_user,
    "tmode": set_run_mode,
    "jpid": list_debuggable,
    "bugreport": bug_report,
    "file send": send_files,
    "file recv": receive_files,
}
