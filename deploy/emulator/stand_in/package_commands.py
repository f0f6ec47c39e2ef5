"""``install`` and ``uninstall``, as the client does them."""

from __future__ import annotations

import contextlib
import os
import secrets
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deploy.emulator.protocol.file_arguments import split_arguments
from deploy.emulator.protocol.wire import Command, data_prefix, pack
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.file_commands import say_unreadable
from deploy.emulator.stand_in.session import Session
from deploy.emulator.stand_in.targets import Target

PACKAGES = (".hap", ".hsp", ".app")
BLOCK = 262_144


def install(client: Client, target: Target) -> None:
    """``install [OPTIONS] PACKAGE|FOLDER...``"""
    cwd, options, paths = _read(client.call.rest)
    named = [path if path.startswith("/") else cwd + path for path in paths]
    folders = [path for path in named if Path(path).is_dir()]
    wanted = {*folders, *(path for path in named if path.endswith(PACKAGES))}
    if not wanted:
        client.write(b"[Fail][E006001] Not any installation package was found\n")
        return
    with contextlib.closing(client.open(target)) as session:
        session.send(Command.WAKEUP)
        answers, told = session.answers(), b""
        for path in sorted(wanted, reverse=True):
            try:
                with _package(Path(path)) as (file, kind):
                    said = _install_one(client, session, answers, file, pack_check(file, kind, options, cwd))
            except OSError as error:
                say_unreadable(client, error, Path(path))
                return
            if said is None:
                return
            # As hdc does it: once there is a folder, it is told for every package.
            shown = os.fsencode([path, *folders][-1])
            client.write(b"[Info]App install path:%b msg:%b\n" % (shown, said.removeprefix(told)))
            told = said
        client.write(b"AppMod finish\n")
        session.close_channel()


def uninstall(client: Client, target: Target) -> None:
    """``uninstall [OPTIONS] BUNDLE``"""
    with contextlib.closing(client.open(target)) as session:
        session.send(Command.WAKEUP)
        session.send(Command.APP_UNINSTALL, client.call.rest.strip() + b"\0")
        for command, data in session.answers():
            if command == Command.APP_FINISH:
                client.say(b"[Info]App uninstall path: msg:" + data[2:])
                client.say("AppMod finish")
                session.close_channel()
                return
            client.show(command, data)


def _read(rest: bytes) -> tuple[str, str, list[str]]:
    """The caller's folder, the options in one text, and the paths."""
    words = [os.fsdecode(word) for word in split_arguments(rest)]
    if words[:1] == ["remote"]:
        words = words[1:]
    cwd = ""
    if "-cwd" in words[:-1]:
        at = words.index("-cwd")
        cwd, words = words[at + 1], words[:at] + words[at + 2 :]
    options = [word for word in words if word.startswith("-")]
    return cwd, " ".join(options), [word for word in words if not word.startswith("-")]


@contextlib.contextmanager
def _package(path: Path) -> Iterator[tuple[Path, str]]:
    """The file that travels, and its ending: the package itself, or a folder as an archive."""
    if not path.is_dir():
        yield path, path.suffix
        return
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for entry in sorted(path.iterdir()):
                archive.add(entry, entry.name)
        file.flush()
        yield Path(file.name), ".tar"


def pack_check(file: Path, kind: str, options: str, cwd: str) -> bytes:
    """APP_CHECK: the package's size, the options, and a name that nobody else uses. Raises OSError."""
    name = f"{secrets.token_hex(5)[:9]}{kind}"
    return pack(
        *(file.stat().st_size, 0, 0, options.encode(), b"", name.encode()),
        *(0, 0, 0, b"install", os.fsencode(cwd), b"", b""),
    )


def _install_one(
    client: Client, session: Session, answers: Iterator[tuple[int, bytes]], file: Path, check: bytes
) -> bytes | None:
    """What the board says of one package; None when it has ended the command."""
    with file.open("rb") as content:
        session.send(Command.APP_CHECK, check)
        for command, data in answers:
            if command == Command.APP_BEGIN:
                offset = 0
                while (payload := content.read(BLOCK)) or not offset:
                    session.send(Command.APP_DATA, data_prefix(offset, len(payload)) + payload)
                    offset += len(payload) or 1
            elif command == Command.APP_FINISH:
                return data[2:]
            else:
                client.show(command, data)
    return None
