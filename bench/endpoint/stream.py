"""Server-sent events, read as they come: each with the time of its arrival, none of them without end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

from core.console import without_controls
from core.errors import UnreadableAnswer

LONGEST_LINE = 4 * 1024 * 1024
"""Bytes; the last event of a llama-server repeats the prompt and all settings."""
DONE = b"[DONE]"

Event = dict[str, Any]
END: Event = {}
"""What `read_events` gives last when the stream itself says that it ends."""


def read_events(chunks: Iterable[bytes], clock: Any = time.monotonic) -> Iterator[tuple[float, Event | None]]:
    """The events of a stream and when they came, on `clock`; None is a sign of life without content.

    Ends with `END` at ``[DONE]``, or with the stream. Raises UnreadableAnswer for a line that is no event, or has no end.
    """
    for at, line in _read_lines(chunks, clock):
        if not line or line.startswith(b":"):
            yield at, None
            continue
        name, _, value = line.partition(b":")
        if name in (b"event", b"id", b"retry"):
            continue
        if name not in (b"data", b"error"):
            raise UnreadableAnswer(f"The server streams a line that is no event: {_shortly(line)}.")
        if value.strip() == DONE:
            yield at, END
            return
        event = _read_json(value)
        yield at, {"error": event} if name == b"error" else event


def _read_lines(chunks: Iterable[bytes], clock: Any) -> Iterator[tuple[float, bytes]]:
    kept: list[bytes] = []
    size = 0
    for chunk in chunks:
        at = clock()
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            line = b"".join([*kept, part]).removesuffix(b"\r")
            kept, size = [], 0
            yield at, line
        if rest:
            kept.append(rest)
            size += len(rest)
        if size > LONGEST_LINE:
            raise UnreadableAnswer(
                f"The server streams a line without end: {size} bytes so far, beginning with {_shortly(kept[0])}."
            )
        # Whoever waits for an event looks at the clock then; half a line at the end is what a cut leaves.
        yield at, b":"


def _read_json(value: bytes) -> Event:
    try:
        event = json.loads(value)
    except (ValueError, RecursionError):
        raise UnreadableAnswer(f"The server streams an event that is no JSON: {_shortly(value.strip())}.") from None
    if not isinstance(event, dict):
        raise UnreadableAnswer(f"The server streams an event that is no JSON object: {_shortly(value.strip())}.")
    return event


def _shortly(line: bytes) -> str:
    text = without_controls(line[:120].decode("utf-8", "replace"))
    return repr(text) + (" …" if len(line) > 120 else "")
