"""What one build is told: folders, flags and environment, from its plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.process import usable_cores
from native.build.emulator import write_emulator
from native.build.job import COPY, BuildJob
from native.source.kinds import FolderSource

if TYPE_CHECKING:
    from core.session import Session
    from native.build.cache import CompilerCache
    from native.build.plan import BuildPlan
    from native.recipe.recipe import ProductSpec

NO_DATE = {"SOURCE_DATE_EPOCH": "0"}
"""For build steps that write the date into what they make; `native.build.plan.NO_DATE_FLAGS` are for the compiler."""
NOT_OF_THE_SHELL = dict.fromkeys(
    (
        *("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "DESTDIR", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CONFIG_SITE"),
        *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "PKG_CONFIG_PATH", "PKG_CONFIG_SYSROOT_DIR"),
        *("CMAKE_PREFIX_PATH", "CMAKE_INCLUDE_PATH", "CMAKE_LIBRARY_PATH"),
    ),
    "",
)
"""Variables that compilers and build systems heed: they are no part of a build's inputs, so they must not be there."""

AS_GNU_LD = ["-Wl,--undefined-version"]
"""What projects are written for: lld from 17 on refuses a list of versions with a function that is not there, and then
such a project's `configure` believes that there are no shared libraries."""


def make_job(
    session: Session,
    plan: BuildPlan,
    source: Path,
    folder: Path,
    wanted: Sequence[ProductSpec],
    jobs: int,
    cache: CompilerCache | None,
) -> BuildJob:
    recipe, toolchain = plan.recipe, plan.toolchain
    tree = folder / "tree"
    # CMake finds them by itself; whatever else is told by the flags of every compiler.
    prefixes = toolchain.prefixes if recipe.build.system != "cmake" else ()
    includes = [word for prefix in prefixes for word in ("-isystem", str(prefix / "include"))]
    libraries = [f"-L{prefix / 'lib'}" for prefix in prefixes]
    libraries += AS_GNU_LD if toolchain.name == "ohos" and recipe.finds_products else []
    place, origin, emulator = source / recipe.build.subfolder, None, ""
    if recipe.finds_products or recipe.build.system in ("make", "cargo"):
        # It may write into its source, and may run what it has built.
        origin, emulator = place, write_emulator(folder, toolchain)
        place = source = tree / COPY
        if recipe.build.system == "meson":
            tree /= "build"  # Meson does not build in a folder that its source is in.
    return BuildJob(
        title=f"{recipe.name} for {toolchain.arch.name}",
        system=recipe.build.system,
        source=place,
        origin=origin,
        leave_out=tuple(
            path for entry in recipe.sources if isinstance(entry, FolderSource) for path in entry.leave_out
        ),
        tree=tree,
        toolchain=toolchain,
        build_type=recipe.build.type,
        options=dict(zip(plan.options, plan.filled(plan.options.values(), source), strict=True)),
        compile_flags=[
            *plan.filled(plan.compile_flags, source),
            *_map_paths(plan, source, tree),
            *includes,
        ],
        link_flags=[*plan.filled(plan.link_flags, source), *libraries],
        products=recipe.products,
        wanted=[spec for spec in wanted if not spec.of_source],
        jobs=jobs or session.settings.jobs or usable_cores(),
        emulator=emulator,
        launcher=cache.program if cache else "",
        environment={**NOT_OF_THE_SHELL, **NO_DATE, **(cache.environment if cache else {}), **toolchain.environment},
        log_path=folder / "build.log",
    )


def _map_paths(plan: BuildPlan, source: Path, tree: Path) -> list[str]:
    """Flags that keep the folders of this machine out of what is built (``__FILE__``, debug information).

    Of several that fit, the last counts (before clang 17 the longest), so inner folders come last. In the build tree
    names become relative, which is what a compiler cache makes of them as well.
    """
    recipe = plan.recipe
    maps = [(str(recipe.folder), "recipe"), (str(source), recipe.name), (str(tree), "."), (f"{tree}/", "")]
    if recipe.build.system == "meson":
        maps.append((os.path.relpath(source, tree), recipe.name))
    for name in plan.inputs["recipe_files"]:
        path = (recipe.folder / name).resolve()
        if not path.is_relative_to(recipe.folder):
            maps.append((str(path), path.name))
    return [f"-ffile-prefix-map={path}={name}" for path, name in sorted(maps, key=lambda entry: len(entry[0]))]
