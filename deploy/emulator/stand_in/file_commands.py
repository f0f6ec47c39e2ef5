"""``file send`` and ``file recv``, as the client does them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.emulator.board.faults import FaultFile
from deploy.emulator.protocol.file_arguments import (
    NOT_ALLOWED,
    SEND_USAGE,
    NotOpened,
    Options,
    TaskFailed,
    check_allowed,
    parse_arguments,
)
from deploy.emulator.protocol.file_transfer import Incoming, Outgoing, Source, list_folders, list_sources, reason
from deploy.emulator.protocol.wire import BEGIN_FEATURES, OLD_BLOCK, Command, LinkEnded, pack
from deploy.emulator.stand_in.client import Client
from deploy.emulator.stand_in.on_board import is_swallowed
from deploy.emulator.stand_in.session import Session
from deploy.emulator.stand_in.targets import Target

Answers = Iterator[tuple[int, bytes]]
STUCK_SECONDS = 2.0
"""A board that has not read for so long blocks the server's only thread, and so every other board."""


def send(client: Client, target: Target) -> None:
    """``file send [-a] [-z] [-m] [-sync] [-b BUNDLE] LOCAL REMOTE``"""
    try:
        options, paths = parse_arguments(client.call.rest, bundles=client.release.bundles, usage=SEND_USAGE)
        if len(paths) < 2:
            raise TaskFailed("There is no remote path" if paths else "There is no local and remote path")
        local, remote = paths[-2:]
        source = Path(local if local.startswith("/") else options.cwd + local)
        check_allowed(str(source), client.release)
        sources = _list_sources(client, source)
    except TaskFailed as failed:
        _say_failed(client, failed)
        return
    if sources is None:
        return
    with contextlib.closing(client.open(target)) as session:
        if is_swallowed(client, target):
            _wait_for_ever(session)
        _Sending(client=client, target=target, session=session, options=options).send_all(sources, source, remote)


def receive(client: Client, target: Target) -> None:
    """``file recv [-a] [-z] [-m] [-sync] [-b BUNDLE] REMOTE [LOCAL]``"""
    # The board reads the options, and finds what is wrong with them; here only the folder is of interest.
    options = Options()
    with contextlib.suppress(TaskFailed):
        options, _ = parse_arguments(client.call.rest)
    with contextlib.closing(client.open(target)) as session:
        if is_swallowed(client, target):
            _wait_for_ever(session)
        session.send(Command.FILE_INIT, client.call.rest.strip().removeprefix(b"remote "))
        _receive_all(client, session, options)


def _wait_for_ever(session: Session) -> None:
    for _ in session.answers():
        pass


def _say_failed(client: Client, failed: TaskFailed) -> None:
    client.write(b"[Fail]" + os.fsencode(str(failed)) + b"\n")
    if str(failed) == NOT_ALLOWED:
        client.log("I", b"Operation not allowed")


def _list_sources(client: Client, local: Path) -> list[Source] | None:
    try:
        return list_sources(local)
    except OSError as error:
        say_unreadable(client, error, local)
        return None


def say_unreadable(client: Client, error: OSError, place: Path, *, tree: bool = False, master: bool = True) -> None:
    """The client says it twice: as an answer, and as a line of its log. `master`: it is the one that sends."""
    why, path = reason(error).encode(), os.fsencode(place)
    client.write(b"[Fail]Error opening file: %b, path:%b\n" % (why, path))
    client.log("F", b"open path:%b, localPath:%b, error:%b, dir:%d, master:%d" % (path, path, why, tree, master))


@dataclass(frozen=True, kw_only=True)
class _Sending:
    """The client's end of ``file send``."""

    client: Client
    target: Target
    session: Session
    options: Options

    def send_all(self, sources: list[Source], local: Path, remote: str) -> None:
        answers = self.session.answers()
        self.session.send(Command.WAKEUP)
        modes_sent = not (self.options.modes and local.is_dir())
        for source in sources:
            try:
                outgoing = Outgoing(source, remote, self.options)
            except OSError as error:
                say_unreadable(self.client, error, source.path, tree=local.is_dir())
                if len(sources) == 1:
                    return
                continue
            with contextlib.closing(outgoing):
                if self.options.modes and not self._tell(answers, Command.FILE_MODE, outgoing.mode_message()):
                    return
                if not modes_sent and not self._tell_folders(answers, local):
                    return
                modes_sent = True
                if not self._send_one(answers, outgoing):
                    return
        self.session.send(Command.FILE_FINISH, b"\x00")
        self._wait_for(answers, -1)

    def _tell_folders(self, answers: Answers, local: Path) -> bool:
        return all(
            self._tell(
                answers,
                Command.DIR_MODE,
                pack(stat.st_mode, stat.st_uid, stat.st_gid, b"", os.fsencode(name)),
            )
            for name, stat in list_folders(local)
        )

    def _tell(self, answers: Answers, command: int, message: bytes) -> bool:
        self.session.send(command, message)
        return self._wait_for(answers, Command.FILE_MODE) is not None

    def _send_one(self, answers: Answers, outgoing: Outgoing) -> bool:
        self.session.send(Command.FILE_CHECK, outgoing.check_message())
        answer = self._wait_for(answers, Command.FILE_BEGIN, Command.FILE_FINISH)
        if answer is None:
            return False
        command, features = answer
        if command == Command.FILE_FINISH:
            return True  # The board cannot open it, and has said so; the others of the tree are still wanted.
        block = self.client.release.block if features else min(self.client.release.block, OLD_BLOCK)
        try:
            for prefix, payload in outgoing.blocks(block):
                self.session.send_patiently(
                    Command.FILE_DATA, prefix + payload, patience=STUCK_SECONDS, on_stuck=self._get_stuck
                )
        except TaskFailed as failed:
            _say_failed(self.client, failed)
            self.session.close_channel(b"\x02")
            return False
        except LinkEnded:
            pass  # The board may have said why before it hung up.
        return self._wait_for(answers, Command.FILE_FINISH) is not None

    def _get_stuck(self) -> None:
        board = self.target.board
        if board is not None and "freeze-transfer" not in FaultFile(folder=board.folder).active():
            return  # Only slow.
        with self.client.server.change() as state:
            state.stuck_on = self.target.key

    def _wait_for(self, answers: Answers, *wanted: int) -> tuple[int, bytes] | None:
        """Shows what comes until a wanted frame; None when the command ended first."""
        for command, data in answers:
            if command in wanted:
                return command, data
            self.client.show(command, data)
        return None


def _receive_all(client: Client, session: Session, options: Options) -> None:
    incoming = Incoming(base=options.cwd, release=client.release)
    try:
        for command, data in session.answers():
            if command in (Command.FILE_MODE, Command.DIR_MODE):
                incoming.take_mode(data, folder=command == Command.DIR_MODE)
                session.send(Command.FILE_MODE)
            elif command == Command.FILE_CHECK:
                _open_one(client, session, incoming, data)
            elif command == Command.FILE_DATA:
                if incoming.take(data):
                    session.send(Command.FILE_FINISH, b"\x01")
            elif command == Command.FILE_FINISH:
                session.send(Command.CHANNEL_CLOSE, b"\x01")
                client.write(incoming.summary().encode() + b"\n")
                return
            else:
                client.show(command, data)
    except TaskFailed as failed:
        if not isinstance(failed, NotOpened):
            _say_failed(client, failed)
    finally:
        incoming.close()


def _open_one(client: Client, session: Session, incoming: Incoming, check: bytes) -> None:
    """Asks for a file that the board offers; one of a tree that cannot be written here is told and left out."""
    try:
        incoming.open(check)
    except NotOpened as failed:
        assert isinstance(failed.__cause__, OSError)
        say_unreadable(client, failed.__cause__, Path(incoming.path), tree=incoming.is_tree, master=False)
        if not incoming.is_tree:
            raise
        session.send(Command.FILE_FINISH, b"\x01")
    else:
        session.send(Command.FILE_BEGIN, BEGIN_FEATURES)
