"""A project's prefix: its headers and libraries, and the files by which build systems find them, wherever it lies."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InvalidData, UsageError
from core.files import atomic_folder, remove_tree, sha256_file, write_json
from native.artifact.artifact import list_artifacts
from native.build.job import INSTALLED_TO, BuildJob
from native.recipe.project import MAIN_FILES, name_of

if TYPE_CHECKING:
    from core.session import Session
    from native.build.plan import BuildPlan

FOLDER, MANIFEST = "prefix", "prefix.json"
TAKEN = ("include", "lib")
FOUND_BY = (".pc", ".cmake")
"""What build systems read; those in ``share`` are taken too, below whatever name (``share/eigen3/cmake``)."""
C_LIBRARY = "stdio.h"
SHARED = re.compile(r"\.so(\.[\d.]+)?$")
PRIVATE = {"Requires": "Requires.private", "Libs": "Libs.private"}
"""Fields of pkg-config's files → what a static link needs as well."""


def take_prefix(plan: BuildPlan, job: BuildJob, folder: Path) -> str:
    """Makes a prefix in the artifact's `folder` from what ``job.staging`` has; its path there, or empty for none.

    A toolchain whose shared libraries no board can load leaves static ones only; headers of no other are no prefix.
    """
    staged = job.staging / INSTALLED_TO.lstrip("/")
    place = folder / FOLDER
    remove_tree(place)
    installed = list(_files_of(staged))
    shared = [path for path in installed if SHARED.search(path.name)]
    left_out = shared if job.toolchain.name == "zig" else []
    files = [path for path in installed if path not in left_out]
    static = any(path.suffix == ".a" for path in files)
    headers = any(path.is_relative_to(staged / "include") for path in files)
    if not static and (left_out or not (shared or headers)):
        return ""
    with atomic_folder(place) as fresh:
        for path in files:
            target = fresh / path.relative_to(staged)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target, follow_symlinks=False)
        for path in (path for path in fresh.rglob("*") if path.suffix in FOUND_BY and not path.is_symlink()):
            _relocate(path, fresh, merge=len(left_out) == len(shared))
        write_json(fresh / MANIFEST, _manifest(plan, fresh))
    return FOLDER


def find_damage_of_prefix(folder: Path) -> str:
    """What is wrong with the prefix in an artifact's `folder`; empty when all its files are as they were built."""
    try:
        listed = _read_manifest(folder / FOLDER)["files"]
    except (FileNotFoundError, InvalidData):
        return "prefix missing"
    changed = [name for name, digest in listed.items() if _hash_of(folder / FOLDER / name) != digest]
    return f"prefix altered since it was built: {', '.join(changed)}" if changed else ""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """For what a prefix is looked for."""

    arch: str
    toolchain: str


def find_prefix(session: Session, text: str, wanted: Wanted) -> Path:
    """The prefix that `text` means: a folder with ``include`` or ``lib``, an artifact's, or a built project's name or folder.

    Raises UsageError when there is none, or when it is for another arch or toolchain.
    """
    path = Path(text).expanduser().absolute()
    given = next((place for place in (path, path / FOLDER) if is_prefix(place)), None)
    found = given or _of_built_project(session, name_of(path) if path.is_dir() else text, wanted)
    if found is None:
        there = sorted({artifact.program for artifact in list_artifacts(session.settings.builds) if artifact.prefix})
        raise UsageError(
            f"--prefix {text} is no folder with include or lib, and no project of that name has left a prefix for "
            f"{wanted.arch} with {wanted.toolchain}" + (f" (there are: {', '.join(there)})." if there else "."),
            remedy=f"Build it first: `ohforge build --source FOLDER --arch {wanted.arch} --toolchain {wanted.toolchain}`.",
        )
    if (found / "include" / C_LIBRARY).exists():
        raise UsageError(
            f"The prefix {found} has the headers of a C library ({C_LIBRARY}): it is a whole system, and its headers would "
            "take the place of the board's.",
            remedy="Name a folder that has only the libraries for the board and their headers.",
        )
    if (found / MANIFEST).exists():
        made = _read_manifest(found)
        if (made["arch"], made["toolchain"]) != (wanted.arch, wanted.toolchain):
            raise UsageError(
                f"The prefix {found} is for {made['arch']} with {made['toolchain']}, not for {wanted.arch} with "
                f"{wanted.toolchain}."
            )
    return found


def libraries_in(prefixes: Sequence[Path], needed: Sequence[str]) -> dict[str, Path]:
    """Which of the `needed` shared libraries are in `prefixes`, and those that these need in turn."""
    from native.artifact.elf import inspect_elf

    found: dict[str, Path] = {}
    new = list(needed)
    while new:
        name = new.pop()
        place = next((file for prefix in prefixes if (file := prefix / "lib" / name).is_file()), None)
        if name not in found and place is not None:
            found[name] = place
            info = inspect_elf(place)
            new += info.needed if info else ()
    return found


def _files_of(staged: Path) -> Iterator[Path]:
    for name in (*TAKEN, "share"):
        for path in sorted((staged / name).rglob("*")):
            taken = path.suffix != ".la" if name in TAKEN else path.suffix in FOUND_BY
            if taken and (path.is_symlink() or path.is_file()):
                yield path


def _relocate(path: Path, root: Path, *, merge: bool) -> None:
    """Lets a file of pkg-config or CMake find the prefix from where it lies; `merge`: it is linked statically."""
    up = "/".join([".."] * (len(path.relative_to(root).parts) - 1))
    here = "${pcfiledir}" if path.suffix == ".pc" else "${CMAKE_CURRENT_LIST_DIR}"
    text = re.sub(rf"{INSTALLED_TO}(?=[/\"\s;]|$)", lambda _: f"{here}/{up}", path.read_text(), flags=re.M)
    if merge and path.suffix == ".pc":
        text = _merge_private(text)
    path.write_text(text)


def _merge_private(text: str) -> str:
    lines = text.splitlines()
    values = {name: value.strip() for name, _, value in (line.partition(":") for line in lines) if "=" not in name}
    for public, private in PRIVATE.items():
        if values.get(private):
            lines = [line for line in lines if not line.startswith((f"{public}:", f"{private}:"))]
            lines.append(f"{public}: {values.get(public, '')} {values[private]}")
    return "\n".join(lines) + "\n"


def _manifest(plan: BuildPlan, folder: Path) -> dict[str, Any]:
    recipe, toolchain = plan.recipe, plan.toolchain
    files = sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {
        "schema": 1,
        "program": recipe.name,
        "version": recipe.version,
        "arch": toolchain.arch.name,
        "toolchain": toolchain.name,
        "toolchain_title": toolchain.title,
        "cpu": toolchain.cpu,
        "stl": toolchain.stl,
        "key": plan.key[:12],
        "files": {path.relative_to(folder).as_posix(): _hash_of(path) for path in files},
    }


def _hash_of(path: Path) -> str:
    try:
        return f"-> {path.readlink()}" if path.is_symlink() else sha256_file(path)
    except FileNotFoundError:
        return ""


def _read_manifest(folder: Path) -> Mapping[str, Any]:
    try:
        made = json.loads((folder / MANIFEST).read_text())
        return {"arch": made["arch"], "toolchain": made["toolchain"], "files": dict(made["files"])}
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(f"{folder / MANIFEST} does not have the form that a build gives it: {error}.") from error


def is_prefix(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() or (
        ((folder / "include").is_dir() or (folder / "lib").is_dir())
        and not any((folder / name).exists() for names in MAIN_FILES.values() for name in names)
    )


def _of_built_project(session: Session, name: str, wanted: Wanted) -> Path | None:
    built = list_artifacts(session.settings.builds, name, wanted.arch)
    fitting = (artifact for artifact in built if artifact.prefix and artifact.toolchain == wanted.toolchain)
    newest = next(fitting, None)
    return newest.folder / newest.prefix if newest else None
