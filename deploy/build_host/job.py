"""What a build host is asked to build, and all that it needs for that."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import HostToolMissing, UsageError
from core.files import files_in, sha256_json
from core.session import PROJECT, Session
from deploy.build_host.tree import Tree, read_tree
from native.build.ensure import BuildRequest, choose_products
from native.build.plan import files_beside
from native.build.prefix import FOLDER, is_prefix
from native.programs import PROGRAMS
from native.recipe.project import change_recipe, name_of, read_project
from native.recipe.recipe import FILE, Recipe, load_recipe
from native.source.fetch import fetch_source, note_of
from native.source.kinds import FolderSource
from native.source.tree import list_sources

CODE = ("core", "toolchains", "native", "templates", "deploy/build_host")
"""Folders of ohforge that a build needs."""
PACKAGES = (
    *("cmake", "ninja", "meson", "ziglang"),
    *("filelock", "jinja2", "jsonschema", "platformdirs", "pyelftools", "pyyaml"),
)
"""Packages that a build needs; the host gets the versions that are here, so that the same key means the same."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One build for a build host. Two callers with the same `id` want the same thing."""

    title: str
    trees: tuple[Tree, ...]
    code: str
    """Place of ohforge's own code there."""
    packages: Mapping[str, str]
    request: Mapping[str, Any]

    @property
    def id(self) -> str:
        what = {**self.request, "jobs": 0, "jobs_setting": 0, "build_seconds": 0, "offline": False}
        return sha256_json([[tree.place for tree in self.trees], dict(self.packages), what])[:16]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for tree in self.trees for path in tree.paths.values())

    def as_json(self, known: str) -> dict[str, Any]:
        """What the helper takes; `known` is the attempt that the caller has not heard the end of."""
        return {
            "id": self.id,
            "known": known,
            "title": self.title,
            "trees": [tree.as_json() for tree in self.trees],
            "code": self.code,
            "packages": dict(self.packages),
            "request": dict(self.request),
        }


def find_recipe(session: Session, request: BuildRequest) -> Recipe:
    """What is to be built, with what was said about it. Raises UnknownName, UsageError, NothingToBuild."""
    if request.source:  # What is taken of several is said by the host.
        recipe = read_project(session.quietly(), request.source, request.system)
    else:
        recipe = load_recipe(request.target)
    recipe = change_recipe(recipe, request.options, request.build_type)
    choose_products(recipe, request.products)
    return recipe


def title_of(recipe: Recipe, request: BuildRequest) -> str:
    """What a build is called, whatever its sources."""
    return f"{recipe.name} for {request.choice.arch}"


def make_job(session: Session, request: BuildRequest) -> Job:
    """Collects the sources of `request`, which are fetched first where they are not here, and ohforge's own code.

    Raises UnknownName, UsageError, NothingToBuild, and what fetching a source raises.
    """
    recipe = find_recipe(session, request)
    code = _code_tree()
    trees = [code]
    target: object = request.target
    source: object = request.source
    if not recipe.folder.is_relative_to(PROGRAMS):
        tree = _project_tree(recipe, whole=bool(request.source), file=_file_of(request.target))
        trees.append(tree)
        here = {"place": tree.place}
        source = here if request.source else ""
        target = "" if request.source else {"place": f"{tree.place}/{_file_of(request.target)}"}
    if not any(isinstance(entry, FolderSource) for entry in recipe.sources):
        trees.append(_source_tree(session, recipe))
    prefixes: list[object] = []
    for text in request.prefixes:
        tree_of_prefix = _prefix_tree(text)
        if tree_of_prefix is None:
            path = Path(text).expanduser()
            prefixes.append(name_of(path.absolute()) if path.is_dir() else text)
        else:
            trees.append(tree_of_prefix)
            prefixes.append({"place": tree_of_prefix.place})
    settings = session.settings
    return Job(
        title=title_of(recipe, request),
        trees=tuple(trees),
        code=code.place,
        packages=_versions(),
        request={
            "target": target,
            "source": source,
            "system": request.system,
            "options": dict(request.options),
            "build_type": request.build_type,
            "jobs": request.jobs,
            "prefixes": prefixes,
            "products": list(request.products),
            "choice": {name: value for name, value in vars(request.choice).items() if name != "prefixes"},
            "toolchain_setting": settings.toolchain,
            "jobs_setting": settings.jobs,
            "offline": settings.offline,
            "build_seconds": settings.timeouts.build,
        },
    )


def _versions() -> dict[str, str]:
    try:
        return {name: importlib.metadata.version(name) for name in PACKAGES}
    except importlib.metadata.PackageNotFoundError as lacking:
        raise HostToolMissing(
            f"The Python package {lacking.name} is not installed here, so the build host cannot be given the same one.",
            remedy="Run `make setup`, or install ohforge again with pip.",
        ) from None


def _code_tree() -> Tree:
    paths = [path for name in CODE for path in list_sources(PROJECT / name)]
    return read_tree(PROJECT, [*paths, PROJECT / "deploy/__init__.py"], "code")


def _project_tree(recipe: Recipe, *, whole: bool, file: str) -> Tree:
    """The folder of a project of the user's own; of a recipe of his, the `file` and what it names."""
    folder, paths = recipe.folder, set[Path]()
    left_out = [path for source in recipe.sources if isinstance(source, FolderSource) for path in source.leave_out]
    for source in recipe.sources:
        if isinstance(source, FolderSource):
            paths.update(list_sources(source.path, left_out))
    if whole:
        paths.update(list_sources(folder, left_out))
    else:
        rules = recipe.rules
        texts = [text for rule in rules for text in (*rule.options.values(), *rule.compile_flags, *rule.link_flags)]
        for path in (folder / file, *files_beside(recipe, texts)):
            paths.update(files_in(path) if path.is_dir() else [path])
    outside = sorted(str(path) for path in paths if ".." in path.relative_to(folder).parts)
    if outside:
        raise UsageError(
            f"{outside[0]} does not lie below the folder of the recipe {recipe.name}, so it cannot go to another computer.",
            remedy="Move it there.",
        )
    return read_tree(folder, sorted(paths), "projects", folder.parent.name or "top", folder.name)


def _file_of(target: str) -> str:
    path = Path(target).expanduser()
    return FILE if path.is_dir() else path.name


def _source_tree(session: Session, recipe: Recipe) -> Tree:
    """What was fetched and verified here, so that the host needs no way to where it comes from."""
    folder = fetch_source(session, recipe)
    tree = read_tree(folder, sorted(files_in(folder)), "cache/sources")
    return dataclasses.replace(tree, place=f"cache/sources/{folder.name}", note=note_of(folder).read_text())


def _prefix_tree(text: str) -> Tree | None:
    """A prefix that lies here; None when a project is meant that was built on the host."""
    path = Path(text).expanduser().absolute()
    folder = next((place for place in (path, path / FOLDER) if is_prefix(place)), None)
    return None if folder is None else read_tree(folder, sorted(files_in(folder)), "prefixes", folder.name)
