"""What a build in a source tree left: the component's libraries and headers, copied and described."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import ProductMissing, UnfitProduct
from core.files import sha256_file
from native.artifact.elf import ElfInfo, inspect_elf
from native.openharmony.tree import Component, SourceTree, TreeProduct
from toolchains.arch import Arch

NOT_FOR_BOARDS = ("obj", "gen", "ndk", "sdk-native", "clang_x64", "tests", "test")
"""Folders below out/ where files of the same names lie that are something else."""
UNSTRIPPED = "unstripped"
HEADERS = (".h", ".hpp", ".hh")


@dataclass(frozen=True, kw_only=True)
class CollectedFile:
    """One file below ``outputs/``. `source` is its path in the tree."""

    path: str
    source: str
    size: int
    sha256: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    stripped: bool | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"needed": list(self.needed)}


def collect_outputs(
    tree: SourceTree, product: TreeProduct, component: Component, arch: Arch, target: Path
) -> list[CollectedFile]:
    """Copies libraries to `target`/lib and headers to `target`/include.

    Raises ProductMissing when there is no library, UnfitProduct when one is for another arch.
    """
    out = find_out_folder(tree, product)
    found = _choose_libraries(out, component)
    if not found:
        wanted = ", ".join(component.libraries) or f"a library of {component.name}"
        raise ProductMissing(
            f"The build ended well, but below {out} there is no {wanted}.",
            remedy="Look in out/ for where the component's files went; build its parent group if the target has no library.",
        )
    collected = [_copy_library(tree, path, arch, target / "lib") for path in found]
    for folder in component.headers:
        for header in sorted(path for path in folder.rglob("*") if path.suffix in HEADERS):
            collected.append(_copy(tree, header, target / "include" / header.relative_to(folder)))
    return [_relative_to(file, target) for file in collected]


def find_out_folder(tree: SourceTree, product: TreeProduct) -> Path:
    """Where the product's build works: ``out/<product>``, in some releases ``out/<board>``."""
    names = [name for name in (product.name, product.board) if name]
    return next(
        (tree.root / "out" / name for name in names if (tree.root / "out" / name).is_dir()),
        tree.root / "out" / names[0],
    )


def find_error_log(tree: SourceTree, product: TreeProduct, since: float) -> Path | None:
    """The ``error.log`` that hb leaves beside its ``build.log``, unless it is older than `since` (seconds, as mtimes)."""
    folders = (find_out_folder(tree, product), tree.root / "out")
    paths = [folder / "error.log" for folder in folders if (folder / "error.log").is_file()]
    return next((path for path in paths if path.stat().st_mtime >= since), None)


def _choose_libraries(out: Path, component: Component) -> list[Path]:
    """One file for each name, the one that was written last."""
    newest: dict[str, Path] = {}
    for path in _libraries(out, component):
        if path.name not in newest or path.stat().st_mtime > newest[path.name].stat().st_mtime:
            newest[path.name] = path
    return [newest[name] for name in sorted(newest)]


def _libraries(out: Path, component: Component) -> Iterator[Path]:
    wanted = set(component.libraries)
    for place, folders, names in os.walk(out):
        folders[:] = [name for name in folders if name not in NOT_FOR_BOARDS and UNSTRIPPED not in name]
        # Without a list of names: a component's files are in <subsystem>/<component>.
        inside = component.name in Path(place).relative_to(out).parts
        for name in names:
            if (name in wanted if wanted else inside and name.endswith(".so")) and not (
                Path(place) / name
            ).is_symlink():
                yield Path(place) / name


def _copy_library(tree: SourceTree, path: Path, arch: Arch, folder: Path) -> CollectedFile:
    info = inspect_elf(path)
    if info is None:
        raise UnfitProduct(f"{path} is not an ELF file.")
    if (info.machine, info.bits) != (arch.elf_machine, arch.elf_bits):
        raise UnfitProduct(
            f"{path} is for {info.machine} ({info.bits} bits), not for {arch.name}.",
            remedy="Choose the cpu of the product's config.json with --cpu, or remove out/ of the product and build again.",
        )
    return _copy(tree, path, folder / path.name, info)


def _copy(tree: SourceTree, path: Path, target: Path, info: ElfInfo | None = None) -> CollectedFile:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)
    return CollectedFile(
        path=str(target),
        source=str(path.relative_to(tree.root)),
        size=target.stat().st_size,
        sha256=sha256_file(target),
        soname=info.soname if info else "",
        needed=info.needed if info else (),
        stripped=info.stripped if info else None,
    )


def _relative_to(file: CollectedFile, target: Path) -> CollectedFile:
    return replace(file, path=f"{target.name}/{Path(file.path).relative_to(target).as_posix()}")
