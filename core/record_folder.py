"""A folder that keeps what one piece of work leaves behind, with ``record.json`` in it.

The record is written when the work begins and again at every step, as a whole file, so that whatever happens it says
how far the work came.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import DISK_FULL, OhforgeError
from core.files import write_json

FILE = "record.json"
OUTPUTS = "outputs"


class RecordFolder:
    """One record. `content` is what ``record.json`` says; it has ``times`` with ``started`` and ``ended``."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self.content = content
        self.save()

    @property
    def outputs(self) -> Path:
        return self.folder / OUTPUTS

    def save(self, **changes: Any) -> None:
        """Takes over `changes` and writes the file."""
        self.content.update(changes)
        write_json(self.folder / FILE, self.content)

    def end(self, state: str, error: OhforgeError | None = None, **changes: Any) -> None:
        """Writes the last state; `error` when the work did not come to its end."""
        times = {**self.content["times"], "ended": now()}
        try:
            self.save(state=state, times=times, error=error.as_json() if error is not None else None, **changes)
        except OSError as full:
            # What ended the work weighs more than that it cannot be noted.
            if error is None or full.errno not in DISK_FULL:
                raise
        if error is not None:
            error.details.setdefault("record", str(self.folder))


def make_record_folder(runs: Path, started: str, *names: str) -> Path:
    """Makes ``<runs>/<UTC time>-<names>-<short id>``, which no other process has; `started` is what `now` said."""
    stamp = re.sub(r"[-:]|\.\d+", "", started)
    while True:
        folder = runs / "-".join([stamp, *map(plain_name, names), secrets.token_hex(2)])
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder


def now() -> str:
    """The host's time in UTC, such as ``2026-01-31T12:00:00.000Z``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain_name(text: str) -> str:
    """`text` as a part of a folder's name."""
    return re.sub(r"[^\w.]+", "-", text, flags=re.ASCII).strip("-.")[:40] or "run"
