"""Records of one kind: finding them by name, and reading those that have the right form."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.data_file import find_fault
from core.errors import InvalidData, UsageError
from core.record_folder import FILE
from core.session import Session


@dataclass(frozen=True, kw_only=True)
class RecordKind:
    """What ``record.json`` of such a record says of its kind, and how messages speak of it."""

    name: str
    schema: int
    schema_file: Path
    title: str
    """With its article."""
    maker: str
    """The command that makes one."""
    where: str
    """How to learn which there are."""

    def find(self, session: Session, name: str) -> Path:
        """The folder of a record, named by path or as it is called below ``runs/``; ``latest`` is the newest one.

        Raises UsageError.
        """
        runs = session.settings.runs
        if name == "latest":
            if (newest := self._newest(runs)) is not None:
                return newest
            raise UsageError(f"There is no record of {self.title} in {runs}.", remedy=f"Make one with `{self.maker}`.")
        for folder in (Path(name).expanduser(), runs / name):
            if (folder / FILE).is_file():
                return folder
        raise UsageError(
            f"There is no record {name!r}: neither a folder with {FILE} nor one of that name in {runs}.",
            remedy=self.where,
        )

    def read(self, folder: Path) -> dict[str, Any]:
        """What the record says. Raises InvalidData for a record of another kind or form."""
        try:
            content = json.loads((folder / FILE).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidData(f"{folder / FILE} is no JSON: {error}.") from error
        if not isinstance(content, dict) or content.get("kind") != self.name:
            raise InvalidData(f"{folder} is not the record of {self.title}.", remedy=self.where)
        if content.get("schema") != self.schema:
            raise InvalidData(
                f"{folder} has version {content.get('schema')} of the form of such a record; this ohforge reads "
                f"{self.schema}.",
                remedy=f"Use the version of ohforge that made it, or make a new one with `{self.maker}`.",
            )
        if fault := find_fault(content, self.schema_file):
            raise InvalidData(f"{folder / FILE} is not of its form: {fault[1]}")
        return content

    def _newest(self, runs: Path) -> Path | None:
        for file in sorted(runs.glob(f"*/{FILE}"), reverse=True):
            with contextlib.suppress(OSError, ValueError):
                content = json.loads(file.read_text(encoding="utf-8"))
                if isinstance(content, dict) and content.get("kind") == self.name:
                    return file.parent
        return None
