"""What must lie beside a model on the board: its inputs, labels and weights in files of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ModelError, UsageError
from deploy.transfer.placement import FileToPlace

if TYPE_CHECKING:
    from native.build.ensure import BuildLook
    from native.models.models import Model
    from native.recipe.runspec import Value

ZIG = "zig"
"""The toolchain whose builds hold the reference runtime (the rules of the recipe mslite)."""
LISTED = 6
PLACE = "inputs/"
"""Folder below the run's, so that no input can take the place of the program or be fetched as an output."""


@dataclass(frozen=True, kw_only=True)
class Accompaniment:
    """Files that go along, further words of the command line, and parameters of the recipe's run section."""

    files: tuple[FileToPlace, ...] = ()
    arguments: tuple[str, ...] = ()
    parameters: dict[str, Value]


def accompany_model(
    model: Model, roles: Mapping[str, list[str]], parameters: dict[str, Value], made: Path
) -> Accompaniment:
    """Looks at the files that go with a model, before anything is built or sent. `roles` has its inputs and labels.

    What is made of them lies below `made`. A model that is not here yet, as with ``--dry``, cannot say what it wants.
    Raises UsageError for files that are not there or do not fit the model; ModelError when weights that the model keeps
    in other files are missing.
    """
    if model.kind != "ms" or not model.here:
        return Accompaniment(parameters=parameters)
    from native.formats.ms import read_ms
    from native.models.inputs import prepare_inputs

    info = read_ms(model.path)
    folder = made / "inputs" / model.sha256[:16]
    prepared = prepare_inputs(
        info, tuple(roles.get("inputs", ())), folder, place=PLACE, resized=bool(parameters.get("shape"))
    )
    files = [FileToPlace(local=path, name=PLACE + path.name) for path in prepared.files]
    files += [_weights(model, name) for name in info.external_files]
    for labels in roles.get("labels", ()):
        local = Path(labels).expanduser()
        if not local.is_file():
            raise UsageError(f"There is no file of labels {local}.")
        files.append(FileToPlace(local=local, name=f"{PLACE}labels/{local.name}"))
        parameters = {"top": 5, **parameters, "labels": f"{PLACE}labels/{local.name}"}
    return Accompaniment(files=tuple(files), arguments=prepared.arguments, parameters=parameters)


def require_computable(model: Model, build: BuildLook) -> None:
    """Raises ModelError for a ``.ms`` model that the program, built with our reference runtime in it, cannot compute."""
    from native.models.models import REFERENCE_LACKS

    lacks = model.summary.get(REFERENCE_LACKS)
    if not isinstance(lacks, list) or not lacks or build.plan.toolchain.name != ZIG:
        return
    raise ModelError(
        f"{model.path} cannot be run with the reference runtime, which takes the place of MindSpore Lite in what zig "
        f"builds. It lacks: {', '.join(lacks[:LISTED])}{' …' if len(lacks) > LISTED else ''}.",
        remedy="Build with an ohos-sdk (--toolchain ohos, `ohforge sdk.fetch`) for the MindSpore Lite of the board.",
    )


def _weights(model: Model, name: str) -> FileToPlace:
    local = model.path.parent / name
    if "/" in name or name in ("", ".", ".."):
        raise ModelError(f"{model.path} wants weights from {name!r}, which does not lie beside it.")
    if not local.is_file():
        raise ModelError(f"{model.path} has its weights in {name}, which is not beside it.")
    return FileToPlace(local=local, name=name)
