"""What a person sees: progress on a terminal, plain lines elsewhere, nothing but JSON on stdout with ``--json``."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Protocol, TextIO

from core.addresses import without_secrets
from core.files import human_bytes


class Verbosity(IntEnum):
    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


class Progress(Protocol):
    """A running display of how far something is."""

    def advance(self, count: float) -> None:
        """Adds `count` units."""

    def reach(self, done: float, total: float | None = None) -> None:
        """Sets how much is done, and optionally the new total."""

    def say(self, text: str) -> None:
        """Names what is being done just now."""


PLAIN_PROGRESS_SECONDS = 10.0
UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves the cursor, colours, renames the window, turns letters round or is no text; not newline and tab."""


def without_controls(text: str) -> str:
    """`text` with all that a terminal would obey written out as an escape.

    Names, versions, titles of pages and words of a board come from outside, and none of them may steer the terminal.
    """
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Console:
    """Text for people goes to stdout, or to stderr when `json_mode` leaves stdout to one JSON object."""

    def __init__(self, *, json_mode: bool = False, verbosity: Verbosity = Verbosity.NORMAL) -> None:
        self.json_mode = json_mode
        self.verbosity = verbosity
        self._started = time.monotonic()
        self._chosen: dict[str, str] = {}

    @property
    def out(self) -> TextIO:
        return sys.stderr if self.json_mode else sys.stdout

    @property
    def interactive(self) -> bool:
        return self.out.isatty()

    def stage(self, title: str) -> None:
        """Begins a step of a longer job, with the time since the start."""
        self._line(f"==> [{_clock(time.monotonic() - self._started)}] {title}", style="bold")

    def chosen(self, kind: str, what: str, why: str) -> None:
        """Says what was chosen for the user, and why: the first lines of every command. What was said already is not said again."""
        line = f"{kind}: {what} ({why})"
        if self._chosen.get(kind) != line:
            self._chosen[kind] = line
            self.info(line)

    def info(self, text: str) -> None:
        if self.verbosity >= Verbosity.NORMAL:
            self._line(text)

    def words(self, text: str) -> None:
        """What was asked for, such as the board's log: shown with ``--quiet``, too, and as it is."""
        self._write(without_controls(text), self.out)

    def detail(self, text: str) -> None:
        """For --verbose only."""
        if self.verbosity >= Verbosity.VERBOSE:
            self._line(text, style="dim")

    def warn(self, text: str) -> None:
        self._line(f"warning: {text}", style="yellow", stream=sys.stderr)

    def error(self, text: str) -> None:
        self._line(text, style="red", stream=sys.stderr)

    def passthrough(self, chunk: bytes) -> None:
        """A program's own output, byte for byte."""
        if self.verbosity == Verbosity.QUIET:
            return
        self.out.flush()
        raw = getattr(self.out, "buffer", None)
        if raw is None:
            self.out.write(chunk.decode("utf-8", "replace"))
        else:
            raw.write(chunk)
        self.out.flush()

    def confirm(self, question: str, seconds: float) -> bool | None:
        """Whether somebody at the terminal says yes within that time; None where nobody can be asked."""
        if not (self.interactive and sys.stdin.isatty()):
            return None
        print(f"{without_controls(question)} [y/N] ", end="", file=self.out, flush=True)
        if not select.select([sys.stdin], [], [], seconds)[0]:
            print(file=self.out)
            return False
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def table(self, headings: list[str], rows: list[list[str]]) -> None:
        """A table with aligned columns; without borders, so that it can be cut and grepped."""
        rows = [[without_controls(cell) for cell in row] for row in rows]
        widths = [max([len(row[i]) for row in [headings, *rows]]) for i in range(len(headings))]
        for row in [headings, *rows]:
            self._line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def result(self, value: dict[str, Any]) -> None:
        """The one JSON object of ``--json``; nothing otherwise."""
        self._write_json(value, indent=2)

    def result_line(self, value: dict[str, Any]) -> None:
        """One of many JSON objects, each on a line, of a task that answers so with ``--json``; nothing otherwise."""
        self._write_json(value, indent=None)

    @contextlib.contextmanager
    def progress(self, title: str, total: float | None = None, unit: str = "bytes") -> Iterator[Progress]:
        """Shows how far a long step is. `unit` is ``bytes`` or the plural of what is counted."""
        if self.verbosity == Verbosity.QUIET:
            yield _Silent()
        elif self.interactive:
            with _bar(self.out, without_controls(title), total, unit) as bar:
                yield bar
        else:
            yield _Plain(self, title, total, unit)

    def _write_json(self, value: dict[str, Any], indent: int | None) -> None:
        if self.json_mode:
            text = json.dumps(value, ensure_ascii=False, indent=indent)
            try:
                text.encode(sys.stdout.encoding or "utf-8")
            except UnicodeEncodeError:  # Words of the command line and names of files may be of bytes that are no text.
                text = json.dumps(value, indent=indent)
            sys.stdout.write(UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
            sys.stdout.flush()

    def _line(self, text: str, style: str = "", stream: TextIO | None = None) -> None:
        # Whoever writes a line need not know what is in it: an address of a user's, or a command line.
        stream, text = stream or self.out, without_secrets(without_controls(text))
        if style and stream.isatty():
            colours = {"bold": "1", "dim": "2", "yellow": "33", "red": "31"}
            text = f"\033[{colours[style]}m{text}\033[0m"
        self._write(text, stream)

    def _write(self, text: str, stream: TextIO) -> None:
        encoding = stream.encoding or "utf-8"  # None: a stream in memory.
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


@contextlib.contextmanager
def closed_when_full(stream: TextIO) -> Iterator[None]:
    """Lets what follows, also at the program's exit, vanish when `stream` takes nothing more."""
    try:
        yield
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:d}:{int(seconds) % 60:02d}"


class _Silent:
    def advance(self, count: float) -> None: ...

    def reach(self, done: float, total: float | None = None) -> None: ...

    def say(self, text: str) -> None: ...


class _Plain:
    """One line every ten seconds, for logs."""

    def __init__(self, console: Console, title: str, total: float | None, unit: str) -> None:
        self._console, self._title, self._total, self._unit = console, title, total, unit
        self._done = 0.0
        # What was there before a resumed download began is not counted into its rate.
        self._begun_at: float | None = None
        self._started = self._last = time.monotonic()

    def advance(self, count: float) -> None:
        self.reach(self._done + count)

    def reach(self, done: float, total: float | None = None) -> None:
        self._done = done
        if self._begun_at is None:
            self._begun_at = done if done > 0 and self._unit == "bytes" else 0.0
        self._total = total if total is not None else self._total
        now = time.monotonic()
        if now - self._last >= PLAIN_PROGRESS_SECONDS:
            self._last = now
            self._console.info(f"    {self._title}: {self._so_far(now)}")

    def say(self, text: str) -> None: ...

    def _so_far(self, now: float) -> str:
        def amount(value: float) -> str:
            return human_bytes(value) if self._unit == "bytes" else f"{value:.0f}"

        rate = (self._done - (self._begun_at or 0.0)) / max(now - self._started, 1e-9)
        text = amount(self._done) + (f" of {amount(self._total)}" if self._total else "")
        if self._unit != "bytes":
            return f"{text} {self._unit}"
        left = f", {(self._total - self._done) / rate:.0f} s left" if self._total and rate else ""
        return f"{text}, {human_bytes(rate)}/s{left}"


@contextlib.contextmanager
def _bar(stream: TextIO, title: str, total: float | None, unit: str) -> Iterator[Progress]:
    from rich import progress as bars
    from rich.console import Console as Terminal

    amount: list[bars.ProgressColumn] = (
        [bars.DownloadColumn(), bars.TransferSpeedColumn()]
        if unit == "bytes"
        else [bars.MofNCompleteColumn(), bars.TextColumn(unit)]
    )
    columns = [
        bars.TextColumn("    {task.description}", markup=False),
        bars.BarColumn(),
        *amount,
        bars.TimeRemainingColumn(),
    ]
    with bars.Progress(*columns, console=Terminal(file=stream), transient=True) as display:
        task = display.add_task(title, total=total)

        class Bar:
            def advance(self, count: float) -> None:
                display.advance(task, count)

            def reach(self, done: float, total: float | None = None) -> None:
                display.update(task, completed=done, total=total)

            def say(self, text: str) -> None:
                display.update(task, description=f"{title}: {without_controls(text)}")

        yield Bar()
