"""``file send`` and ``file recv``, as the client does them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.emulator.files import (
    Incoming,
    Options,
    Outgoing,
    Source,
    TaskFailed,
    list_folders,
    list_sources,
    parse_arguments,
    reason,
)
from deploy.emulator.hdc import log_line, show, write
from deploy.emulator.wire import BEGIN_FEATURES, Command, LinkEnded, pack

if TYPE_CHECKING:
    from deploy.emulator.hdc import Client
    from deploy.emulator.link import Link

Answers = Iterator[tuple[int, bytes]]


def send_files(client: Client) -> None:
    """``file send [-a] [-z] [-m] [-sync] LOCAL REMOTE``"""
    target = client.target()
    if target is None:
        return
    try:
        options, paths = parse_arguments(client.call.rest)
        local, remote = _two(paths, "There is no local and remote path", "There is no remote path")
        source = _absolute(options, local)
        sources = _sources(source)
    except TaskFailed as failed:
        write(b"[Fail]" + os.fsencode(str(failed)) + b"\n")
        return
    if sources is None:
        return
    link = client.link(target)
    with contextlib.closing(link):
        _send_all(link, sources, source, remote, options)


def receive_files(client: Client) -> None:
    """``file recv [-a] [-z] [-m] [-sync] REMOTE [LOCAL]``"""
    target = client.target()
    if target is None:
        return
    try:
        options, _ = parse_arguments(client.call.rest)
    except TaskFailed as failed:
        write(b"[Fail]" + os.fsencode(str(failed)) + b"\n")
        return
    link = client.link(target)
    with contextlib.closing(link):
        text = client.call.rest.strip().removeprefix(b"remote ")
        link.send(Command.FILE_INIT, text)
        _receive_all(link, options)


def _two(paths: list[str], none: str, one: str) -> tuple[str, str]:
    if len(paths) < 2:
        raise TaskFailed(none if not paths else one)
    return paths[-2], paths[-1]


def _absolute(options: Options, path: str) -> Path:
    return Path(path if path.startswith("/") else options.cwd + path)


def _sources(local: Path) -> list[Source] | None:
    try:
        return list_sources(local)
    except OSError as error:
        _say_unreadable(error, local)
        return None


def _say_unreadable(error: OSError, place: Path) -> None:
    why, path = reason(error).encode(), os.fsencode(place)
    write(b"[Fail]Error opening file: %b, path:%b\n" % (why, path))
    log_line("F", b"open path:%b, localPath:%b, error:%b, dir:0, master:1" % (path, path, why))


def _send_all(link: Link, sources: list[Source], local: Path, remote: str, options: Options) -> None:
    answers = link.answers()
    link.send(Command.WAKEUP)
    first = True
    for source in sources:
        try:
            outgoing = Outgoing(source, remote, options)
        except OSError as error:
            _say_unreadable(error, source.path)
            if len(sources) == 1:
                return
            continue
        with contextlib.closing(outgoing):
            if options.modes:
                link.send(Command.FILE_MODE, outgoing.mode_message())
                if not _wait_for(answers, Command.FILE_MODE):
                    return
                if first and local.is_dir():
                    for name, state in list_folders(local):
                        link.send(
                            Command.DIR_MODE, pack(state.st_mode, state.st_uid, state.st_gid, b"", os.fsencode(name))
                        )
                        if not _wait_for(answers, Command.FILE_MODE):
                            return
            first = False
            if not _send_one(link, answers, outgoing):
                return
    link.send(Command.FILE_FINISH, b"\x00")
    _wait_for(answers, -1)


def _send_one(link: Link, answers: Answers, outgoing: Outgoing) -> bool:
    link.send(Command.FILE_CHECK, outgoing.check_message())
    if not _wait_for(answers, Command.FILE_BEGIN):
        return False
    try:
        for prefix, payload in outgoing.blocks():
            link.send(Command.FILE_DATA, prefix, payload)
    except TaskFailed as failed:
        write(b"[Fail]" + os.fsencode(str(failed)) + b"\n")
        link.close_channel(b"\x02")
        return False
    except LinkEnded:
        pass  # The board may have said why before it hung up.
    return _wait_for(answers, Command.FILE_FINISH)


def _wait_for(answers: Answers, wanted: int) -> bool:
    """Shows what comes until the wanted frame; False when the command ended first."""
    for command, data in answers:
        if command == wanted:
            return True
        show(command, data)
    return False


def _receive_all(link: Link, options: Options) -> None:
    incoming = Incoming(base=options.cwd)
    try:
        for command, data in link.answers():
            if command in (Command.FILE_MODE, Command.DIR_MODE):
                incoming.take_mode(data, folder=command == Command.DIR_MODE)
                link.send(Command.FILE_MODE)
            elif command == Command.FILE_CHECK:
                incoming.open(data)
                link.send(Command.FILE_BEGIN, BEGIN_FEATURES)
            elif command == Command.FILE_DATA:
                if incoming.take(data):
                    link.send(Command.FILE_FINISH, b"\x01")
            elif command == Command.FILE_FINISH:
                link.send(Command.CHANNEL_CLOSE, b"\x01")
                write(incoming.summary().encode() + b"\n")
                return
            else:
                show(command, data)
    except TaskFailed as failed:
        write(b"[Fail]" + os.fsencode(str(failed)) + b"\n")
    finally:
        incoming.close()
