"""What a run on a board needs: all that is known before the board is asked anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.run.options import RunOptions
from deploy.run.preflight import Binary
from deploy.transfer.placement import FileToPlace

if TYPE_CHECKING:
    from native.artifact.artifact import Artifact
    from native.models.models import Model
    from native.recipe.runspec import RunSpec


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What is to be run. `executable` and the names in `files` are relative to the run's folder on the board."""

    program: str
    """Name for the record."""
    engine: str
    executable: str
    files: tuple[FileToPlace, ...]
    """Everything that the program needs there, itself included."""
    arguments: tuple[str, ...] = ()
    binaries: tuple[Binary, ...] = ()
    """What is checked against the board before anything is sent."""
    library_folder: str | None = None
    """Folder of the libraries that travel along, relative to the run's folder (``""``: that itself); None: there are none."""
    artifact: Artifact | None = None
    model: Model | None = None
    spec: RunSpec | None = None
    """How the program's output is understood."""
    pass_status: bool = False
    """True: a status other than 0 is the caller's to judge, not an error."""
    options: RunOptions = field(default_factory=RunOptions)
    on_record: Callable[[Path], None] | None = None
    """Is told the folder of the run's record as soon as that is there."""
