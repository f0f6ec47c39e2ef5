"""A project of the user's as a recipe: what builds it is seen from its files, its products from what the build leaves."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.errors import NothingToBuild, UsageError, unknown_name
from core.session import Session
from native.recipe.recipe import FILE, BuildSpec, Recipe, Rule, list_recipes, load_recipe
from native.source.kinds import FolderSource

MAIN_FILES: Mapping[str, tuple[str, ...]] = {
    "cmake": ("CMakeLists.txt",),
    "meson": ("meson.build",),
    "cargo": ("Cargo.toml",),
    "make": ("configure", "GNUmakefile", "makefile", "Makefile"),
}
"""Build system → the files by which it is known, in the order in which they are taken."""
NEED_AUTORECONF = ("configure.ac", "configure.in")
SAYS_NOTHING = ("src", "source", "sources", "project", "code")
BUILD_TYPES = ("Release", "RelWithDebInfo", "MinSizeRel", "Debug")
SWITCHES = ("enable-", "disable-", "with-", "without-", "no-default-", "all-")
"""Options of ``configure`` and cargo that need no value."""
VERSION = "0"
"""A folder has no version: what is in it is told apart by its hash."""


def read_project(session: Session, source: str, system: str = "") -> Recipe:
    """The recipe of the project in the folder `source`: its own ``recipe.yaml``, else one made from what is there.

    `system` is one of `MAIN_FILES`; empty: the first that the folder has. Says what was taken, and why.
    Raises NothingToBuild, UnknownName.
    """
    if system and system not in MAIN_FILES:
        raise unknown_name("build system (--system)", system, MAIN_FILES)
    folder = _find_folder(source)
    if (folder / FILE).is_file() and not system:
        session.console.chosen("recipe", str(folder / FILE), "it lies in the source")
        return _leave_out_ours(session, load_recipe(str(folder / FILE)))
    found = {name: file for name, files in MAIN_FILES.items() if (file := _first_there(folder, files))}
    taken = system or next(iter(found), "")
    if taken not in found:
        raise _nothing_found(folder, taken, list(found.values()))
    others = [f"{file} is there as well: --system {name} takes it" for name, file in found.items() if name != taken]
    session.console.chosen("build system", taken, "; ".join([f"the project has {found[taken]}", *others]))
    recipe = Recipe(
        name=name_of(folder),
        description=f"the project in {folder}",
        version=VERSION,
        folder=folder,
        sources=(FolderSource(path=folder),),
        build=BuildSpec(system=taken),
        products=(),
    )
    return _leave_out_ours(session, recipe)


def change_recipe(recipe: Recipe, options: Mapping[str, str], build_type: str = "") -> Recipe:
    """`recipe` with further options, which win over its own, and another build type. Raises UnknownName, UsageError."""
    types = {name.lower(): name for name in BUILD_TYPES}
    if build_type and build_type.lower() not in types:
        raise unknown_name("build type (--build-type)", build_type, BUILD_TYPES)
    for name, value in options.items():
        if recipe.build.system in ("cmake", "meson") and name.startswith(SWITCHES) and not value:
            raise UsageError(f"--option {name!r} is not of the form NAME=VALUE, which {recipe.build.system} needs.")
    rules = (*recipe.rules, Rule(options=options)) if options else recipe.rules
    build = dataclasses.replace(recipe.build, type=types[build_type.lower()]) if build_type else recipe.build
    return dataclasses.replace(recipe, rules=rules, build=build)


def read_options(words: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping; of two with one name the later counts. Raises UsageError."""
    options = {}
    for word in words:
        name, _, value = word.partition("=")
        name = name.removeprefix("-D").lstrip("-")
        if not name or ("=" not in word and not name.startswith(SWITCHES)):
            raise UsageError(f"--option {word!r} is not of the form NAME=VALUE.")
        options[name] = value
    return options


def name_of(folder: Path) -> str:
    """A program's name from the project's folder, of letters, digits, ``-`` and ``_``; never that of a recipe."""
    named = folder.parent if folder.name.lower() in SAYS_NOTHING and folder.parent.name else folder
    name = re.sub(r"[^a-z0-9_]+", "-", named.name.lower()).strip("-_")
    if not name[:1].isalpha():
        name = f"project-{name}".rstrip("-")
    return f"{name}-project" if name in list_recipes() else name


def _find_folder(source: str) -> Path:
    path = Path(source).expanduser().absolute()
    known = {FILE, *(name for names in MAIN_FILES.values() for name in names)}
    if path.is_file() and path.name in known:
        path = path.parent
    if not path.is_dir():
        what = "is a file, not a project's folder" if path.exists() else "does not exist"
        raise NothingToBuild(f"--source {path} {what}.")
    return path.resolve()


def _leave_out_ours(session: Session, recipe: Recipe) -> Recipe:
    """What ohforge itself writes below a project's folder is no part of its source."""
    ours = (session.settings.builds.resolve(), session.settings.runs.resolve())
    sources = tuple(
        dataclasses.replace(source, leave_out=tuple(path for path in ours if path.is_relative_to(source.path)))
        if isinstance(source, FolderSource)
        else source
        for source in recipe.sources
    )
    return dataclasses.replace(recipe, sources=sources)


def _first_there(folder: Path, names: Sequence[str]) -> str:
    return next((name for name in names if (folder / name).is_file()), "")


def _nothing_found(folder: Path, asked: str, found: Sequence[str]) -> NothingToBuild:
    if not any(folder.iterdir()):
        return NothingToBuild(f"{folder} is empty.")
    unready = _first_there(folder, NEED_AUTORECONF)
    if unready and asked in ("", "make"):
        return NothingToBuild(
            f"{folder} has {unready}, but not the configure that is made from it.",
            remedy=f"Make it: (cd '{folder}' && autoreconf -i), then build again.",
        )
    wanted = MAIN_FILES[asked] if asked else [FILE, *(name for names in MAIN_FILES.values() for name in names)]
    message = f"{folder} has none of {', '.join(wanted)}"
    if found:
        return NothingToBuild(f"{message}; there is {', '.join(found)}.", remedy="Leave --system away.")
    below = [path for path in sorted(folder.iterdir()) if path.is_dir() and _first_there(path, wanted)]
    if below:
        return NothingToBuild(f"{message}.", remedy=f"Did you mean --source '{below[0]}'?")
    return NothingToBuild(f"{message}.")
