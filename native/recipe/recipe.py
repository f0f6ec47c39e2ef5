"""Recipes: how one program is fetched, built and run, as data (``native/<name>/recipe.yaml``).

The form is ``recipe.schema.json``; docs/recipes.md explains it. What a schema cannot say (placeholders,
products that a run names, groups of a pattern) is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.data_file import Keys, name_keys, read_data, wrong_entry
from core.errors import unknown_name
from native.programs import PROGRAMS
from native.recipe.flags import Flag
from native.recipe.runspec import MetricPattern, RunSpec, find_unknown_placeholders
from native.source.kinds import FolderSource, GithubArchive, PypiSdist, Source
from toolchains.arch import ARCHES
from toolchains.host_toolchain import HOST_TOOLCHAINS

FILE = "recipe.yaml"
PLACEHOLDERS = {
    "recipe": "folder of the recipe",
    "source": "folder of the source tree",
    "version": "the recipe's version",
    "commit": "the recipe's commit",
    "build_number": "the recipe's build number",
}
"""What options and flags may contain in braces."""


@dataclass(frozen=True, kw_only=True)
class BuildSpec:
    """What builds the tree. `subfolder` holds the build system's main file."""

    system: str
    type: str = "Release"
    subfolder: str = ""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Options and flags that hold when everything in `when` does; of two values for an option the later rule's wins."""

    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()

    def holds(self, facts: Mapping[str, str]) -> bool:
        return all(facts[name] in values for name, values in self.when.items())


@dataclass(frozen=True, kw_only=True)
class ProductSpec:
    """One file that the build leaves. `path` is relative to the build tree; `target` is what the build tool calls it.

    One `of_source` is a file of the source tree as it is (`path` is relative to that), such as data of a program.
    """

    name: str
    path: str
    kind: str
    target: str
    strip: bool = True
    file: str = ""
    """Its name in the artifact, when it is not the one in `path`: a library is looked for by its soname."""
    add_sources: tuple[Path, ...] = ()
    """Files of the recipe that are compiled into this program besides its own."""
    of_source: bool = False
    flags: tuple[Flag, ...] = ()
    """What ``board.run --program`` can be told, besides the program's own arguments."""
    with_files: tuple[str, ...] = ()
    """Names of products of kind ``file`` that lie beside this program wherever it runs."""
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One program. All `sources` are the same tree, from different places.

    A project without a recipe has one with no `products`: those are then all programs and libraries that the build
    leaves.
    """

    name: str
    description: str
    version: str
    folder: Path
    sources: tuple[Source, ...]
    build: BuildSpec
    products: tuple[ProductSpec, ...]
    licence: str = ""
    commit: str = ""
    build_number: int = 0
    requires: tuple[str, ...] = ()
    """Files and folders of the tree without which there is no point in beginning."""
    rules: tuple[Rule, ...] = ()
    run: tuple[RunSpec, ...] = ()

    def run_for(self, model_kind: str) -> RunSpec:
        """How models of that kind are run; raises UnknownName when the program takes none such."""
        for spec in self.run:
            if spec.model == model_kind:
                return spec
        raise unknown_name(f"kind of model for {self.name}", model_kind, [spec.model for spec in self.run])

    @property
    def finds_products(self) -> bool:
        return not self.products

    def product(self, name: str) -> ProductSpec:
        if self.finds_products:
            return ProductSpec(name=name, path="", kind="", target=name)
        for product in self.products:
            if product.name == name:
                return product
        raise unknown_name(f"product of {self.name}", name, [product.name for product in self.products])


def read_flags() -> dict[str, tuple[Flag, ...]]:
    """The flags that the recipes bring, by what they are for: ``a .ms model``, ``--program nnrt``.

    Only that part of the recipes is read, and nothing is checked: every start of ohforge asks for it.
    """
    found: dict[str, list[Flag]] = {}
    for name in list_recipes():
        value = read_data(PROGRAMS / name / FILE)
        for entry in value.get("run", ()):
            found.setdefault(f"a .{entry['model']} model", []).extend(map(_make_flag, entry.get("flags", ())))
        for entry in value["products"]:
            if flags := entry.get("flags"):
                found.setdefault(f"--program {entry['name']}", []).extend(map(_make_flag, flags))
    return {whose: tuple(flags) for whose, flags in found.items()}


def list_recipes() -> list[str]:
    """Names of the recipes that come with ohforge."""
    return sorted(path.parent.name for path in PROGRAMS.glob(f"*/{FILE}"))


def load_recipe(name: str) -> Recipe:
    """Reads the recipe of that name, or the one at that path (a ``recipe.yaml`` or its folder).

    Raises UnknownName with the nearest name, InvalidData naming file and key.
    """
    path = Path(name).expanduser()
    if path.suffix in (".yaml", ".yml") or "/" in name:
        file = path / FILE if path.is_dir() else path
        if not file.is_file():
            raise unknown_name("recipe", name, list_recipes())
        return _read_recipe(file.resolve())
    if name not in list_recipes():
        raise unknown_name("target", name, list_recipes())
    return _read_recipe(PROGRAMS / name / FILE)


def recipe_for_model(kind: str) -> Recipe:
    """The recipe whose program runs models of that kind (``gguf``, ``ms``); raises UnknownName when none does."""
    recipes = [load_recipe(name) for name in list_recipes()]
    for recipe in recipes:
        if any(spec.model == kind for spec in recipe.run):
            return recipe
    raise unknown_name("program for models of kind", kind, {spec.model for recipe in recipes for spec in recipe.run})


def _read_recipe(file: Path) -> Recipe:
    value = read_data(file, Path(__file__).with_name("recipe.schema.json"))
    recipe = _make_recipe(value, file.parent)
    for keys, sentence in _find_faults(recipe):
        raise wrong_entry(file, keys, f"{name_keys(keys)}: {sentence}")
    return recipe


def _make_recipe(value: dict[str, Any], folder: Path) -> Recipe:
    return Recipe(
        **{name: value[name] for name in ("name", "description", "version")},
        **{name: value[name] for name in ("licence", "commit", "build_number") if name in value},
        folder=folder,
        sources=tuple(_make_source(entry, folder) for entry in value["sources"]),
        requires=tuple(value.get("requires", ())),
        build=BuildSpec(**value["build"]),
        rules=tuple(_make_rule(entry) for entry in value.get("rules", ())),
        products=tuple(_make_product(entry, folder) for entry in value["products"]),
        run=tuple(_make_run(entry) for entry in value.get("run", ())),
    )


def _make_source(entry: dict[str, Any], folder: Path) -> Source:
    fields: dict[str, Any] = {
        name: tuple(item) if isinstance(item, list) else item for name, item in entry.items() if name != "kind"
    }
    if entry["kind"] == FolderSource.kind:
        return FolderSource(path=folder / fields["path"])
    return PypiSdist(**fields) if entry["kind"] == PypiSdist.kind else GithubArchive(**fields)


def _make_rule(entry: dict[str, Any]) -> Rule:
    def words(value: str | list[str]) -> tuple[str, ...]:
        return (value,) if isinstance(value, str) else tuple(value)

    def text(value: str | bool | int) -> str:
        return ("ON" if value else "OFF") if isinstance(value, bool) else str(value)

    return Rule(
        when={name: words(value) for name, value in entry.get("when", {}).items()},
        options={name: text(value) for name, value in entry.get("options", {}).items()},
        compile_flags=tuple(entry.get("compile_flags", ())),
        link_flags=tuple(entry.get("link_flags", ())),
    )


def _make_product(entry: dict[str, Any], folder: Path) -> ProductSpec:
    fields = {"target": entry["name"], **entry}
    fields["of_source"] = fields.pop("from", "build") == "source"
    fields["file"] = entry["name"] if fields["of_source"] else ""
    fields["flags"] = tuple(map(_make_flag, entry.get("flags", ())))
    fields["with_files"] = tuple(fields.pop("with", ()))
    fields["add_sources"] = tuple(folder / name for name in entry.get("add_sources", ()))
    return ProductSpec(**fields)


def _make_flag(entry: dict[str, Any]) -> Flag:
    own = "" if "role" in entry else entry["name"].replace("-", "_")
    return Flag(**{"parameter": own, **entry, "choices": tuple(entry.get("choices", ()))})


def _make_run(entry: dict[str, Any]) -> RunSpec:
    fields = dict(entry)
    fields["flags"] = tuple(map(_make_flag, entry.get("flags", ())))
    fields["arguments"] = tuple((word,) if isinstance(word, str) else tuple(word) for word in entry["arguments"])
    fields["outputs"] = tuple(entry.get("outputs", ()))
    for name in ("facts", "complete"):
        fields[name] = tuple(re.compile(pattern, re.MULTILINE) for pattern in entry.get(name, ()))
    fields["metrics"] = tuple(
        MetricPattern(pattern=re.compile(metric["pattern"], re.MULTILINE), units=metric["units"])
        for metric in entry.get("metrics", ())
    )
    return RunSpec(**fields)


def _find_faults(recipe: Recipe) -> Iterator[tuple[Keys, str]]:
    """What a schema cannot say: keys of the entry, and what is wrong with it."""
    for key, names in (("products", [p.name for p in recipe.products]), ("run", [r.model for r in recipe.run])):
        for name in {name for name in names if names.count(name) > 1}:
            yield (key,), f"{name!r} is there more than once."
    files = [Path(product.path).name for product in recipe.products]
    for name in {name for name in files if files.count(name) > 1}:
        yield ("products",), f"the file name {name!r} is there more than once, and all lie in one folder."
    for index, rule in enumerate(recipe.rules):
        yield from _find_faults_of_rule(rule, ("rules", index))
    kinds = {product.name: product.kind for product in recipe.products}
    for index, product in enumerate(recipe.products):
        yield from _find_faults_of_product(product, ("products", index), kinds)
    for index, source in enumerate(recipe.sources):
        if isinstance(source, FolderSource) and not source.path.is_dir():
            yield ("sources", index, "path"), f"there is no folder {source.path}."
    for index, spec in enumerate(recipe.run):
        yield from _find_faults_of_run(spec, ("run", index), list(kinds))


def _find_faults_of_rule(rule: Rule, here: Keys) -> Iterator[tuple[Keys, str]]:
    for name, known in (("arch", tuple(ARCHES)), ("toolchain", HOST_TOOLCHAINS)):
        for value in rule.when.get(name, ()):
            if value not in known:
                yield (*here, "when", name), unknown_name(name, value, known).message
    texts: list[tuple[Keys, str]] = [
        *(((*here, "options", name), value) for name, value in rule.options.items()),
        *(((*here, "compile_flags"), flag) for flag in rule.compile_flags),
        *(((*here, "link_flags"), flag) for flag in rule.link_flags),
    ]
    for keys, text in texts:
        for sentence in find_unknown_placeholders(text, PLACEHOLDERS):
            yield keys, sentence


def _find_faults_of_product(product: ProductSpec, here: Keys, kinds: Mapping[str, str]) -> Iterator[tuple[Keys, str]]:
    for path in product.add_sources:
        if not path.is_file():
            yield (*here, "add_sources"), f"there is no file {path}."
    if product.of_source and product.kind != "file":
        yield (*here, "from"), f"only a product of kind file can come from the source, not a {product.kind}."
    for name in product.with_files:
        if kinds.get(name) != "file":
            files = [name for name, kind in kinds.items() if kind == "file"]
            yield (*here, "with"), unknown_name("product of kind file", name, files).message


def _find_faults_of_run(spec: RunSpec, here: Keys, products: Sequence[str]) -> Iterator[tuple[Keys, str]]:
    if spec.product not in products:
        yield (*here, "product"), unknown_name("product", spec.product, products).message
    for flag in spec.flags:
        if flag.parameter and flag.parameter not in spec.defaults:
            yield (*here, "flags"), unknown_name("parameter", flag.parameter, spec.defaults).message
    for word in (word for group in spec.arguments for word in group):
        for sentence in find_unknown_placeholders(word, {**spec.defaults, "model": ""}):
            yield (*here, "arguments"), sentence
    for index, metric in enumerate(spec.metrics):
        groups = set(metric.pattern.groupindex)
        if groups != set(metric.units):
            yield (
                (*here, "metrics", index),
                f"the pattern's groups ({', '.join(sorted(groups)) or 'none'}) are not the names that have units "
                f"({', '.join(sorted(metric.units))}).",
            )
