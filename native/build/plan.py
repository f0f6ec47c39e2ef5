"""What one build is made from: its inputs in full (the key is their hash), and in words how two builds differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InvalidData
from core.files import sha256_file, sha256_folder, sha256_json
from native.recipe.recipe import FILE, Recipe
from native.recipe.runspec import fill
from native.source.kinds import source_pin

if TYPE_CHECKING:
    from toolchains.host_toolchain import HostToolchain

BUILDER = 3
"""Counts changes of how ohforge builds, other than of the flags below, that change what is built."""
NO_DATE_FLAGS = (
    "-Wno-builtin-macro-redefined",
    '-D__DATE__="Jan  1 1970"',
    '-D__TIME__="00:00:00"',
    '-D__TIMESTAMP__="Thu Jan  1 00:00:00 1970"',
)
"""A build has no date. Compilers can be told so by a variable, but clang heeds it only from version 16 on, and zig
refuses to expand macros that it cannot know to be fixed."""
FILE_OF_RECIPE = re.compile(r"\{recipe\}/([^\s\"';]+)")


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """One program for one toolchain, before anything is fetched. Options and flags still have their placeholders."""

    recipe: Recipe
    toolchain: HostToolchain
    options: Mapping[str, str]
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    inputs: Mapping[str, Any]
    """All that the result depends on, without any path of this machine."""

    @property
    def key(self) -> str:
        return sha256_json(self.inputs)

    def filled(self, texts: Iterable[str], source: Path) -> list[str]:
        """`texts` with their placeholders filled in, the tree being at `source`."""
        recipe = self.recipe
        values: dict[str, str | int | float] = {
            "recipe": str(recipe.folder),
            "source": str(source),
            "version": recipe.version,
            "commit": recipe.commit,
            "build_number": recipe.build_number,
        }
        return [fill(text, values) for text in texts]


def make_plan(recipe: Recipe, toolchain: HostToolchain, system: str) -> BuildPlan:
    """Applies the recipe's rules to a toolchain. `system` names the build system with its version."""
    facts = {"toolchain": toolchain.name, "arch": toolchain.arch.name, "cpu": toolchain.cpu}
    rules = [rule for rule in recipe.rules if rule.holds(facts)]
    options = {name: value for rule in rules for name, value in rule.options.items()}
    compile_flags = (*(flag for rule in rules for flag in rule.compile_flags), *NO_DATE_FLAGS)
    link_flags = tuple(flag for rule in rules for flag in rule.link_flags)
    inputs = {
        "builder": BUILDER,
        "program": recipe.name,
        "version": recipe.version,
        "commit": recipe.commit,
        "build_number": recipe.build_number,
        "source": source_pin(recipe),
        "arch": toolchain.arch.name,
        "toolchain": toolchain.name,
        "toolchain_id": toolchain.id,
        "cpu": toolchain.cpu,
        "static": toolchain.static,
        "stl": toolchain.stl,
        "build_system": system,
        "build_type": recipe.build.type,
        "build_subfolder": recipe.build.subfolder,
        "options": options,
        "compile_flags": list(compile_flags),
        "link_flags": list(link_flags),
        "prefixes": [sha256_folder(prefix) for prefix in toolchain.prefixes],
        "recipe_files": _hash_recipe_files(recipe, [*options.values(), *compile_flags, *link_flags]),
        "products": {
            product.name: {
                "target": product.target,
                "path": product.path,
                "strip": product.strip,
                **({"from": "source"} if product.of_source else {}),
                **({"with": list(product.with_files)} if product.with_files else {}),
            }
            for product in recipe.products
        },
    }
    return BuildPlan(
        recipe=recipe,
        toolchain=toolchain,
        options=options,
        compile_flags=compile_flags,
        link_flags=link_flags,
        inputs=inputs,
    )


def files_beside(recipe: Recipe, texts: Iterable[str]) -> list[Path]:
    """The files beside the recipe that take part: sources that are added, and what `texts` (options, flags) name."""
    paths = {path for product in recipe.products for path in product.add_sources}
    paths |= {recipe.folder / name for text in texts for name in FILE_OF_RECIPE.findall(text)}
    return sorted(paths)


def _hash_recipe_files(recipe: Recipe, texts: Sequence[str]) -> dict[str, str]:
    hashes = {}
    for path in files_beside(recipe, texts):
        if not path.exists():
            raise InvalidData(f"{recipe.folder / FILE}: a rule names {path}, which is not there.")
        name = path.relative_to(recipe.folder).as_posix()
        hashes[name] = sha256_folder(path) if path.is_dir() else sha256_file(path)
    return hashes


SENTENCES = {
    "source": "source changed",
    "toolchain_id": "toolchain changed",
    "builder": "ohforge builds in another way",
    "products": "list of products changed",
    "prefixes": "other libraries (--prefix)",
}
"""Inputs whose values would mean nothing to a reader."""
CHANGES_TOOLCHAIN_ID = {"toolchain", "arch", "cpu", "static", "stl"}


def explain_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """How the inputs of two builds differ, for people: ``cpu: generic -> cortex-a55``. Empty when they do not."""
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if CHANGES_TOOLCHAIN_ID & set(changed):
        changed = [name for name in changed if name != "toolchain_id"]
    return ", ".join(_explain_one(name, old.get(name), new.get(name)) for name in changed)


def _explain_one(name: str, old: Any, new: Any) -> str:
    if name in SENTENCES:
        return SENTENCES[name]
    label = name.replace("_", " ")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        if name == "recipe_files":
            return f"changed beside the recipe: {', '.join(keys)}"
        return ", ".join(f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}" for key in keys)
    if isinstance(old, list) and isinstance(new, list):
        words = [f"+{word}" for word in new if word not in old] + [f"without {word}" for word in old if word not in new]
        return f"{label}: {' '.join(words) or 'another order'}"
    return f"{label}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)
