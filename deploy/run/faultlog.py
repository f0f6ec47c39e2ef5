"""Crash logs that OpenHarmony's fault logger leaves when a signal ends a program (``/data/log/faultlog``).

Their names differ between releases (process, user, time in seconds or milliseconds), so new ones are known by their
time of change, by the board's own clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from core.deadline import Deadline
from core.session import Session
from deploy.board.clock import BoardClock
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.transfer.pull import as_name, fetch_files

FOLDER = "faultlogs"
ROOT = "/data/log/faultlog"
PLACES = ("temp", "faultlogger")
"""The first has all that was found (registers, memory, maps), the second a shorter form for people."""
SIGNALS = frozenset({"SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSTKFLT", "SIGSYS"})
"""Those that the fault logger handles; SIGKILL and SIGTERM leave nothing."""
TRIES = 7
"""Half seconds in which a log must have appeared: dumping a process takes one or two seconds."""
FRAMES = 3
MOST = 8
"""Logs that are fetched at most; a board on which everything crashes has hundreds."""


@dataclass(frozen=True, kw_only=True)
class CrashLog:
    """One crash log, fetched."""

    path: Path
    process: str
    """Name of the program, without its folder; empty when the log does not say."""
    pid: int
    reason: str
    """Such as ``Signal:SIGSEGV(SEGV_MAPERR)@0x00000000``."""
    frames: tuple[str, ...]
    """The innermost of the thread that crashed."""

    def as_json(self, record: Path) -> dict[str, Any]:
        return {
            "path": self.path.relative_to(record).as_posix(),
            "process": self.process,
            "pid": self.pid,
            "reason": self.reason,
        }


def fetch_crash_logs(session: Session, board: Board, folder: Path, clock: BoardClock, began: float) -> list[CrashLog]:
    """Fetches the crash logs written since the host's time `began` to ``faultlogs`` in `folder`, the record's folder.

    Raises what `Board.shell` and `fetch_files` raise.
    """
    script = render_script(
        "faultlog", begin=int(clock.epoch_at(began)), folders=[f"{ROOT}/{place}" for place in PLACES], tries=TRIES
    )
    deadline = Deadline.after(30 + TRIES, f"the crash logs of board {board.serial}")
    text = board.shell(script, deadline=deadline).text
    if "@@unreadable" in text:
        session.console.detail(f"{ROOT} of board {board.serial} cannot be read, so there are no crash logs.")
        return []
    names = [line.partition(" ")[2] for line in text.splitlines() if line.partition(" ")[2].startswith(ROOT)]
    if not names:
        return []
    if len(names) > MOST:
        session.console.warn(f"{len(names)} crash logs appeared during the run; the last {MOST} are fetched")
    wanted = [as_name(str(PurePosixPath(name).relative_to(ROOT))) for name in names[-MOST:]]
    place = folder / FOLDER
    pulled = fetch_files(session, board, wanted, folder=ROOT, place=lambda name: place / name)
    return [read_crash_log(file.local) for file in pulled.files]


def read_crash_log(path: Path) -> CrashLog:
    """Understands a crash log as far as it has the usual lines."""
    text = path.read_text(encoding="utf-8", errors="replace")

    def field(*names: str) -> str:
        found = re.search(rf"^(?:{'|'.join(names)})\s*:\s*(.*?)\s*$", text, re.MULTILINE)
        return found[1] if found else ""

    pid = field("Pid")
    frames = re.findall(r"^#\d\d pc .*$", text, re.MULTILINE)
    return CrashLog(
        path=path,
        process=PurePosixPath(field("Process name", "Module name") or ".").name,
        pid=int(pid) if pid.isdigit() else 0,
        reason=field("Reason"),
        frames=tuple(frames[:FRAMES]),
    )


def describe_crash(logs: list[CrashLog], executable: str) -> str:
    """Lines for the error of a program that crashed; those of other processes are named as such."""
    lines = []
    for log in logs:
        other = "" if log.process in ("", executable) else f" (of another process, {log.process})"
        lines.append(f"crash log{other}: {log.path}" + (f": {log.reason}" if log.reason else ""))
        lines += [f"  {frame}" for frame in log.frames if not other]
    return "\n".join(lines)
