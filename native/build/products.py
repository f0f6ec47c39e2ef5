"""Built files: out of the build tree, stripped, looked at, and refused when they are not for the board."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BuildError, ProductMissing, UnfitProduct
from core.files import LETTERS_OF_NAME, sha256_file
from native.artifact.artifact import Product
from native.artifact.elf import ElfInfo, inspect_elf
from native.build.prefix import libraries_in

if TYPE_CHECKING:
    from core.deadline import Deadline
    from core.session import Session
    from native.build.job import BuildJob
    from native.recipe.recipe import ProductSpec
    from toolchains.host_toolchain import HostToolchain

PLACE = "out"
"""Folder of all products of an artifact: a program finds the libraries beside it."""


def take_product(session: Session, spec: ProductSpec, job: BuildJob, folder: Path, deadline: Deadline) -> Product:
    """Copies a product out of the build tree into the artifact's `folder`, strips it and describes it.

    Raises ProductMissing, UnfitProduct.
    """
    root = job.source if spec.of_source else job.tree
    built = root / spec.path
    if not built.is_file():
        there = "" if spec.of_source else f"; there are: {_list_built(job.tree)}"
        raise ProductMissing(f"{job.title} was built, but there is no {spec.path} in {root}{there}.")
    place = folder / PLACE / (spec.file or built.name)
    place.parent.mkdir(exist_ok=True)
    fresh = place.with_name(f".{place.name[:LETTERS_OF_NAME]}.new")
    try:
        shutil.copy(built, fresh)
        if spec.strip and spec.kind != "file" and job.toolchain.strip:
            _strip(session, job, fresh, deadline)
        info = inspect_elf(fresh)
        check_fitness(spec, info, job.toolchain)
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)
    return _describe(spec, place, info)


def take_libraries(toolchain: HostToolchain, folder: Path, products: Collection[Product]) -> tuple[str, ...]:
    """The shared libraries that must travel with the products, as paths relative to `folder`.

    Those of the toolchain and of prefixes are copied; those that are products themselves are there already.
    """
    own = {Path(product.path).name: product for product in products if product.kind == "library"}
    programs = [product for product in products if product.kind == "program"]
    links = {name: library.needed for name, library in own.items()} | {p.name: p.needed for p in programs}
    taken = [own[name].path for name in needed_libraries(links, [p.name for p in programs]) if name in own]
    needed = {name for product in products for name in product.needed if name not in own}
    others = libraries_in(toolchain.prefixes, sorted(needed))
    needed |= {name for library in others.values() if (info := inspect_elf(library)) for name in info.needed}
    others |= {library.name: library for library in toolchain.runtime_libraries if library.name in needed}
    for name, library in sorted(others.items()):
        shutil.copy(library, folder / PLACE / name)
        taken.append(f"{PLACE}/{name}")
    return tuple(taken)


def needed_libraries(files: Mapping[str, Sequence[str]], roots: Sequence[str]) -> list[str]:
    """Which of `files` (name → names of libraries that it needs) are needed by `roots`, directly or not; sorted."""
    needed: set[str] = set()
    new = set(roots)
    while new:
        new = {name for root in new for name in files.get(root, ()) if name in files} - needed
        needed |= new
    return sorted(needed)


STATIC_OR_OHOS = (
    "Build the project's own libraries as static ones (in CMake: add_library without SHARED), or use "
    "--toolchain ohos for programs with shared libraries."
)


def refuse_shared(toolchain: HostToolchain) -> str:
    """Why shared libraries of a toolchain are of no use on a board; empty when they are."""
    if toolchain.name != "zig":
        return ""
    return f"{toolchain.title} links statically, its C library is not the one of the board"


def check_fitness(spec: ProductSpec, info: ElfInfo | None, toolchain: HostToolchain) -> None:
    """Raises UnfitProduct when a built file is not for the arch, or would not be loaded on the board."""
    if spec.kind == "file":
        return
    arch = toolchain.arch
    if info is None:
        raise UnfitProduct(f"The product {spec.name} is not an ELF file, so it is no {spec.kind}.")
    if (info.machine, info.bits) != (arch.elf_machine, arch.elf_bits):
        raise UnfitProduct(
            f"The product {spec.name} is for {info.machine} ({info.bits} bits), not for {arch.name} "
            f"({arch.elf_machine}, {arch.elf_bits} bits)."
        )
    if spec.kind == "program" and toolchain.static and not info.static:
        raise UnfitProduct(
            f"The product {spec.name} is linked dynamically (it needs {', '.join(info.needed) or info.interpreter}), but "
            f"{toolchain.title} links statically: its C library is not the one of the board.",
            remedy=STATIC_OR_OHOS,
        )
    if spec.kind == "library" and (why := refuse_shared(toolchain)):
        raise UnfitProduct(f"The product {spec.name} is a shared library, but {why}.", remedy=STATIC_OR_OHOS)
    if spec.kind == "program" and info.interpreter not in ("", arch.loader):
        raise UnfitProduct(
            f"The product {spec.name} wants the loader {info.interpreter}; OpenHarmony on {arch.name} has {arch.loader}."
        )
    # A static program shares no function with the board's libraries, so its calling convention is its own affair.
    # In anything else a hard-float object is a silent mix: it links, and functions get their numbers from nowhere.
    if info.float_abi == "hard" and not info.static:
        raise UnfitProduct(
            f"The product {spec.name} passes floating-point numbers in registers (hard float), but the libraries of "
            "OpenHarmony expect the soft calling convention; every result would be wrong.",
            remedy="Remove -mfloat-abi=hard from the flags; softfp uses the same instructions.",
        )


def _strip(session: Session, job: BuildJob, path: Path, deadline: Deadline) -> None:
    result = session.runner.run([*job.toolchain.strip, path], deadline=deadline, env=job.environment)
    if not result.ok:
        raise BuildError(f"Stripping {path.name} failed: {result.last_lines()}")


def _describe(spec: ProductSpec, place: Path, info: ElfInfo | None) -> Product:
    common = {
        "name": spec.name,
        "path": f"{PLACE}/{place.name}",
        "sha256": sha256_file(place),
        "size": place.stat().st_size,
        "kind": spec.kind,
        "with_files": spec.with_files,
    }
    if info is None:
        return Product(**common, machine="", interpreter="")  # type: ignore[arg-type]
    return Product(
        **common,  # type: ignore[arg-type]
        machine=info.machine,
        interpreter=info.interpreter,
        needed=info.needed,
        float_abi=info.float_abi,
        soname=info.soname,
        stripped=info.stripped,
        stack_size=info.stack_size,
        build_id=info.build_id,
    )


def _list_built(tree: Path) -> str:
    """Some of the ELF files in a build tree, for a message."""
    names = []
    for path in sorted(tree.rglob("*")):
        if path.is_file() and "CMakeFiles" not in path.parts and path.suffix not in (".o", ".a"):
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    names.append(path.relative_to(tree).as_posix())
    return ", ".join(names[:10]) or "no programs or libraries at all"
