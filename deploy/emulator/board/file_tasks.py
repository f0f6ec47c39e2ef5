"""What hdcd does for ``file send`` and ``file recv``."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

from deploy.emulator.board.injector import LinkCut
from deploy.emulator.board.session import Session
from deploy.emulator.protocol.file_arguments import (
    RECEIVE_USAGE,
    NotOpened,
    TaskFailed,
    check_allowed,
    parse_arguments,
    refuse_bundle,
)
from deploy.emulator.protocol.file_transfer import Incoming, Outgoing, list_folders, list_sources, reason
from deploy.emulator.protocol.wire import BEGIN_FEATURES, OLD_BLOCK, Command, pack


class FileReceiveTask:
    """The board's end of ``file send``."""

    def __init__(self, session: Session, channel: int) -> None:
        self._session = session
        self._channel = channel
        self._faults = session.injector()
        self._release = session.board.release
        self._incoming = Incoming(
            to_host=session.board.to_host,
            is_busy=self._is_busy,
            refuses=self._refusal,
            change=self._faults.data,
            release=self._release,
        )

    def start(self) -> None:
        """The host speaks first."""

    def handle(self, command: int, data: bytes) -> None:
        try:
            self._faults.freeze("freeze")
            if self._faults.is_on("hang-send"):
                self._faults.use("hang-send")
                raise _Ignored
            self._handle(command, data)
        except _Ignored:
            self.handle = self._ignore  # type: ignore[method-assign]
        except LinkCut as fault:
            self._session.break_off(self._channel, fault)
        except TaskFailed as failed:
            self._incoming.close()
            full = isinstance(failed.__cause__, OSError) and failed.__cause__.errno == errno.ENOSPC
            silent = full and not self._release.notices_full_disk
            self._session.end(self._channel, fail="" if silent else str(failed))

    def stop(self) -> None:
        self._incoming.close()

    def _handle(self, command: int, data: bytes) -> None:
        if command in (Command.FILE_MODE, Command.DIR_MODE):
            self._incoming.take_mode(data, folder=command == Command.DIR_MODE)
            self._session.send(self._channel, Command.FILE_MODE, b"")
        elif command == Command.FILE_CHECK:
            try:
                self._incoming.open(data)
            except NotOpened as failed:
                if not self._incoming.is_tree:
                    raise
                # The others of a tree are still wanted.
                self._session.complain(self._channel, str(failed))
                self._session.send(self._channel, Command.FILE_FINISH, b"\x01")
                return
            features = BEGIN_FEATURES if self._release.block > OLD_BLOCK else b""
            self._session.send(self._channel, Command.FILE_BEGIN, features)
        elif command == Command.FILE_DATA:
            if self._incoming.take(data):
                self._session.send(self._channel, Command.FILE_FINISH, b"\x01")
        elif command == Command.FILE_FINISH:
            self._session.end(self._channel, say=self._incoming.summary())

    def _ignore(self, command: int, data: bytes) -> None:
        pass

    def _is_busy(self, stat: os.stat_result) -> bool:
        return self._faults.use("busy") is not None or self._session.board.is_running_program(stat)

    def _refusal(self, place: Path) -> OSError | None:
        if not self._session.board.view.may_write(place):
            return OSError(errno.EROFS, os.strerror(errno.EROFS))
        for name, number in (("read-only", errno.EROFS), ("permission", errno.EACCES)):
            if self._faults.use(name):
                return OSError(number, os.strerror(number))
        return None


class _Ignored(Exception):
    """A command that is never answered."""


class FileSendTask:
    """The board's end of ``file recv``."""

    def __init__(self, session: Session, channel: int, line: bytes) -> None:
        self._session = session
        self._channel = channel
        self._line = line.rstrip(b"\0")
        self._faults = session.injector()
        self._answers: list[tuple[int, bytes]] = []
        self._changed = threading.Condition()
        self._stopped = False

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def handle(self, command: int, data: bytes) -> None:
        with self._changed:
            self._answers.append((command, data))
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            self._faults.freeze("freeze")
            self._session.send(self._channel, Command.WAKEUP, b"")
            self._send_all()
        except TaskFailed as failed:
            self._session.end(self._channel, fail=str(failed))
        except LinkCut as fault:
            self._session.break_off(self._channel, fault)
        except (OSError, _Stopped):
            pass

    def _send_all(self) -> None:
        release = self._session.board.release
        options, paths = parse_arguments(self._line, bundles=release.bundles, usage=RECEIVE_USAGE)
        if not paths:
            raise TaskFailed("There is no local and remote path")
        remote, local = paths[-2:] if len(paths) > 1 else (paths[-1], ".")
        refuse_bundle(options.bundle)
        check_allowed(remote, release)
        place = self._session.board.to_host(remote)
        try:
            sources = list_sources(place)
        except OSError as error:
            raise TaskFailed(f"Error opening file: {reason(error)}, path:{remote}") from error
        if options.modes and place.is_dir():
            self._send_folder_modes(place)
        for source in sources:
            try:
                outgoing = Outgoing(source, local, options)
            except OSError as error:
                failed = f"Error opening file: {reason(error)}, path:{self._on_board(source.path, place, remote)}"
                if not place.is_dir():
                    raise TaskFailed(failed) from error
                self._session.complain(self._channel, failed)
                continue
            with contextlib.closing(outgoing):
                self._send_one(outgoing, modes=options.modes)
        self._session.send(self._channel, Command.FILE_FINISH, b"\x00")

    def _on_board(self, path: Path, place: Path, remote: str) -> str:
        """The board's name of a file of the tree that lies at `place` here."""
        return remote if path == place else f"{remote.rstrip('/')}/{path.relative_to(place)}"

    def _send_folder_modes(self, place: Path) -> None:
        for name, stat in list_folders(place):
            self._session.send(
                self._channel,
                Command.DIR_MODE,
                pack(stat.st_mode, stat.st_uid, stat.st_gid, b"", os.fsencode(name)),
            )
            self._wait_for(Command.FILE_MODE)

    def _send_one(self, outgoing: Outgoing, *, modes: bool) -> None:
        if modes:
            self._session.send(self._channel, Command.FILE_MODE, outgoing.mode_message())
            self._wait_for(Command.FILE_MODE)
        self._session.send(self._channel, Command.FILE_CHECK, outgoing.check_message())
        command, features = self._wait_for(Command.FILE_BEGIN, Command.FILE_FINISH)
        if command == Command.FILE_FINISH:
            return  # The host cannot open it.
        block = self._session.board.release.block
        offset = 0
        for prefix, payload in outgoing.blocks(block if features else min(block, OLD_BLOCK)):
            if self._stopped:
                raise _Stopped
            self._session.send(
                self._channel, Command.FILE_DATA, prefix, self._faults.data(payload, offset, writes=False)
            )
            offset += len(payload)
        self._wait_for(Command.FILE_FINISH)

    def _wait_for(self, *wanted: int) -> tuple[int, bytes]:
        with self._changed:
            while not self._stopped:
                while self._answers:
                    command, data = self._answers.pop(0)
                    if command in wanted:
                        return command, data
                self._changed.wait()
        raise _Stopped


class _Stopped(Exception):
    """The host has closed the channel."""
