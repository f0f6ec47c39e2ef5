"""What a build says, as lines of JSON: written on the build host, shown here as if it had been said here."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, TextIO

from core.console import Console, Progress, Verbosity

SHOW_SECONDS = 0.3
"""Between two notes of how far a step is."""


class JournalConsole(Console):
    """A console whose every word is an event in a file."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(verbosity=Verbosity.VERBOSE)
        self._file = file
        self._numbers = itertools.count()

    def stage(self, title: str) -> None:
        self._note(kind="stage", text=title)

    def info(self, text: str) -> None:
        self._note(kind="info", text=text)

    def detail(self, text: str) -> None:
        self._note(kind="detail", text=text)

    def warn(self, text: str) -> None:
        self._note(kind="warn", text=text)

    @contextlib.contextmanager
    def progress(self, title: str, total: float | None = None, unit: str = "bytes") -> Iterator[Progress]:
        step = _Step(self._note, {"step": next(self._numbers), "title": title, "unit": unit}, total)
        try:
            yield step
        finally:
            step.end()

    def _line(self, text: str, style: str = "", stream: TextIO | None = None) -> None:
        self._note(kind="info", text=text)

    def _note(self, **event: Any) -> None:
        self._file.write(json.dumps(event) + "\n")
        self._file.flush()


class _Step:
    """How far a step is, noted a few times a second. Each note says it all: a reader may come late."""

    def __init__(self, note: Callable[..., None], names: Mapping[str, Any], total: float | None) -> None:
        self._note, self._names, self._total = note, names, total
        self._done, self._noted, self._text = 0.0, 0.0, ""
        self.reach(0.0)

    def advance(self, count: float) -> None:
        self.reach(self._done + count)

    def reach(self, done: float, total: float | None = None) -> None:
        self._done, self._total = done, total if total is not None else self._total
        now = time.monotonic()
        if now - self._noted >= SHOW_SECONDS or done == self._total:
            self._noted = now
            self._note(kind="at", **self._names, done=done, total=self._total, text=self._text)

    def say(self, text: str) -> None:
        self._text = text

    def end(self) -> None:
        self._note(kind="end", **self._names)


class Replay:
    """Shows the events of a journal on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: dict[int, tuple[contextlib.ExitStack, Progress]] = {}
        self._rest = b""
        self.seen = 0
        """Bytes of the events that were shown."""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self.seen += len(line) + 1
            with contextlib.suppress(ValueError, KeyError, TypeError):  # What an older or newer journal may have.
                self._show(json.loads(line))

    def close(self) -> None:
        """Ends the displays of steps whose end has not come; what came of an unfinished line is forgotten."""
        self._rest = b""
        for stack, _ in self._bars.values():
            stack.close()
        self._bars.clear()

    def _show(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind in ("stage", "info", "detail", "warn"):
            getattr(self._console, kind)(str(event["text"]))
        elif kind == "at":
            bar = self._bar_of(event)
            bar.reach(event["done"], event["total"])
            bar.say(event["text"])
        elif kind == "end":
            self._bars.pop(event["step"])[0].close()

    def _bar_of(self, event: dict[str, Any]) -> Progress:
        if event["step"] not in self._bars:
            stack = contextlib.ExitStack()
            bar = stack.enter_context(self._console.progress(event["title"], event["total"], event["unit"]))
            self._bars[event["step"]] = (stack, bar)
        return self._bars[event["step"]][1]
