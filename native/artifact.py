"""The artifact: what a build left, and everything that it was made from (``artifact.json``)."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InvalidData
from core.files import write_json

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Product:
    """One built file. `path` is relative to the artifact's folder; `needed` are shared library names from the ELF."""

    name: str
    path: str
    sha256: str
    size: int
    kind: str
    """``program``, ``library`` or ``file``."""
    machine: str
    """ELF ``e_machine`` such as ``EM_AARCH64``; empty when it is no ELF file."""
    interpreter: str
    """Path of the loader; empty for a static program."""
    needed: tuple[str, ...] = ()
    float_abi: str = ""
    """arm32 only: ``hard`` or ``soft`` (the latter also for softfp), from the ELF flags."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A built program. `inputs` is all that the key is made of, so two artifacts can be told apart in words."""

    program: str
    version: str
    arch: str
    key: str
    toolchain: str
    """``zig`` or ``ohos``."""
    toolchain_id: str
    cpu: str
    inputs: dict[str, Any]
    products: tuple[Product, ...]
    runtime_libraries: tuple[str, ...] = ()
    """Libraries (paths relative to the artifact's folder) that must travel with the programs."""
    folder: Path
    """Where it lies; not part of the file."""

    def product(self, name: str) -> Product:
        """The product of that name; raises UnknownName with the nearest."""
        from core.errors import unknown_name

        for product in self.products:
            if product.name == name:
                return product
        raise unknown_name(f"product of {self.program}", name, [p.name for p in self.products])

    def path_of(self, product: Product) -> Path:
        return self.folder / product.path


def write_artifact(artifact: Artifact) -> Path:
    """Writes ``artifact.json``, last and atomically: its presence means that the build is whole."""
    value = dataclasses.asdict(artifact)
    del value["folder"]
    path = artifact.folder / "artifact.json"
    write_json(path, {"schema": SCHEMA, **value})
    return path


def read_artifact(folder: Path) -> Artifact:
    """Reads ``artifact.json`` in `folder`. Raises InvalidData when it has another form."""
    path = folder / "artifact.json"
    try:
        value = json.loads(path.read_text())
        if value.pop("schema") != SCHEMA:
            raise ValueError("another schema version")
        value["products"] = tuple(
            Product(**{**product, "needed": tuple(product["needed"])}) for product in value["products"]
        )
        value["runtime_libraries"] = tuple(value["runtime_libraries"])
        return Artifact(folder=folder, **value)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(f"{path} is not an artifact manifest: {error}") from error
