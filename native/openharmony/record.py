"""What a build in a source tree leaves behind: ``record.json`` (docs/source-build.schema.json), ``build.log``, ``outputs/``."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.record_folder import FILE, RecordFolder, make_record_folder, now
from core.session import PROJECT, Session

SCHEMA = 1
SCHEMA_FILE = PROJECT / "docs" / "source-build.schema.json"
LOG = "build.log"


class SourceBuildRecord(RecordFolder):
    """The record of one build, whose last state is ``done``, ``failed``, ``timeout`` or ``interrupted``."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        super().__init__(folder, content)
        self.began = (folder / FILE).stat().st_mtime
        """When it was first written, by the clock of the file system."""

    @property
    def log(self) -> Path:
        return self.folder / LOG


def start_source_record(
    session: Session, component: str, product: str, content: Mapping[str, Any]
) -> SourceBuildRecord:
    """Makes ``<runs>/<UTC time>-source-build-<component>-<product>-<id>`` with its first ``record.json``."""
    started = now()
    folder = make_record_folder(session.settings.runs, started, "source-build", component, product)
    first = {
        "schema": SCHEMA,
        "kind": "source-build",
        "id": folder.name,
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
