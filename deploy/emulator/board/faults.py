"""Faults that can be switched on by name: a file beside the board says which, how, and how often."""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import unknown_name

Parameters = dict[str, float]
FILE = "faults.json"
FOREVER = -1


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault that exists: what it does, and its parameters with the values that they have unless others are given."""

    name: str
    text: str
    parameters: Parameters = field(default_factory=dict)


def _known(*faults: Fault) -> dict[str, Fault]:
    return {fault.name: fault for fault in faults}


FAULTS = _known(
    Fault(name="cut-transfer", text="the link breaks when `at` bytes of file data have passed", parameters={"at": 0}),
    Fault(name="cut-output", text="the link breaks after `at` bytes of a command's output", parameters={"at": 0}),
    Fault(name="freeze", text="the board stays listed, but no command is answered"),
    Fault(
        name="freeze-transfer",
        text="the board stops reading when `at` bytes of file data have passed; its server is stuck until it is killed",
        parameters={"at": 0},
    ),
    Fault(name="freeze-output", text="nothing comes after `at` bytes of a command's output", parameters={"at": 0}),
    Fault(name="full-disk", text="no space is left after `at` more bytes of file data", parameters={"at": 0}),
    Fault(name="corrupt", text="the byte at offset `at` of a transferred file is changed", parameters={"at": 0}),
    Fault(name="slow", text="data passes at `rate` bytes a second", parameters={"rate": 100_000}),
    Fault(name="drop-command", text="a command is not executed and ends at once without output"),
    Fault(name="hang-send", text="a file that is sent is never asked for, so the sender waits for ever"),
    Fault(name="no-marker", text="the last `lines` lines of a command's output do not arrive", parameters={"lines": 1}),
    Fault(name="read-only", text="the disk is mounted read-only"),
    Fault(name="permission", text="the daemon may not open files that are sent"),
    Fault(name="busy", text="every existing file that is sent is the program of a process"),
    Fault(name="restart", text="the daemon is restarted after `at` bytes of a command's output", parameters={"at": 0}),
    Fault(
        name="crash-log",
        text="a program that a signal ends leaves a crash log in `/data/log/faultlog/temp`, as OpenHarmony's fault logger does",
    ),
    Fault(name="offline", text="the board is known but not connected"),
    Fault(
        name="unauthorised",
        text="the board asks its user, who answers yes after `seconds` (0: never)",
        parameters={"seconds": 0},
    ),
    Fault(name="refused", text="the board's user has refused this computer"),
    Fault(name="starting", text="the session with the board is being established (E000004)"),
    Fault(name="broken-link", text="the server cannot talk to the daemon (E002106)"),
    Fault(name="unlisted", text="`list targets` does not show the board, though commands reach it"),
    Fault(
        name="server-down",
        text="no server can be started; the client gives up after `seconds` seconds",
        parameters={"seconds": 12},
    ),
    Fault(name="log-lines", text="the client prints a line of its log before the answer"),
    Fault(
        name="port-taken",
        text="another program listens at `port`: no server can be started there, and the client gives up after `seconds`",
        parameters={"port": 8710, "seconds": 12},
    ),
    Fault(
        name="second-board",
        text="another board of the same kind, with a disk of its own, is connected too, and stands before it in the list",
    ),
    Fault(
        name="empty-first",
        text="the first `commands` after a board was connected, or its server started, are not executed: they end "
        "empty, and files wait for ever",
        parameters={"commands": 1},
    ),
    Fault(
        name="flood",
        text="a program prints `bytes` bytes that are no text, without a line end, before its own output",
        parameters={"bytes": 10_000_000},
    ),
    Fault(name="reads-stdin", text="a program reads its standard input to the end before it does anything"),
    Fault(name="orphan", text="a program leaves a process behind that ignores SIGTERM and keeps its output open"),
)
PROGRAM_FAULTS = ("crash-log", "flood", "reads-stdin", "orphan")
"""Faults of programs for an ARM CPU, which the script that starts their emulator makes happen."""
COUNT = "count"
"""Parameter of every fault: how often it happens before it switches itself off; -1: for ever."""
SKIP = "skip"
"""Parameter of every fault: how many commands reach the board unharmed before it is there."""
SINCE = "since"


@dataclass(frozen=True, kw_only=True)
class FaultFile:
    """The faults of one board; `folder` is the board's."""

    folder: Path

    def active(self) -> dict[str, Parameters]:
        """The faults that are on, with their parameters."""
        try:
            return dict(json.loads((self.folder / FILE).read_text()))
        except FileNotFoundError:
            return {}

    def set(self, name: str, **parameters: float) -> None:
        """Switches a fault on. Raises UnknownName for a fault or a parameter that does not exist."""
        if name not in FAULTS:
            raise unknown_name("fault", name, FAULTS)
        allowed = {**FAULTS[name].parameters, COUNT: FOREVER, SKIP: 0}
        for key in parameters:
            if key not in allowed:
                raise unknown_name(f"parameter of {name}", key, allowed)
        with self._change() as faults:
            faults[name] = {**allowed, **parameters, SINCE: time.time()}

    def clear(self, *names: str) -> None:
        """Switches faults off; all of them without names."""
        with self._change() as faults:
            for name in names or tuple(faults):
                faults.pop(name, None)

    def begin_command(self) -> dict[str, Parameters]:
        """The faults that are there for the next command of the board."""
        known = self.active()
        if any(fault.get(SKIP) for fault in known.values()):
            with self._change() as faults:
                known = {name: dict(fault) for name, fault in faults.items()}
                for fault in faults.values():
                    fault[SKIP] = max(0, fault[SKIP] - 1)
        return {name: fault for name, fault in known.items() if not fault.get(SKIP)}

    def use(self, name: str) -> Parameters | None:
        """The fault's parameters when it is on, which counts as one time; else None."""
        if name not in self.active():
            return None
        with self._change() as faults:
            fault = faults.get(name)
            if fault is None:
                return None
            if fault[COUNT] > 0:
                fault[COUNT] -= 1
                if fault[COUNT] == 0:
                    del faults[name]
            return fault

    @contextlib.contextmanager
    def _change(self) -> Iterator[dict[str, Parameters]]:
        with (self.folder / ".faults.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            faults = self.active()
            yield faults
            temporary = self.folder / f".{FILE}.new"
            temporary.write_text(json.dumps(faults, indent=2) + "\n")
            temporary.replace(self.folder / FILE)
