"""The artifact: what a build left, and everything that it was made from (``artifact.json``)."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.errors import InvalidData, unknown_name
from core.files import sha256_file, write_json

SCHEMA = 1
MANIFEST = "artifact.json"


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
    soname: str = ""
    stripped: bool = False
    stack_size: int = 0
    """Bytes of stack that the program asks for; 0 leaves it to the C library."""
    build_id: str = ""
    with_files: tuple[str, ...] = ()
    """Names of the products that lie beside this program wherever it runs."""


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
    toolchain_title: str = ""
    source: str = ""
    """Pins of the recipe's sources, in words; `inputs` has their hash."""
    sdk: str = ""
    """Version and API level of the SDK; empty for zig."""
    licence: str = ""
    inputs: dict[str, Any]
    products: tuple[Product, ...]
    runtime_libraries: tuple[str, ...] = ()
    """Libraries (paths relative to the artifact's folder) that must travel with the programs."""
    prefix: str = ""
    """Folder with headers, libraries and the files by which build systems find them, relative to the artifact's; or empty."""
    partial: bool = False
    """True when only those of a project's products were asked for that are in it."""
    built_on: dict[str, str] = field(default_factory=dict)
    """The computer that built it last: ``arch``, ``system``, ``kernel``, ``compiler``; nothing when that was not noted."""
    folder: Path
    """Where it lies; not part of the file."""

    def product(self, name: str) -> Product:
        """The product of that name; raises UnknownName with the nearest."""
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
    path = artifact.folder / MANIFEST
    write_json(path, {"schema": SCHEMA, **value})
    return path


def read_artifact(folder: Path) -> Artifact:
    """Reads ``artifact.json`` in `folder`. Raises InvalidData when it has another form."""
    path = folder / MANIFEST
    try:
        value = json.loads(path.read_text())
        if value.pop("schema") != SCHEMA:
            raise ValueError("another schema version")
        value["products"] = tuple(
            Product(
                **{**product, "needed": tuple(product["needed"]), "with_files": tuple(product.get("with_files", ()))}
            )
            for product in value["products"]
        )
        value["runtime_libraries"] = tuple(value["runtime_libraries"])
        return Artifact(folder=folder, **value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidData(f"{path} is not an artifact manifest: {error}") from error


def list_artifacts(builds: Path, program: str = "", arch: str = "") -> list[Artifact]:
    """The whole artifacts below `builds`, newest first. A manifest of another form (an older ohforge's) is passed over."""
    found: list[tuple[float, Artifact]] = []
    for path in builds.glob(f"{program or '*'}/{arch or '*'}-*/{MANIFEST}"):
        try:
            found.append((path.stat().st_mtime, read_artifact(path.parent)))
        except (InvalidData, FileNotFoundError):
            continue
    return [artifact for _, artifact in sorted(found, key=lambda item: item[0], reverse=True)]


def find_damage(artifact: Artifact, product: Product) -> str:
    """What is wrong with a product's file, in words; empty when it is there with the content that was built.

    The content is hashed, not only its size looked at: it is about to go to a board under this manifest's name, and
    a hundred megabytes take a tenth of a second.
    """
    path = artifact.path_of(product)
    if not path.is_file():
        return f"product missing: {product.name}"
    if path.stat().st_size != product.size or sha256_file(path) != product.sha256:
        return f"product altered since it was built: {product.name}"
    return ""
