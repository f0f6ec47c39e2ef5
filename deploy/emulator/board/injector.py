"""Where the daemon makes faults happen: in a command's output and in file data."""

from __future__ import annotations

import time
from collections.abc import Callable

from deploy.emulator.board.faults import FaultFile, Parameters
from deploy.emulator.protocol.file_transfer import OutOfSpace

FREEZE = b""
"""Among the parts of an output: here the board freezes."""


class LinkCut(Exception):
    """The connection is to be closed as if the cable had been pulled."""


class Restart(Exception):
    """The daemon is to end; init starts it again."""


class Injector:
    """The faults of one command. `is_gone` tells whether the host has hung up, which ends a freeze."""

    def __init__(self, faults: FaultFile, is_gone: Callable[[], bool]) -> None:
        self._faults = faults
        self._is_gone = is_gone
        self._active = faults.begin_command()
        self._passed = 0
        self._held: list[bytes] = []

    def is_on(self, name: str) -> bool:
        return name in self._active

    def use(self, name: str) -> Parameters | None:
        """The fault's parameters when it is on for this command; counts as one time."""
        return self._faults.use(name) if name in self._active else None

    def freeze(self, name: str) -> None:
        """Waits until the fault is switched off, or the host has hung up. Raises LinkCut in that case."""
        while self.is_on(name) and name in self._faults.active():
            if self._is_gone():
                raise LinkCut
            time.sleep(0.05)

    def output(self, chunk: bytes) -> list[bytes]:
        """The parts in which output goes out. Raises LinkCut or Restart with the rest unsent in ``args``."""
        if self.is_on("no-marker"):
            chunk = self._hold_back(chunk)
        self._slow_down(len(chunk))
        for name, outcome in (("cut-output", LinkCut), ("restart", Restart)):
            keep = self._keeps(name, len(chunk))
            if keep is not None:
                self.use(name)
                raise outcome(chunk[:keep])
        keep = self._keeps("freeze-output", len(chunk))
        self._passed += len(chunk)
        return [chunk] if keep is None else [chunk[:keep], FREEZE, chunk[keep:]]

    def end_of_output(self) -> None:
        """The command has ended. Raises LinkCut or Restart for a fault that was to come later than its last byte."""
        if self._held:
            self.use("no-marker")
        for name, outcome in (("cut-output", LinkCut), ("restart", Restart)):
            if self.is_on(name):
                self.use(name)
                raise outcome(b"")

    def data(self, payload: bytes | memoryview, offset: int, *, writes: bool = True) -> bytes | memoryview:
        """File data on its way in (`writes`) or out. Raises LinkCut, or OSError as the file system would."""
        self._slow_down(len(payload))
        if self._keeps("cut-transfer", len(payload)) is not None:
            self.use("cut-transfer")
            raise LinkCut
        if self._keeps("freeze-transfer", len(payload)) is not None:
            self.freeze("freeze-transfer")
        room = self._keeps("full-disk", len(payload)) if writes else None
        if room is not None:
            raise OutOfSpace(payload[:room])
        self._passed += len(payload)
        return self._corrupt(payload, offset)

    def _corrupt(self, payload: bytes | memoryview, offset: int) -> bytes | memoryview:
        if not self.is_on("corrupt"):
            return payload
        at = int(self._active["corrupt"]["at"]) - offset
        if not 0 <= at < len(payload) or self.use("corrupt") is None:
            return payload
        changed = bytearray(payload)
        changed[at] ^= 0x20
        return bytes(changed)

    def _keeps(self, name: str, size: int) -> int | None:
        """How many of the next `size` bytes pass before the fault happens; None when it does not happen in them."""
        if not self.is_on(name):
            return None
        left = int(self._active[name]["at"]) - self._passed
        return max(left, 0) if left < size else None

    def _slow_down(self, size: int) -> None:
        if self.is_on("slow"):
            time.sleep(size / self._active["slow"]["rate"])

    def _hold_back(self, chunk: bytes) -> bytes:
        """Keeps the last lines until more comes after them; at the end of the command they are lost."""
        whole = b"".join([*self._held, chunk])
        lines = whole.splitlines(keepends=True)
        count = int(self._active["no-marker"]["lines"])
        self._held = lines[-count:]
        return b"".join(lines[:-count])
