"""A board's log (hilog): what it said during a run, and on request.

``hdc hilog`` drops its arguments and never ends, so the log is always read by ``hilog`` in the board's shell. Levels are
chosen here and not by ``hilog -L``, whose older versions keep only the last of several. The lines have no year.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.errors import BoardError, DeadlineExpired, UsageError
from core.session import Session
from deploy.board.clock import FORMAT, BoardClock, read_clock
from deploy.board.protocol import Board
from deploy.board.script import quote

FILE = "hilog.log"
LEVELS = "DIWEF"
LEVEL_NAMES = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
MISSING = 127
LINE = re.compile(
    r"(?P<time>\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,9})\s+(?P<pid>\d+)\s+(?P<tid>\d+)\s+(?P<level>[DIWEF])\s+"
    r"(?P<domain>[A-Z]?[0-9A-Fa-f]+)/(?P<tag>.*?):(?: (?P<text>.*))?$"
)
"""Month, day and time in the board's zone; then process, thread, level, domain, tag, text.
From OpenHarmony 5 on the process's name may stand before the tag, with a slash between them."""
LOSS = re.compile(r"/LOGLIMIT: |: =+Slow reader missed log lines|: write socket failed, \d+ line")
"""What hilog writes in place of lines that it dropped."""
AHEAD = timedelta(days=300)
"""How far a window without an end reaches. A whole year would find the lines of every day in it."""
MANY = 100
SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class LogFilter:
    """Which lines are wanted."""

    levels: str = LEVELS
    tags: tuple[str, ...] = ()
    """Exactly these; empty: all."""


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One entry. `time` has no year."""

    time: str
    pid: int
    tid: int
    level: str
    domain: str
    tag: str
    text: str

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(kw_only=True)
class LogReader:
    """Takes a log in chunks of any size and hands on the lines that are wanted, as they are."""

    chosen: LogFilter
    hand_on: Callable[[str], None]
    window: tuple[datetime, datetime] | None = None
    kept: int = 0
    seen: int = 0
    oldest: str = ""
    losses: list[str] = field(default_factory=list)
    """Lines that say that others were dropped, within the window."""
    watched_tags: tuple[str, ...] = ()
    watched: list[str] = field(default_factory=list)
    """Lines of the window with these tags, whether they are wanted or not."""
    _pending: bytes = b""
    _wanted: bool = False

    def feed(self, chunk: bytes) -> None:
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            self._take(line.rstrip(b"\r").decode("utf-8", "replace"))

    def finish(self) -> None:
        if self._pending:
            self._take(self._pending.decode("utf-8", "replace"))
        self._pending = b""

    def _take(self, line: str) -> None:
        entry = parse_line(line)
        if entry is not None:
            self.seen += 1
            self.oldest = self.oldest or entry.time
            inside = self.window is None or is_within(entry.time, self.window)
            if inside and LOSS.search(line):
                self.losses.append(line)
            if inside and entry.tag in self.watched_tags:
                self.watched.append(line)
            self._wanted = inside and is_wanted(entry, self.chosen)
            self.kept += self._wanted
        # A line of another form goes on with the entry before it.
        if self._wanted:
            self.hand_on(line)


def read_filter(level: str = "", tags: Iterable[str] = ()) -> LogFilter:
    """The filter that a user named: one level stands for itself and all that are graver, ``W,E`` for just these.

    Raises UsageError for a level that hilog does not have, and for an empty tag.
    """
    tags = tuple(tags)
    if "" in tags:
        raise UsageError("A tag of the log is empty.")
    words = [word for word in re.split(r"[,/\s]+", level.upper()) if word]
    letters = [LEVELS[LEVEL_NAMES.index(word)] if word in LEVEL_NAMES else word for word in words]
    if unknown := [word for word in letters if word not in LEVELS or len(word) != 1]:
        raise UsageError(
            f"hilog has no level {unknown[0]}.", remedy=f"Use one of {', '.join(LEVELS)} ({', '.join(LEVEL_NAMES)})."
        )
    if len(letters) == 1:
        return LogFilter(levels=LEVELS[LEVELS.index(letters[0]) :], tags=tags)
    return LogFilter(levels="".join(letters) or LEVELS, tags=tags)


def parse_line(line: str) -> LogLine | None:
    """One entry; None for a line of another form."""
    found = LINE.match(line)
    if found is None:
        return None
    return LogLine(
        time=found["time"],
        pid=int(found["pid"]),
        tid=int(found["tid"]),
        level=found["level"],
        domain=found["domain"],
        tag=found["tag"].rpartition("/")[2],
        text=found["text"] or "",
    )


def is_wanted(entry: LogLine, chosen: LogFilter) -> bool:
    return entry.level in chosen.levels and (not chosen.tags or entry.tag in chosen.tags)


def is_within(time: str, window: tuple[datetime, datetime]) -> bool:
    """Whether a time without a year lies in the window, which may reach over the end of a year."""
    begin, end = window
    for year in {begin.year, end.year}:
        try:
            # hilog may print nanoseconds, of which Python takes the first six digits.
            moment = datetime.strptime(f"{year}-{time[:21]}", "%Y-%m-%d %H:%M:%S.%f")
        except ValueError:  # 29 February of another year.
            continue
        if begin.replace(microsecond=begin.microsecond // 1000 * 1000) <= moment <= end:
            return True
    return False


def capture_log(
    session: Session,
    board: Board,
    folder: Path,
    window: tuple[datetime, datetime],
    chosen: LogFilter,
    watch: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> tuple[dict[str, Any] | None, list[str]]:
    """Writes what the log says of `window` to ``hilog.log`` in `folder`, which may take `seconds`.

    Returns what the record says of it (None when the board has no hilog), and the lines with the tags `watch`, whether
    they were chosen or not. Raises what `Board.shell` raises.
    """
    with (folder / FILE).open("w", encoding="utf-8") as out:
        reader = LogReader(chosen=chosen, window=window, hand_on=lambda line: print(line, file=out), watched_tags=watch)
        found = _read(board, "hilog -x", reader, Deadline.after(seconds, f"the log of board {board.serial}"))
    if not found:
        (folder / FILE).unlink()
        return None, []
    began = f"{window[0]:%m-%d %H:%M:%S.%f}"[:18]
    cut = reader.seen > MANY and reader.oldest > began and window[0].year == window[1].year
    if cut or reader.losses:
        session.console.warn(
            f"the board's log has lost lines of this run ({FILE} is not whole)"
            + (f"; it reaches back to {reader.oldest} only" if cut else "")
        )
    said = {
        "file": FILE,
        "lines": reader.kept,
        "levels": chosen.levels,
        "tags": list(chosen.tags),
        "from": window[0].isoformat(timespec="milliseconds"),
        "to": window[1].isoformat(timespec="milliseconds"),
        "whole": not (cut or reader.losses),
    }
    return said, reader.watched


def show_log(
    session: Session,
    board: Board,
    chosen: LogFilter,
    hand_on: Callable[[str], None],
    *,
    follow: bool = False,
    lines: int = 0,
    since: float | None = None,
    timeout: float = 0.0,
) -> int:
    """Hands on the lines of a board's log, and with `follow` new ones until `timeout` seconds are over; returns how many.

    `lines` > 0: only the last ones; `since`: only those after that time of the host. Raises BoardError when the board
    has no hilog or cannot tell the time, and what `Board.shell` raises.
    """
    kept: list[str] = []
    reader = LogReader(chosen=chosen, hand_on=kept.append if lines and not follow else hand_on)
    seconds = timeout or (session.settings.timeouts.run if follow else SECONDS)
    deadline = Deadline.after(seconds, f"the log of board {board.serial}")
    if since is not None:
        clock = _ask_clock(board, deadline)
        begin = clock.window(since, since)[0]
        reader.window = (begin, begin + AHEAD)
    tags = f" -T {quote(','.join(chosen.tags))}" if chosen.tags else ""
    last = f" -z {lines}" if lines and not follow and not tags and chosen.levels == LEVELS and since is None else ""
    try:
        found = _read(board, f"hilog{tags}" if follow else f"hilog -x{tags}{last}", reader, deadline)
    except DeadlineExpired:
        # Whoever follows a log for a time has what he wanted when it is over.
        if not follow:
            raise
        found = True
    if not found:
        raise BoardError(f"Board {board.serial} has no hilog.", remedy="Minimal images have none; nothing can be read.")
    for line in kept[-lines:] if lines else ():
        hand_on(line)
    return reader.kept


def _read(board: Board, command: str, reader: LogReader, deadline: Deadline) -> bool:
    """Whether there is a hilog; what it says goes to `reader`."""
    script = f"command -v hilog >/dev/null || exit {MISSING}; {command}"
    result = board.shell(script, deadline=deadline, on_output=reader.feed)
    reader.finish()
    return result.exit_code != MISSING


def _ask_clock(board: Board, deadline: Deadline) -> BoardClock:
    import time

    asked = time.time()
    result = board.shell(f"date '+{FORMAT}'", deadline=deadline.within(SECONDS, f"the clock of board {board.serial}"))
    clock = read_clock(result.text, asked, time.time())
    if clock is None:
        raise BoardError(f"Board {board.serial} cannot tell the time: {result.text.strip()[:200]!r}.")
    return clock


def last_run(runs: Path, serial: str) -> float:
    """When the newest run on that board began, by the host's clock. Raises UsageError when there is none."""
    import json

    newest = 0.0
    stamp = ""
    for file in sorted(runs.glob("*/record.json"), reverse=True):
        second = file.parent.name.partition("-")[0]
        if newest and second != stamp:
            break  # Names begin with the second; within one the times decide.
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["board"]["serial"] == serial:
                newest = max(newest, datetime.fromisoformat(content["times"]["started"]).timestamp())
                stamp = second
        except (ValueError, KeyError, TypeError):
            continue
    if newest:
        return newest
    raise UsageError(f"There is no record of a run on board {serial} in {runs}.")
