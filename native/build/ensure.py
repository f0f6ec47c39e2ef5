"""Building a recipe's program: nothing when nothing changed, and what changed in words when something did."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from core.deadline import Deadline
from core.dry import Would
from core.errors import InvalidData
from core.locks import hold
from core.session import Session
from native.artifact.artifact import (
    MANIFEST,
    Artifact,
    find_damage,
    list_artifacts,
    read_artifact,
)
from native.build.perform import perform_build
from native.build.plan import BuildPlan, explain_difference, make_plan
from native.build.prefix import Wanted, find_damage_of_prefix, find_prefix
from native.build.systems import SYSTEMS
from native.recipe.project import change_recipe, read_project
from native.recipe.recipe import ProductSpec, Recipe, load_recipe
from native.source.fetch import would_fetch
from toolchains.arch import find_arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice
from toolchains.toolchain import SelectedToolchain, choose_toolchain, select_toolchain


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
        with own_build_folder(session, folder, f"the build of {name} for {arch}"):
            # Another process may have built it while this one waited.
            artifact, reason = find_built(session, plan, folder, look.wanted)
            if artifact is None:
                session.console.stage(f"Building {name} for {arch} with {toolchain}: {reason}")
                artifact, rebuilt = perform_build(session, plan, folder, look.wanted, look.jobs), True
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


def own_build_folder(session: Session, folder: Path, what: str) -> contextlib.AbstractContextManager[bool]:
    """Holds the folder of one key. What waits here finds the work done."""
    lock = folder.with_name(f".{folder.name}.lock")
    deadline = Deadline.after(session.settings.timeouts.lock, what)
    return hold(lock, deadline, lambda text: session.console.info(f"    {text}"))
