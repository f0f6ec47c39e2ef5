"""Serves packed releases on loopback as the mirror, the component list and the split archives do."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from tests.shared.loopback import Loopback
from tests.shared.standin_sdk.list_service import ListService
from tests.shared.standin_sdk.pack import FOLDERS, Release
from toolchains import daily, sources
from toolchains.catalogue import read_catalogue

MIRROR = "/openharmony/os"
MIRROR2 = "/second/os"
DAILY_LIST = "/api/daily_build/build/list/component"
LIST = "/sdkmanager/v5/ohos/getSdkList"
COMPONENTS = ("native", "toolchains")


def serve_mirror(server: Loopback, release: Release, base: str = MIRROR) -> str:
    for path, file in release.mirror_files.items():
        server.serve(f"{base}/{path}", file)
    return server.url + base


def serve_list(server: Loopback, release: Release, **options: bool) -> None:
    service = ListService(releases=[release], base=f"{server.url}/cdn", **options)
    server.answer_posts(LIST, service.answer)
    for path, file in service.files.items():
        server.serve(f"/cdn/{path}", file)


def serve_github(server: Loopback, release: Release, piece: int = 0) -> None:
    for path, file in release.github_files(piece).items():
        server.serve(f"/{read_catalogue().github_repository}/releases/download/{path}", file)


def use_loopback_for_all(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sources but the first mirror are looked for on the server: the catalogue's addresses are its own."""
    catalogue = read_catalogue()
    moved = dataclasses.replace(
        catalogue,
        mirrors=(catalogue.mirrors[0], server.url + MIRROR2),
        component_list_url=server.url + LIST,
        github_url=server.url,
        daily_url=server.url + DAILY_LIST,
    )
    for module in (sources, daily):
        monkeypatch.setattr(module, "read_catalogue", lambda: moved)


def archive_path(release: Release, base: str = MIRROR) -> str:
    return f"{base}/{release.mirror_path}"


def unpack_by_hand(release: Release, folder: Path, components: tuple[str, ...] = COMPONENTS) -> Path:
    """What `tar` and `unzip` make of a release: the tree that an installation must equal."""
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", release.archive, "-C", folder], check=True)
    place = FOLDERS[release.host]
    for component in components:
        (packed,) = folder.glob(f"**/{place}/{component}-*.zip")
        subprocess.run(["unzip", "-q", packed, "-d", folder / "installed"], check=True)
    return folder / "installed"


def listing(folder: Path, components: tuple[str, ...] = COMPONENTS) -> dict[str, tuple[str, bytes | str]]:
    """Every file's mode and content and every link's target, by path."""
    found: dict[str, tuple[str, bytes | str]] = {}
    for component in components:
        for path in sorted((folder / component).rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found[name] = ("link", str(path.readlink()))
            elif path.is_file():
                found[name] = (f"{path.stat().st_mode & 0o777:o}", path.read_bytes())
    return found
