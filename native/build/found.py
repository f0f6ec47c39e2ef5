"""The products of a project that does not name any: the programs and shared libraries that its build has left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import DamagedProgram, ProductMissing, UnfitProduct, unknown_name
from core.files import sha256_file
from native.artifact.elf import MAGIC, ElfInfo, inspect_elf
from native.build.job import STAGING
from native.build.products import STATIC_OR_OHOS, needed_libraries, refuse_shared
from native.recipe.recipe import ProductSpec
from native.source.tree import BUILT_TIME

if TYPE_CHECKING:
    from core.session import Session
    from native.build.job import BuildJob

NOT_SEARCHED = frozenset({"CMakeFiles", "meson-private", "meson-logs", STAGING})
"""Where build systems keep what they compile to learn about the compiler; and what is searched by itself."""
RELINKED = "lt-"
"""What libtool calls a program that it has linked for a try in the build tree."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """One ELF file of the build tree, as an artifact takes it."""

    path: Path
    info: ElfInfo

    @property
    def file(self) -> str:
        """Name in the artifact: a shared library is looked for by its soname."""
        return self.info.soname or self.path.name


def find_products(
    session: Session, job: BuildJob, not_installed: str, *, may_be_none: bool = False
) -> list[ProductSpec]:
    """The products in `job`'s tree: those that its install step has chosen, when there are any, else all.

    With names in ``job.wanted``: the ones of these names. Shared libraries that a product needs are always among them.
    `not_installed`: why the install step was not done. `may_be_none`: the project leaves a prefix, so that no product is
    no fault. Raises ProductMissing, UnfitProduct when there is nothing for the arch, UnknownName.
    """
    everywhere = _unique(job, [*_search(job.staging), *_search(job.tree)])
    fitting = {name: found for name, found in everywhere.items() if _fits(job, found)}
    for name in sorted(everywhere.keys() - fitting.keys()):
        session.console.detail(f"{name} is no product: {_why_not(job, everywhere[name])}")
    if not fitting and may_be_none:
        return []
    if not fitting:
        raise _nothing_fits(job, everywhere, not_installed)
    if job.wanted:
        chosen = [_named(job, everywhere, spec.name) for spec in job.wanted]
    else:
        chosen = [name for name, found in fitting.items() if found.path.is_relative_to(job.staging)] or list(fitting)
    names = dict.fromkeys([*chosen, *_libraries_of([everywhere[name] for name in chosen], fitting)])
    return [_spec(job, name, everywhere[name]) for name in names]


def _search(folder: Path) -> Iterator[Found]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_SEARCHED)
        for name in sorted(files):
            path = Path(place, name)
            if path.is_symlink() or name.startswith(RELINKED) or path.suffix == ".o" or not _begins_as_elf(path):
                continue
            if int(path.stat().st_mtime) == BUILT_TIME:
                continue  # it came with the source and was not built
            try:
                info = inspect_elf(path)
            except DamagedProgram:
                continue  # a piece of data for the project's own tests, as a rule
            if info is not None and info.type in ("program", "library"):
                yield Found(path=path, info=info)


def _begins_as_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _unique(job: BuildJob, found: Sequence[Found]) -> dict[str, Found]:
    """Products by name. Files of one name in several folders are told apart by the folder, unless they are the same."""
    named: dict[str, Found] = {}
    for entry in found:
        name = entry.file
        first = named.get(name)
        if first is None:
            named[name] = entry
        elif first.path.is_relative_to(job.staging) != entry.path.is_relative_to(job.staging):
            continue  # built there, installed here (and perhaps with another rpath)
        elif sha256_file(first.path) != sha256_file(entry.path):
            named["-".join((*entry.path.relative_to(job.tree).parts[:-1], name))] = entry
    return named


def _fits(job: BuildJob, found: Found) -> bool:
    return not _why_not(job, found)


def _why_not(job: BuildJob, found: Found) -> str:
    """Why a file can be no product; empty when it can."""
    arch = job.toolchain.arch
    if (found.info.machine, found.info.bits) != (arch.elf_machine, arch.elf_bits):
        return f"it is for {found.info.machine}"
    return refuse_shared(job.toolchain) if found.info.type == "library" else ""


def _named(job: BuildJob, found: Mapping[str, Found], name: str) -> str:
    if name not in found:
        raise unknown_name(f"product of {job.title}", name, found)
    return name


def _libraries_of(chosen: Sequence[Found], fitting: Mapping[str, Found]) -> list[str]:
    needs = {name: found.info.needed for name, found in fitting.items()}
    return needed_libraries(needs, [found.file for found in chosen])


def _spec(job: BuildJob, name: str, found: Found) -> ProductSpec:
    return ProductSpec(
        name=name,
        path=found.path.relative_to(job.tree).as_posix(),
        kind=found.info.type,
        target=name,
        file=name,
    )


def _nothing_fits(job: BuildJob, found: Mapping[str, Found], not_installed: str) -> ProductMissing | UnfitProduct:
    if not found:
        return ProductMissing(
            f"{job.title} was built, but that has left no program and no shared library in {job.tree}, and no "
            "install step has said which of its libraries and headers are for others"
            + (f": {not_installed} ({job.log_path})." if not_installed else "."),
            remedy="Add a program, switch on its examples or tests with --option, or let its install step put libraries and "
            "headers into DESTDIR.",
        )
    arch = job.toolchain.arch
    shared = [name for name, entry in found.items() if entry.info.machine == arch.elf_machine]
    if shared:
        return UnfitProduct(
            f"{job.title} was built, but of shared libraries only ({', '.join(sorted(shared))}): "
            f"{refuse_shared(job.toolchain)}.",
            remedy=STATIC_OR_OHOS,
        )
    listed = ", ".join(
        f"{name} ({entry.info.machine}, {entry.info.bits} bits)" for name, entry in sorted(found.items())[:10]
    )
    return UnfitProduct(
        f"{job.title} was built, but nothing that it has left is for {arch.name} ({arch.elf_machine}, {arch.elf_bits} "
        f"bits): {listed}. The project compiles with another compiler than the one that it is given.",
        remedy="Let it use the compiler in CC and CXX (in a Makefile: $(CC) instead of gcc, which "
        "`make CC=…` then replaces). A configure that was written by hand may want to be told: --option CC=ohforge-cc or "
        "CXX=ohforge-c++.",
    )
