"""What an OpenHarmony source tree has: its release, its products, and the components of a product."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.data_file import read_data
from core.errors import InvalidData, NotASourceTree, unknown_name

DATA = Path(__file__).resolve().parent
BUILD_SCRIPTS = ("build.sh", "build/build_scripts/build.sh", "build/build.sh")
"""The first is a link to one of the others, made by repo; all of them look for the root by themselves."""
ROOT_MARK = ".gn"
PRODUCT_FILES = (
    "vendor/*/*/config.json",
    "productdefine/common/products/*.json",
    "out/products_ext/vendor/*/*/config.json",
)
BUNDLES = tuple(f"{'*/' * depth}bundle.json" for depth in (2, 3, 4))
NOT_SOURCES = ("out", "prebuilts", "kernel", "device", "vendor")
"""Folders of the root that have no components, and many files."""


@dataclass(frozen=True, kw_only=True)
class SourceTree:
    """A source tree. `root` has the file ``.gn``."""

    root: Path
    script: Path
    release: str
    """Such as ``5.0.0.71``; empty when build/version.gni does not say it."""
    api_level: int
    """0 when it is not known."""

    @property
    def title(self) -> str:
        known = f"OpenHarmony {self.release or 'of unknown release'}"
        return f"{known} (API {self.api_level})" if self.api_level else known


@dataclass(frozen=True, kw_only=True)
class TreeProduct:
    """A product of a tree, by its configuration file. `cpu` and `board` are empty when that does not name them."""

    name: str
    cpu: str
    board: str
    components: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Component:
    """What is built, and where its results are looked for."""

    name: str
    title: str
    target: str
    """What ``--build-target`` is given."""
    folder: Path | None
    """Where it lies in the tree; None when only ninja knows."""
    libraries: tuple[str, ...] = ()
    """File names; empty: all that the build leaves in the component's folder below out/."""
    headers: tuple[Path, ...] = ()


def find_tree(start: Path) -> SourceTree:
    """The tree that `start` lies in; raises NotASourceTree, saying what is missing."""
    if not start.is_dir():
        raise NotASourceTree(f"There is no folder {start}.")
    # .gn is a link into build/; when only that is missing, the link is there all the same.
    root = next((folder for folder in (start, *start.parents) if _is_there(folder / ROOT_MARK)), None)
    if root is None:
        if any((start / name).exists() for name in BUILD_SCRIPTS[1:]):
            raise NotASourceTree(
                f"{start} has build.sh but no {ROOT_MARK}, so build.sh will not know it as the root of a source tree."
            )
        raise NotASourceTree(f"{start} is not in an OpenHarmony source tree: no file {ROOT_MARK} in it or above it.")
    script = next((root / name for name in BUILD_SCRIPTS if (root / name).is_file()), None)
    if script is None:
        raise NotASourceTree(f"{root} has {ROOT_MARK} but none of {', '.join(BUILD_SCRIPTS)}: it was not synced whole.")
    version = _read_version(root)
    level = version.get("api_version", "")
    return SourceTree(
        root=root,
        script=script,
        release=version.get("sdk_version", ""),
        api_level=int(level) if level.isdigit() else 0,
    )


def list_products(tree: SourceTree) -> list[TreeProduct]:
    """The products of a tree by name. A configuration file that cannot be read counts by the name of its folder."""
    found: dict[str, TreeProduct] = {}
    for pattern in PRODUCT_FILES:
        for file in sorted(tree.root.glob(pattern)):
            folder_name = file.parent.name if file.name == "config.json" else file.stem
            product = _read_product(tree, file, folder_name)
            found.setdefault(product.name, product)
    return [found[name] for name in sorted(found)]


def find_product(tree: SourceTree, name: str) -> TreeProduct:
    """The product `name`; raises UnknownName with the nearest of the tree's."""
    products = {product.name: product for product in list_products(tree)}
    if name not in products:
        raise unknown_name(f"product in {tree.root}", name, products)
    return products[name]


def find_component(tree: SourceTree, product: TreeProduct, name: str) -> Component:
    """The component `name`, from the table, the tree's bundle.json files or, for a label, as it stands.

    Raises UnknownName with the nearest when neither the table nor the tree nor the product has it.
    """
    if name.startswith("//"):
        folder = tree.root / name.removeprefix("//").partition(":")[0]
        return Component(name=name, title=name, target=name, folder=folder if folder.is_dir() else None)
    known = load_components()
    if name in known:
        return _known_component(tree, name, known[name])
    bundles = list_bundles(tree)
    if name in bundles:
        folder, headers = bundles[name]
        return Component(name=name, title=name, target=name, folder=folder, headers=headers)
    if name in product.components:
        return Component(name=name, title=name, target=name, folder=None)
    raise unknown_name(f"component in {tree.root}", name, {*known, *bundles, *product.components})


def list_bundles(tree: SourceTree) -> dict[str, tuple[Path, tuple[Path, ...]]]:
    """The components that the tree's bundle.json files name, with their folder and the folders of their headers."""
    found: dict[str, tuple[Path, tuple[Path, ...]]] = {}
    for top in sorted(tree.root.iterdir()):
        if not top.is_dir() or top.name.startswith(".") or top.name in NOT_SOURCES:
            continue
        for pattern in BUNDLES:
            for file in top.glob(pattern.removeprefix("*/")):
                part = _mapping(_read_json(file)).get("component")
                if name := _mapping(part).get("name"):
                    found.setdefault(str(name), (file.parent, tuple(_header_folders(tree, _mapping(part)))))
    return found


@cache
def load_components() -> Mapping[str, Mapping[str, Any]]:
    """``components.yaml``; raises InvalidData when it has another form."""
    file = DATA / "components.yaml"
    table = read_data(file)
    keys = {"title", "targets", "folders", "libraries", "headers"}
    for name, row in table.items():
        if set(row) != keys or not row["targets"] or not row["folders"]:
            raise InvalidData(f"{file}: {name} must have {', '.join(sorted(keys))}, with targets and folders.")
    return dict(table)


def _known_component(tree: SourceTree, name: str, row: Mapping[str, Any]) -> Component:
    folders = [tree.root / folder for folder in row["folders"]]
    folder = next((path for path in folders if path.is_dir()), folders[0])
    texts = [
        path.read_text(errors="replace") for path in (folder / "BUILD.gn", folder / "bundle.json") if path.is_file()
    ]
    named = [target for target in row["targets"] if any(re.search(rf'[":]{target}"', text) for text in texts)]
    return Component(
        name=name,
        title=str(row["title"]),
        target=named[0] if named else row["targets"][0],
        folder=folder,
        libraries=tuple(row["libraries"]),
        headers=tuple(path for path in (tree.root / header for header in row["headers"]) if path.is_dir()),
    )


def _header_folders(tree: SourceTree, component: Mapping[str, Any]) -> Iterator[Path]:
    build = _mapping(component.get("build"))
    for key in ("inner_api", "inner_kits"):
        kits = build.get(key)
        for kit in kits if isinstance(kits, list) else ():
            base = _mapping(_mapping(kit).get("header")).get("header_base")
            for label in base if isinstance(base, list) else [base]:
                path = tree.root / str(label or "").removeprefix("//")
                if label and path.is_dir():
                    yield path


def _read_product(tree: SourceTree, file: Path, fallback: str) -> TreeProduct:
    content = _mapping(_read_json(file))
    parts = [content, *(_mapping(_read_json(tree.root / str(path))) for path in content.get("inherit") or ())]
    components: set[str] = set()
    for part in parts:
        for subsystem in part.get("subsystems") or ():
            entries = _mapping(subsystem).get("components") or ()
            components |= {str(_mapping(entry).get("component")) for entry in entries} - {"None"}
        components |= {str(key).rpartition(":")[2] for key in _mapping(part.get("parts"))}
    return TreeProduct(
        name=str(content.get("product_name") or fallback),
        cpu=str(content.get("target_cpu") or ""),
        board=str(content.get("board") or content.get("product_device") or ""),
        components=tuple(sorted(components)),
    )


def _read_version(root: Path) -> dict[str, str]:
    file = root / "build" / "version.gni"
    text = file.read_text(errors="replace") if file.is_file() else ""
    return dict(re.findall(r'^\s*(sdk_version|api_version)\s*=\s*"?([\w.]+)"?', text, re.MULTILINE))


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # build.sh will say what it thinks of the file; here it only lends names.
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_there(path: Path) -> bool:
    return path.is_file() or path.is_symlink()
