"""Commands that a board answers."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable

from deploy.emulator.protocol.releases import find_release
from deploy.emulator.protocol.wire import Command, LinkEnded
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.on_board import is_swallowed, show_all, simple_command, with_target
from deploy.emulator.stand_in.targets import Target

USB_RETURN_SECONDS = 2.0
"""How long a USB board is away when its daemon is restarted, and when the board is."""
BOOT_SECONDS = 4.0
BUNDLE = re.compile(rb"[0-9a-zA-Z_.]{7,128}")
NO_BUNDLE = (
    b"[Fail][E003005] The parameter is missing, correct your input by referring below:\n"
    b"Usage: hdc shell [-b bundlename] [COMMAND...]\n"
)
NO_OPTIONS = "[Fail][E002105] Unsupport command"


def _complain_of_options(client: Client) -> bytes:
    """What is wrong with the options of ``shell``, of which there are none before 5.0.3."""
    text = _shell_text(client)
    if not client.release.bundles or not text.startswith(b"-"):
        return b""
    option, _, rest = text.partition(b" ")
    bundle, _, line = rest.strip().partition(b" ")
    if option != b"-b":
        return b"[Fail][E003003] Unsupport shell option: " + option + b"\n"
    if not bundle:
        return NO_BUNDLE
    if not BUNDLE.fullmatch(bundle):
        return b"[Fail][E003001] Invalid bundle name: " + bundle + b"\n"
    if line or client.release.bundle_terminal:
        return b""
    return b"[Fail][E003002] Unsupport interactive shell command option\n"


def _shell_text(client: Client) -> bytes:
    return client.call.rest.strip(b" \t\r\n")


def run_shell(client: Client) -> None:
    """``shell [TEXT]``"""
    if _asks_for_terminal(client) and not os.isatty(0):
        client.log("W", b"Not support stdio TTY mode")
    _run_shell(client)


def _asks_for_terminal(client: Client) -> bool:
    words = client.call.arguments
    return not words or (client.release.bundle_terminal and words[0] == "-b" and len(words) <= 2)


@with_target(_complain_of_options)
def _run_shell(client: Client, target: Target) -> None:
    text = _shell_text(client)
    # Words that came to nothing, because one was too long, are an empty command, not a terminal.
    if not client.call.arguments:
        _run_terminal(client, target)
        return
    if text.startswith(b"-") and client.release.bundles:
        _run_in_bundle(client, target, text)
        return
    if is_swallowed(client, target):
        return
    with contextlib.closing(client.open(target)) as session:
        session.send(Command.EXECUTE, text)
        show_all(client, session)


def _run_in_bundle(client: Client, target: Target, text: bytes) -> None:
    if target.board is not None and not find_release(target.board.version).bundles:
        client.say(NO_OPTIONS)
        return
    bundle, _, line = text.partition(b" ")[2].strip().partition(b" ")
    records = b"".join(
        tag.to_bytes(4, "little") + len(value).to_bytes(4, "little") + value for tag, value in ((0, line), (1, bundle))
    )
    simple_command(client, target, Command.EXECUTE_EX, records)


def _run_terminal(client: Client, target: Target) -> None:
    with contextlib.closing(client.open(target)) as session:
        session.send(Command.SHELL_START)
        if os.isatty(0):
            from deploy.emulator.stand_in.terminal import relay_terminal

            relay_terminal(client, session)
        else:
            show_all(client, session)


@with_target()
def show_log(client: Client, target: Target) -> None:
    """``hilog``: every argument but -h is dropped."""
    simple_command(client, target, Command.HILOG, b"h" if "-h" in client.call.arguments else b"")


@with_target(lambda client: "[Fail]Unknown command...\n" if client.call.rest.strip() else "")
def remount(client: Client, target: Target) -> None:
    """``target mount``"""
    simple_command(client, target, Command.REMOUNT)


@with_target()
def reboot(client: Client, target: Target) -> None:
    """``target boot [MODE]``"""
    _go_away(client, target, BOOT_SECONDS)
    simple_command(client, target, Command.REBOOT, client.call.rest.strip())


@with_target()
def change_user(client: Client, target: Target) -> None:
    """``smode [-r]``"""
    with contextlib.closing(client.open(target)) as session:
        session.send(Command.ROOTRUN, b"r" if "-r" in client.call.arguments else b"")
        try:
            show_all(client, session)
        except LinkEnded:
            _go_away(client, target, USB_RETURN_SECONDS)


def _go_away(client: Client, target: Target, seconds: float) -> None:
    """A USB board comes back by itself; a TCP board is lost, which its daemon's new generation shows."""
    if target.kind == "USB":
        with client.server.change() as state:
            state.keys[target.key] = {"back_at": time.time() + seconds}


def _complain_of_mode(client: Client) -> str:
    mode = client.call.rest.removeprefix(b" ")
    if not mode.startswith(b"port") and mode != b"usb":
        return "[Fail]Error tmode command\n"
    number = re.match(rb"port (?!close$)(\d*)", mode)
    if number is not None and not 0 < int(number[1] or 0) < 65536:
        return "[Fail]Incorrect port range\n"
    return ""


@with_target(_complain_of_mode)
def set_run_mode(client: Client, target: Target) -> None:
    """``tmode usb | port [N] | port close``"""
    simple_command(client, target, Command.RUNMODE, client.call.rest.strip())


@with_target()
def list_debuggable(client: Client, target: Target) -> None:
    """``jpid``"""
    simple_command(client, target, Command.JDWP_LIST)


@with_target()
def track_debuggable(client: Client, target: Target) -> None:
    """``track-jpid [-a|-p]``: the list, and again whenever it changes, which it never does."""
    first = client.call.rest.strip()[:2]
    simple_command(client, target, Command.JDWP_TRACK, first[1:] if first in (b"-a", b"-p") else b"")


@with_target()
def bug_report(client: Client, target: Target) -> None:
    """``bugreport``"""
    simple_command(client, target, Command.BUGREPORT)


@with_target()
def install_packages(client: Client, target: Target) -> None:
    """``install``"""
    from deploy.emulator.stand_in.package_commands import install

    install(client, target)


@with_target()
def uninstall_bundle(client: Client, target: Target) -> None:
    """``uninstall``"""
    from deploy.emulator.stand_in.package_commands import uninstall

    uninstall(client, target)


@with_target()
def send_files(client: Client, target: Target) -> None:
    """``file send``"""
    from deploy.emulator.stand_in.file_commands import send

    send(client, target)


@with_target()
def receive_files(client: Client, target: Target) -> None:
    """``file recv``"""
    from deploy.emulator.stand_in.file_commands import receive

    receive(client, target)


BOARD_COMMANDS: dict[str, Callable[[Client], None]] = {
    "shell": run_shell,
    "hilog": show_log,
    "target mount": remount,
    "target boot": reboot,
    "smode": change_user,
    "tmode": set_run_mode,
    "jpid": list_debuggable,
    "track-jpid": track_debuggable,
    "bugreport": bug_report,
    "install": install_packages,
    "uninstall": uninstall_bundle,
    "file send": send_files,
    "file recv": receive_files,
}
