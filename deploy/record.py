"""What a run leaves behind: a folder with ``record.json``, ``output.log`` and ``outputs/`` (docs/run-record.md).

``record.json`` is written when the run begins and again at every step, atomically, so that whatever happens it says
how far the run came. Its form is docs/record.schema.json.
"""

from __future__ import annotations

import importlib.metadata
import re
import secrets
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import OhforgeError
from core.files import write_json
from core.session import PROJECT, Session

SCHEMA = 1
SCHEMA_FILE = PROJECT / "docs" / "record.schema.json"
FILE = "record.json"
LOG = "output.log"
OUTPUTS = "outputs"
STATES = ("running", "done", "failed", "interrupted", "lost", "timeout")


class RunRecord:
    """The record of one run. `content` is what ``record.json`` says."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self.content = content
        self.save()

    @property
    def log(self) -> Path:
        return self.folder / LOG

    @property
    def outputs(self) -> Path:
        return self.folder / OUTPUTS

    def save(self, **changes: Any) -> None:
        """Takes over `changes` and writes the file."""
        self.content.update(changes)
        write_json(self.folder / FILE, self.content)

    def end(self, state: str, error: OhforgeError | None = None, **changes: Any) -> None:
        """Writes the last state; `error` when the run did not come to its end."""
        ended = now()
        times = {**self.content["times"], "ended": ended}
        self.save(state=state, times=times, error=error.as_json() if error is not None else None, **changes)
        if error is not None:
            error.details.setdefault("record", str(self.folder))


def start_record(session: Session, *, program: str, board: str, content: Mapping[str, Any]) -> RunRecord:
    """Makes the folder ``<runs>/<UTC time>-<program>-<board>-<id>`` and writes the first ``record.json``."""
    started = now()
    stamp = re.sub(r"[-:]|\.\d+", "", started)
    while True:
        identity = f"{stamp}-{_plain(program)}-{_plain(board)}-{secrets.token_hex(2)}"
        folder = session.settings.runs / identity
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue
    return RunRecord(
        folder,
        {
            "schema": SCHEMA,
            "id": identity,
            "state": "running",
            "ohforge": importlib.metadata.version("ohforge"),
            "times": {"clock": "host", "started": started, "ended": None},
            **content,
            "transfer": None,
            "result": None,
            "metrics": {},
            "facts": {},
            "outputs": [],
            "device": None,
            "log": None,
            "crash_logs": [],
            "error": None,
        },
    )


def signal_name(exit_code: int) -> str:
    """The signal that a shell's status of 128 + n stands for, such as ``SIGSEGV``; empty for any other status."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""


def now() -> str:
    """The time in UTC, as ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text, flags=re.ASCII).strip("-.")[:40] or "run"


def validate_record(content: Any) -> None:
    """Raises InvalidData unless `content` has the form of docs/record.schema.json."""
    import json

    import jsonschema

    from core.errors import InvalidData

    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    fault = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(content))
    if fault is not None:
        raise InvalidData(f"The run record is not of its form: {fault.json_path}: {fault.message}")
