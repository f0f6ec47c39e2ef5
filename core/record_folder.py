"""A folder that keeps what one piece of work leaves behind, with ``record.json`` in it.

The record is written when the work begins and again at every step, as a whole file, so that whatever happens it says
how far the work came.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import DISK_FULL, OhforgeError, UsageError
from core.files import folders_in, sha256_file, write_atomic, write_json

FILE = "record.json"
OUTPUTS = "outputs"
SUMS = "SHA256SUMS"
"""The hashes of all other files of a record that has ended, as ``sha256sum -c`` reads them."""


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
            write_sums(self.folder)
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


@dataclass(frozen=True, kw_only=True)
class RecordCheck:
    """A record's files, compared with the hashes that it was given at its end. Names are relative to the folder."""

    files: int
    changed: tuple[str, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def is_unchanged(self) -> bool:
        return not (self.changed or self.missing or self.added)


def check_record(folder: Path) -> RecordCheck:
    """Compares every file of a record with its hash. Raises UsageError for a record that has none: it never ended."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        raise UsageError(
            f"{folder} has no {SUMS}: it is no record, has not ended, or is older than these hashes.",
            remedy="Name the folder of a record that has ended; `ohforge bench.list` shows those of benches.",
        ) from None
    known = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    there = set(_files_of(folder))
    return RecordCheck(
        files=len(known),
        changed=tuple(sorted(name for name in there & set(known) if sha256_file(folder / name) != known[name])),
        missing=tuple(sorted(set(known) - there)),
        added=tuple(sorted(there - set(known))),
    )


def write_sums(folder: Path) -> None:
    """Writes the hashes of all files of a record, as it does at its end and after whatever changes it on purpose."""
    lines = [f"{sha256_file(folder / name)}  {name}\n" for name in sorted(_files_of(folder))]
    write_atomic(folder / SUMS, "".join(lines).encode("utf-8", "surrogateescape"))


def _files_of(folder: Path) -> list[str]:
    files = [path for place in folders_in(folder) for path in place.iterdir() if path.is_file()]
    return [name for path in files if (name := path.relative_to(folder).as_posix()) != SUMS]
