"""Templates to text to files: what a toolchain consists of is rendered once, under a name made of its content."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import UsageError
from core.files import atomic_folder, sha256_json, write_atomic
from core.session import PROJECT

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = PROJECT / "templates" / "toolchain"


def render(template: str, **values: Any) -> str:
    """The text of ``templates/toolchain/<template>`` with `values`; a value that is missing is an error."""
    return _environment().get_template(template).render(**values)


def place_rendered(
    parent: Path, name: str, files: Mapping[str, str], programs: frozenset[str], *, dry: bool = False
) -> Path:
    """Writes `files` (relative name → text) to a folder below `parent` that is named after their content.

    `programs` are the names that get the execute bit. The same content is written once, by however many processes;
    none is when `dry`.
    """
    folder = parent / f"{name}-{sha256_json(dict(files))[:16]}"
    if dry:
        return folder
    if not folder.is_dir():
        try:
            with atomic_folder(folder) as new:
                _write_files(new, files, programs)
        except OSError:
            if not folder.is_dir():
                raise
    changed = {name: text for name, text in files.items() if _read(folder / name) != text}
    _write_files(folder, changed, programs)
    return folder


def _write_files(folder: Path, files: Mapping[str, str], programs: frozenset[str]) -> None:
    for name, text in files.items():
        write_atomic(folder / name, text, mode=0o755 if name in programs else 0o644)


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


@functools.cache
def _environment() -> Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - these are scripts; each has a quoting filter of its own below
    )
    environment.filters["sh"] = lambda value: shlex.quote(str(value))
    environment.filters["cmake"] = quote_cmake
    environment.filters["fish"] = lambda value: "'{}'".format(str(value).replace("\\", "\\\\").replace("'", "\\'"))
    environment.filters["powershell"] = lambda value: "'{}'".format(str(value).replace("'", "''"))
    environment.filters["meson"] = quote_meson
    # TOML's basic strings are JSON's.
    environment.filters["toml"] = lambda value: json.dumps(str(value))
    return environment


def quote_cmake(value: object) -> str:
    """A CMake argument that is taken as it stands, whatever quotes, dollars or backslashes are in it."""
    text = str(value)
    marks = ""
    while f"]{marks}]" in text + "]":
        marks += "="
    return f"[{marks}[{text}]{marks}]"


def quote_meson(value: object) -> str:
    """A string of a Meson machine file, in which a backslash stands for itself and a quote cannot be escaped."""
    text = str(value)
    if "'" not in text:
        return f"'{text}'"
    if "\\" in text or text.endswith("'"):
        raise UsageError(f"A Meson machine file cannot name {text}.", remedy="Move the cache with OHFORGE_CACHE_DIR.")
    return f"'''{text}'''"


NO_PACKAGES = "/no-packages-for-the-board"
"""An empty list of folders would be taken as none given, and the build machine's packages would be found."""


def pkg_config_folders(prefixes: Sequence[Path]) -> str:
    """Where pkg-config looks for libraries of the board: nowhere else than below the prefixes."""
    folders = [f"{prefix}/{folder}/pkgconfig" for prefix in prefixes for folder in ("lib", "share")]
    return ":".join(folders) or NO_PACKAGES
