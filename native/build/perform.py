"""One build: source, build system, install step, products, manifest."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import InvalidData, SourceError
from core.files import human_bytes, remove_tree, write_atomic
from native.artifact.artifact import Artifact, Product, read_artifact, write_artifact
from native.build.cache import CompilerCache, find_compiler_cache
from native.build.found import find_products
from native.build.job import NO_INSTALL_STEP, BuildJob, BuildLog
from native.build.prefix import take_prefix
from native.build.prepare import make_job
from native.build.products import take_libraries, take_product
from native.build.systems import SYSTEMS
from native.source.fetch import fetch_source
from native.source.kinds import FolderSource, source_pin
from toolchains.toolchain import check_compiler

if TYPE_CHECKING:
    from core.session import Session
    from native.build.plan import BuildPlan
    from native.recipe.recipe import ProductSpec
    from toolchains.host_toolchain import HostToolchain


def perform_build(
    session: Session, plan: BuildPlan, folder: Path, wanted: Sequence[ProductSpec], jobs: int
) -> Artifact:
    """Builds what is wanted in `folder`, which nobody else works in, and keeps what was built there before.

    Raises BuildError (and its kinds), SourceError, DeadlineExpired, and what fetching the source raises.
    """
    recipe, toolchain = plan.recipe, plan.toolchain
    source = fetch_source(session, recipe)
    before = _read_if_there(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cache = find_compiler_cache(session, tree=folder / "tree", log=folder / "compiler-cache.log")
    job = make_job(session, plan, source, folder, wanted, jobs, cache)
    deadline = Deadline.after(session.settings.timeouts.build, f"the build of {job.title}")
    _prepare_compiler(session, toolchain)
    with _open_log(job.log_path) as log:
        SYSTEMS[recipe.build.system].run(session, job, log, deadline)
        not_installed = _stage(session, job, log, deadline) if recipe.finds_products and not wanted else ""
    _report_cache(session, cache)
    _check_unchanged(plan)
    products = {product.name: product for product in (before.products if before else ())}
    prefix = before.prefix if before else ""
    if recipe.finds_products and not wanted:
        prefix = take_prefix(plan, job, folder)
    for spec in (
        find_products(session, job, not_installed, may_be_none=bool(prefix and not wanted))
        if recipe.finds_products
        else wanted
    ):
        products[spec.name] = take_product(session, spec, job, folder, deadline)
    partial = recipe.finds_products and bool(wanted) and (before is None or before.partial)
    artifact = replace(_make_artifact(plan, folder, products, partial), prefix=prefix)
    write_artifact(artifact)
    session.console.detail(f"products: {', '.join(f'{p.name} ({human_bytes(p.size)})' for p in artifact.products)}")
    return artifact


def _stage(session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> str:
    """Lets the project say by its install step which of the files that it has built it is for; why it was not done."""
    remove_tree(job.staging)
    if why := SYSTEMS[job.system].install(session, job, log, deadline):
        remove_tree(job.staging)
        tell = session.console.detail if why == NO_INSTALL_STEP else session.console.info
        tell(f"    the install step is left out, and what was built is looked for in the build tree: {why}")
    return why


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
        built_on=_describe_computer(toolchain),
        folder=folder,
    )


def _describe_computer(toolchain: HostToolchain) -> dict[str, str]:
    """What built it. No part of the key: the same inputs shall give the same files everywhere."""
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        system = platform.system()
    return {
        "arch": platform.machine(),
        "system": system,
        "kernel": platform.release(),
        "compiler": toolchain.title,
    }


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
