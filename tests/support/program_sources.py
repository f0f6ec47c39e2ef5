"""What the tests of sources and models share."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from native.recipe.recipe import BuildSpec, Recipe
from native.source.kinds import PypiSdist, Source
from tests.shared.loopback import Loopback

FILE = "demo_pkg-1.0.tar.gz"


def sdist(top: str = "demo_pkg-1.0/vendor/demo", extra: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("CMakeLists.txt", "src/main.c", "docs/long.md", *([extra] if extra else [])):
            info = tarfile.TarInfo(f"{top}/{name}")
            content = f"content of {name}\n".encode()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


SDIST = sdist()


PIN = hashlib.sha256(SDIST).hexdigest()


PACKAGE = PypiSdist(
    project="Demo_Pkg",
    version="1.0",
    file=FILE,
    sha256=PIN,
    size=len(SDIST),
    subfolder="vendor/demo",
    exclude=("docs",),
)


def recipe(*sources: Source, requires: tuple[str, ...] = ("CMakeLists.txt",)) -> Recipe:
    return Recipe(
        name="demo",
        description="",
        version="1.0",
        folder=Path("/nowhere"),
        sources=sources,
        build=BuildSpec(system="cmake"),
        products=(),
        requires=requires,
    )


def serve_index(
    server: Loopback, content: bytes = SDIST, *, filename: str = FILE, project: str = "demo-pkg", as_json: bool = False
) -> None:
    """A project's page with one file, as HTML (PEP 503) or JSON (PEP 691)."""
    digest = hashlib.sha256(content).hexdigest()
    server.serve(f"/files/{filename}", content)
    page = f'<html><body><a href="../../files/{filename}#sha256={digest}">{filename}</a></body></html>'
    kind = "text/html"
    if as_json:
        entry = {"filename": filename, "url": f"../../files/{filename}", "hashes": {"sha256": digest}}
        page = json.dumps({"meta": {"api-version": "1.0"}, "name": project, "files": [entry]})
        kind = "application/vnd.pypi.simple.v1+json"
    server.serve(f"/simple/{project}/", page, content_type=kind)
