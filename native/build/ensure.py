"""Building a recipe's program: nothing when nothing changed, and what changed in words when something did."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from core.deadline import Deadline
from core.dry import Would
from core.errors import InvalidData, SourceError
from core.files import human_bytes, remove_tree, write_atomic
from core.locks import hold
from core.session import Session
from native.artifact.artifact import (
    MANIFEST,
    Artifact,
    Product,
    find_damage,
    list_artifacts,
    read_artifact,
    write_artifact,
)
from native.build.cache import CompilerCache, find_compiler_cache
from native.build.cmake import CMake
from native.build.emulator import write_emulator
from native.build.found import find_products
from native.build.job import COPY, BuildJob, BuildLog, default_jobs
from native.build.make import Make
from native.build.meson import Meson
from native.build.plan import BuildPlan, explain_difference, make_plan
from native.build.prefix import Wanted, find_damage_of_prefix, find_prefix, take_prefix
from native.build.products import take_libraries, take_product
from native.recipe.project import change_recipe, read_project
from native.recipe.recipe import ProductSpec, Recipe, load_recipe
from native.source.fetch import fetch_source, would_fetch
from native.source.kinds import FolderSource, source_pin
from toolchains.arch import find_arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice
from toolchains.toolchain import SelectedToolchain, check_compiler, choose_toolchain, select_toolchain


class BuildSystem(Protocol):
    """What turns a source tree into files; one for each value of a recipe's ``build.system``."""

    def version(self) -> str:
        """The build system and its version, as a part of the key."""

    def run(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
        """Leaves the wanted products of `job` in its tree, or raises BuildError. May find the work of an earlier run."""

    def install(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> bool:
        """Does the project's own install step into ``job.staging``; False when there is none that is safe, or it fails."""


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
SYSTEMS: dict[str, BuildSystem] = {"cmake": CMake(), "meson": Meson(), "make": Make()}


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What is to be built. Empty text means "the default"."""

    choice: ToolchainChoice
    target: str = ""
    """Name of a recipe, or path of a ``recipe.yaml``; empty when `source` is given."""
    source: str = ""
    """Folder of a project of the user's."""
    system: str = ""
    """What builds it, of several that could: ``cmake``, ``meson`` or ``make``."""
    options: Mapping[str, str] = field(default_factory=dict)
    """For the project's build system; they win over those of a recipe."""
    build_type: str = ""
    jobs: int = 0
    prefixes: tuple[str, ...] = ()
    """What else libraries are looked for in: folders, and names or folders of projects that were built."""
    products: tuple[str, ...] = ()
    """Which of the recipe's products; empty for all of them. More can be added to the same artifact later."""


@dataclass(frozen=True, kw_only=True)
class BuildOutcome:
    """What came of a request. `artifact` has at least the products that were asked for."""

    artifact: Artifact
    rebuilt: bool
    reason: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class BuildLook:
    """What is there of a build, and what it is made from; nothing is built yet."""

    plan: BuildPlan
    folder: Path
    wanted: Sequence[ProductSpec]
    jobs: int
    artifact: Artifact | None
    """None: it has to be built."""
    reason: str
    began: float
    """A `time.monotonic`."""

    @property
    def title(self) -> str:
        recipe, arch = self.plan.recipe, self.plan.toolchain.arch
        return f"{recipe.name} {recipe.version}".rstrip() + f" for {arch.name}"


def ensure_built(session: Session, request: BuildRequest, selected: SelectedToolchain | None = None) -> BuildOutcome:
    """Builds what is asked for, unless it is there already with the same inputs.

    `selected` is the toolchain that was found for the request already; None when nobody has looked for it.

    Raises UnknownName, BuildError (and its kinds), what fetching the source raises, DeadlineExpired, Busy.
    """
    return build_what_lacks(session, look_at_build(session, request, selected))


def look_at_build(session: Session, request: BuildRequest, selected: SelectedToolchain | None = None) -> BuildLook:
    """Finds out whether what is asked for is there, as `ensure_built` does. Raises UnknownName and others."""
    began = time.monotonic()
    recipe = read_project(session, request.source, request.system) if request.source else load_recipe(request.target)
    recipe = change_recipe(recipe, request.options, request.build_type)
    wanted = choose_products(recipe, request.products)
    toolchain = _choose_toolchain(session, request, selected)
    plan = make_plan(recipe, toolchain, SYSTEMS[recipe.build.system].version())
    folder = folder_of(session, plan)
    artifact, reason = find_built(session, plan, folder, wanted)
    return BuildLook(
        plan=plan,
        folder=folder,
        wanted=wanted,
        jobs=request.jobs,
        artifact=artifact,
        reason=reason,
        began=began,
    )


def _choose_toolchain(session: Session, request: BuildRequest, selected: SelectedToolchain | None) -> HostToolchain:
    choice = request.choice
    if request.prefixes:
        selected = selected or select_toolchain(session, choice)
        wanted = Wanted(arch=find_arch(choice.arch).name, toolchain=selected.name)
        found = tuple(find_prefix(session, text, wanted) for text in request.prefixes)
        choice = replace(choice, prefixes=(*choice.prefixes, *found))
    return choose_toolchain(session, choice, selected)


def build_what_lacks(session: Session, look: BuildLook) -> BuildOutcome:
    """Builds what `look` has not found. Raises as `ensure_built`."""
    plan, folder, artifact, reason = look.plan, look.folder, look.artifact, look.reason
    rebuilt = False
    if artifact is None:
        name, arch, toolchain = plan.recipe.name, plan.toolchain.arch.name, plan.toolchain.name
        with _own(session, folder, f"the build of {name} for {arch}"):
            # Another process may have built it while this one waited.
            artifact, reason = find_built(session, plan, folder, look.wanted)
            if artifact is None:
                session.console.stage(f"Building {name} for {arch} with {toolchain}: {reason}")
                artifact, rebuilt = _build(session, plan, folder, look.wanted, look.jobs), True
            else:
                reason = "another process has just built it"
    return BuildOutcome(artifact=artifact, rebuilt=rebuilt, reason=reason, seconds=time.monotonic() - look.began)


def would_build(session: Session, look: BuildLook) -> list[Would]:
    """What `build_what_lacks` would do, the source that it would fetch first."""
    toolchain, names = look.plan.toolchain, ", ".join(spec.name for spec in look.wanted)
    what = look.title + (f" ({names})" if names else "")
    if look.artifact is not None:
        size = sum(product.size for product in look.artifact.products)
        return [Would(action="use", what=what, size=size, there=size, where=str(look.folder), why=look.reason)]
    fetched = would_fetch(session, look.plan.recipe)
    what += f" with {toolchain.name}, {toolchain.title}"
    return [*fetched, Would(action="build", what=what, where=str(look.folder), why=look.reason)]


def choose_products(recipe: Recipe, names: Sequence[str]) -> list[ProductSpec]:
    """The recipe's products of these names with the files that they need beside them; all when there are no names.

    Raises UnknownName with the nearest.
    """
    if not names:
        return list(recipe.products)
    chosen = [recipe.product(name) for name in names]
    files = [recipe.product(name) for product in chosen for name in product.with_files]
    return list({product.name: product for product in (*chosen, *files)}.values())


def folder_of(session: Session, plan: BuildPlan) -> Path:
    return session.settings.builds / plan.recipe.name / f"{plan.toolchain.arch.name}-{plan.key[:12]}"


def find_built(
    session: Session, plan: BuildPlan, folder: Path, wanted: Sequence[ProductSpec]
) -> tuple[Artifact | None, str]:
    """The artifact in `folder` when it has the wanted products unharmed, and "nothing changed"; else None and why."""
    try:
        artifact = read_artifact(folder)
    except FileNotFoundError:
        return None, _why_not_there(session, plan, folder)
    except InvalidData:
        return None, f"{MANIFEST} is damaged"
    by_name = {product.name: product for product in artifact.products}
    lacking = [spec.name for spec in wanted if spec.name not in by_name]
    if lacking or (artifact.partial and not wanted):
        return None, f"not built yet: {', '.join(lacking) or 'the other products'}"
    names = [spec.name for spec in wanted] or by_name
    damage = [found for name in names if (found := find_damage(artifact, by_name[name]))]
    if artifact.prefix and (found := find_damage_of_prefix(folder)):
        damage.append(found)
    damage += [f"library missing: {name}" for name in artifact.runtime_libraries if not (folder / name).is_file()]
    return (None, "; ".join(damage)) if damage else (artifact, "nothing changed")


def _why_not_there(session: Session, plan: BuildPlan, folder: Path) -> str:
    """Why a build is needed that is not there: what differs from the newest one of that program and arch."""
    if folder.is_dir():
        return "an unfinished build goes on"
    for artifact in list_artifacts(session.settings.builds, plan.recipe.name, plan.toolchain.arch.name):
        difference = explain_difference(artifact.inputs, plan.inputs)
        titles = (artifact.toolchain_title, plan.toolchain.title)
        if difference == "toolchain changed" and titles[0] != titles[1]:
            return f"toolchain: {titles[0]} -> {titles[1]}"
        return difference or "the key of the build changed"
    return "first build"


def _own(session: Session, folder: Path, what: str) -> contextlib.AbstractContextManager[bool]:
    """Holds the folder of one key. What waits here finds the work done."""
    lock = folder.with_name(f".{folder.name}.lock")
    deadline = Deadline.after(session.settings.timeouts.lock, what)
    return hold(lock, deadline, lambda text: session.console.info(f"    {text}"))


def _build(session: Session, plan: BuildPlan, folder: Path, wanted: Sequence[ProductSpec], jobs: int) -> Artifact:
    recipe, toolchain = plan.recipe, plan.toolchain
    source = fetch_source(session, recipe)
    before = _read_if_there(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cache = find_compiler_cache(session, tree=folder / "tree", log=folder / "compiler-cache.log")
    job = _make_job(session, plan, source, folder, wanted, jobs, cache)
    deadline = Deadline.after(session.settings.timeouts.build, f"the build of {job.title}")
    _prepare_compiler(session, toolchain)
    with _open_log(job.log_path) as log:
        SYSTEMS[recipe.build.system].run(session, job, log, deadline)
        if recipe.finds_products and not wanted:
            _stage(session, job, log, deadline)
    _report_cache(session, cache)
    _check_unchanged(plan)
    products = {product.name: product for product in (before.products if before else ())}
    prefix = before.prefix if before else ""
    if recipe.finds_products and not wanted:
        prefix = take_prefix(plan, job, folder)
    for spec in (
        find_products(session, job, may_be_none=bool(prefix and not wanted)) if recipe.finds_products else wanted
    ):
        products[spec.name] = take_product(session, spec, job, folder, deadline)
    partial = recipe.finds_products and bool(wanted) and (before is None or before.partial)
    artifact = replace(_make_artifact(plan, folder, products, partial), prefix=prefix)
    write_artifact(artifact)
    session.console.detail(f"products: {', '.join(f'{p.name} ({human_bytes(p.size)})' for p in artifact.products)}")
    return artifact


def _stage(session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
    """Lets the project say by its install step which of the files that it has built it is for."""
    remove_tree(job.staging)
    if not SYSTEMS[job.system].install(session, job, log, deadline):
        remove_tree(job.staging)
        session.console.detail("no install step that could be done: the products are looked for in the build tree")


def _check_unchanged(plan: BuildPlan) -> None:
    """What was built is kept under the hash that the source had before, so it must have it still."""
    in_folder = any(isinstance(source, FolderSource) for source in plan.recipe.sources)
    if in_folder and source_pin(plan.recipe) != plan.inputs["source"]:
        raise SourceError(
            f"The source of {plan.recipe.name} was changed while it was being built, by somebody or by its own build, "
            "so what came out may be neither the old nor the new.",
            remedy="Build again; a build that writes into its source on every run cannot be told from a change.",
        )


def _prepare_compiler(session: Session, toolchain: HostToolchain) -> None:
    """Tries the compiler before its first build: zig makes its C library then, which looks like a build that hangs."""
    mark = toolchain.file.parent / "tried"
    if not mark.exists():
        check_compiler(session, toolchain)
        write_atomic(mark, f"{toolchain.title}\n")


def _make_job(
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
    place, origin, emulator = source / recipe.build.subfolder, None, ""
    if recipe.finds_products or recipe.build.system == "make":
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
        compile_flags=[*plan.filled(plan.compile_flags, source), *_map_paths(plan, source, tree), *includes],
        link_flags=[*plan.filled(plan.link_flags, source), *libraries],
        products=recipe.products,
        wanted=[spec for spec in wanted if not spec.of_source],
        jobs=jobs or session.settings.jobs or default_jobs(),
        emulator=emulator,
        launcher=cache.program if cache else "",
        environment={**NOT_OF_THE_SHELL, **NO_DATE, **(cache.environment if cache else {}), **toolchain.environment},
        log_path=folder / "build.log",
    )


def _make_artifact(plan: BuildPlan, folder: Path, products: Mapping[str, Product], partial: bool) -> Artifact:
    recipe, toolchain = plan.recipe, plan.toolchain
    order = [spec.name for spec in recipe.products] or sorted(products)
    return Artifact(
        program=recipe.name,
        version=recipe.version,
        arch=toolchain.arch.name,
        key=plan.key[:12],
        toolchain=toolchain.name,
        toolchain_id=toolchain.id,
        toolchain_title=toolchain.title,
        cpu=toolchain.cpu,
        source=" | ".join(source.pin for source in recipe.sources),
        sdk=_describe_sdk(toolchain),
        licence=recipe.licence,
        inputs=dict(plan.inputs),
        products=tuple(products[name] for name in order if name in products),
        runtime_libraries=take_libraries(toolchain, folder, products.values()),
        partial=partial,
        folder=folder,
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


def _describe_sdk(toolchain: HostToolchain) -> str:
    sdk = toolchain.sdk
    return f"{sdk.version} (API {sdk.api_level})" if sdk else ""


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[BuildLog]:
    with path.open("wb") as file:
        yield BuildLog(file)


def _report_cache(session: Session, cache: CompilerCache | None) -> None:
    hits = cache.hits() if cache else None
    if cache and hits and hits[1]:
        session.console.detail(f"{cache.name}: {hits[0]} of {hits[1]} files came from the cache")


def _read_if_there(folder: Path) -> Artifact | None:
    try:
        return read_artifact(folder)
    except (FileNotFoundError, InvalidData):
        return None
