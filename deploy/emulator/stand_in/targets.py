"""The boards that a server knows, their states, and the one that a command means."""

from __future__ import annotations

import time
from dataclasses import dataclass

from deploy.emulator.board.boards import (
    DEFAULT,
    PREFIX,
    EmulatedBoard,
    boards_home,
    create_board,
    generation,
    is_running,
    list_emulated,
    second_board,
)
from deploy.emulator.board.consent import complaint_of
from deploy.emulator.board.faults import FaultFile, Parameters
from deploy.emulator.protocol.releases import Release
from deploy.emulator.stand_in.state import Server

STARTING = (
    "[Fail][E000004]:The communication channel is being established.\r\nPlease wait for several seconds and try again."
)
NOT_MATCHED = "[Fail]Not match target founded, check connect-key please"


class NoTarget(Exception):
    """There is no board for the command; the text is the server's answer."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A board as the server lists it. `board` is None for a TCP board that is not one of ours."""

    key: str
    kind: str
    status: str
    name: str
    board: EmulatedBoard | None


@dataclass(frozen=True)
class Targets:
    """What one server knows of boards."""

    server: Server
    release: Release

    def all(self) -> list[Target]:
        """All boards, sorted by key."""
        home = boards_home()
        made = list_emulated(home) or [create_board(DEFAULT, home=home)]
        seconds = [second_board(board) for board in made if "second-board" in FaultFile(folder=board.folder).active()]
        boards = {board.key: board for board in (*made, *seconds)}
        known = self.server.read().keys
        keys = {key for key, board in boards.items() if not board.port} | set(known)
        found = []
        for key in sorted(keys):
            board = boards.get(key)
            status = self._status(known.get(key, {}), board)
            usable = status in ("Connected", "Unauthorized")
            name = str(known.get(key, {}).get("name", "localhost")) if usable else self.release.unknown_name
            kind = "USB" if board is not None and not board.port else "TCP"
            found.append(Target(key=key, kind=kind, status=status, name=name, board=board))
        return found

    def choose(self, key: str) -> Target:
        """The board that a command means: the one of that key, or the only one. Raises NoTarget, also when it is of no use."""
        target = self.find(key)
        self._require_usable(target)
        return target

    def find(self, key: str) -> Target:
        """As `choose`, whatever state the board is in."""
        if key.startswith(PREFIX):
            self._make_default(key)
        targets = self.all()
        if key:
            targets = [target for target in targets if target.key == key]
            if not targets:
                raise NoTarget(NOT_MATCHED)
        else:
            online = [target for target in targets if target.status != "Offline"]
            targets = online if len(online) == 1 else targets
        if len(targets) != 1:
            raise NoTarget(self.release.need_key)
        return targets[0]

    def server_fault(self, name: str) -> Parameters | None:
        """A fault of the server, which any of the boards may carry."""
        for board in list_emulated():
            faults = FaultFile(folder=board.folder)
            known = faults.active().get(name)
            if known is not None and known.get("port", self.server.port) == self.server.port:
                return faults.use(name)
        return None

    def _status(self, known: dict[str, object], board: EmulatedBoard | None) -> str:
        faults = FaultFile(folder=board.folder).active() if board is not None else {}
        if "offline" in faults or known.get("status") == "Offline":
            return "Offline"
        if float(str(known.get("back_at", 0.0))) > time.time():
            return "Offline"
        if board is not None and board.port and (not is_running(board) or generation(board) != known.get("generation")):
            return "Offline"
        if self.release.authorises and complaint_of(faults, self.release):
            return "Unauthorized"
        return "Connected"

    def _require_usable(self, target: Target) -> None:
        faults = FaultFile(folder=target.board.folder) if target.board is not None else None
        if target.status == "Offline":
            raise NoTarget(self.release.offline)
        if faults is None:
            return
        if faults.use("starting"):
            raise NoTarget(STARTING)
        if faults.use("broken-link"):
            raise NoTarget(self.release.broken_link)
        if self.release.authorises and (complaint := complaint_of(faults.active(), self.release)):
            raise NoTarget(complaint)

    def _make_default(self, key: str) -> None:
        """The boards of our own profiles exist as soon as they are named."""
        if not (boards_home() / key / "board.json").exists():
            from deploy.board.profiles import list_profiles

            if key.removeprefix(PREFIX) in list_profiles():
                create_board(key)
