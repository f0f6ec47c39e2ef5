"""What a build in a source tree leaves behind: ``record.json`` (docs/source-build.schema.json), ``build.log``, ``outputs/``."""

from __future__ import annotations

import importlib.metadata
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.errors import OhforgeError
from core.files import write_json
from core.session import PROJECT, Session

SCHEMA = 1
SCHEMA_FILE = PROJECT / "docs" / "source-build.schema.json"
FILE = "record.json"
LOG = "build.log"
OUTPUTS = "outputs"


class SourceBuildRecord:
    """The record of one build. Written when the build begins, and again with every change, as a whole file."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self.content = content
        self.save()
        self.began = (folder / FILE).stat().st_mtime
        """When it was first written, by the clock of the file system."""

    @property
    def log(self) -> Path:
        return self.folder / LOG

    @property
    def outputs(self) -> Path:
        return self.folder / OUTPUTS

    def save(self, **changes: Any) -> None:
        self.content.update(changes)
        write_json(self.folder / FILE, self.content)

    def end(self, state: str, error: OhforgeError | None = None, **changes: Any) -> None:
        """Writes the last state: ``done``, ``failed``, ``timeout`` or ``interrupted``."""
        times = {**self.content["times"], "ended": _now()}
        self.save(state=state, times=times, error=error.as_json() if error else None, **changes)
        if error is not None:
            error.details.setdefault("record", str(self.folder))


def start_source_record(
    session: Session, component: str, product: str, content: Mapping[str, Any]
) -> SourceBuildRecord:
    """Makes ``<runs>/<UTC time>-source-build-<component>-<product>-<id>`` with its first ``record.json``."""
    started = _now()
    stamp = re.sub(r"[-:]|\.\d+", "", started)
    name = re.sub(r"[^\w.]+", "-", f"{component}-{product}", flags=re.ASCII).strip("-.")[:60]
    while True:
        identity = f"{stamp}-source-build-{name}-{secrets.token_hex(2)}"
        folder = session.settings.runs / identity
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue
    first = {
        "schema": SCHEMA,
        "kind": "source-build",
        "id": identity,
        "state": "running",
        "ohforge": importlib.metadata.version("ohforge"),
        "times": {"started": started, "ended": None},
        **content,
        "steps": None,
        "exit_status": None,
        "seconds": None,
        "failure": None,
        "outputs": [],
        "error": None,
    }
    return SourceBuildRecord(folder, first)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
