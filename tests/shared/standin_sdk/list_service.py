"""The service that lists SDK components: what it asks for, what it answers, and how it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.files import sha256_file
from tests.shared.standin_sdk.pack import COMPONENTS, Release

SYSTEMS = ("linux", "windows", "darwin")
MACHINES = ("x64", "arm64")
REQUEST = {"osType", "osArch", "supportVersion"}
SUPPORT_VERSIONS = (
    "4.0-ohos-14", "5.0-ohos-single-12", "5.1-ohos-single-2", "6.0-ohos-single-2", "6.0-ohos-single-3",
    "26.0-ohos-single-1",
)  # fmt: skip
PLACES = {"linux-x64": ("linux", "x64"), "windows-x64": ("windows", "x64"), "macos-x64": ("darwin", "x64"),
          "macos-arm64": ("darwin", "arm64")}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ListService:
    """Answers for `releases`, whose component zips a server offers at ``<base>/<component path>``."""

    releases: Sequence[Release]
    base: str
    size_as_text: bool = False
    names_arch: bool = True

    @property
    def files(self) -> dict[str, Any]:
        """The component zips by path below `base`."""
        return {self._path(release, name): release.components[name] for release in self.releases for name in COMPONENTS}

    def answer(self, body: bytes) -> tuple[int, Any]:
        """Status and JSON value for the body of a POST request."""
        try:
            request = json.loads(body) if body else None
        except ValueError:
            request = None
        if not isinstance(request, dict) or not request:
            return _refuse(4003, "invalid params")
        if set(request) != REQUEST or not all(isinstance(value, str) for value in request.values()):
            return _refuse(139403, "parameter check failed")
        if request["osType"] not in SYSTEMS:
            return _refuse(134004, "osType is invalid")
        if request["osArch"] not in MACHINES:
            return _refuse(134012, "osArch is invalid")
        if request["supportVersion"] not in SUPPORT_VERSIONS:
            return 200, []
        place = (request["osType"], request["osArch"])
        return 200, [
            self._item(release, name)
            for release in self.releases
            if PLACES[release.host] == place
            for name in COMPONENTS
        ]

    def _item(self, release: Release, name: str) -> dict[str, Any]:
        path, sdk = release.components[name], release.release
        size = path.stat().st_size
        archive: dict[str, Any] = {"url": f"{self.base.rstrip('/')}/{self._path(release, name)}"}
        archive |= {"size": str(size) if self.size_as_text else size, "checksum": sha256_file(path)}
        if self.names_arch:
            archive["osArch"] = PLACES[release.host][1]
        return {
            "path": name,
            # The list says "26.0.0" where the package itself says "26".
            "apiVersion": sdk.full_version or str(sdk.api_level),
            "version": sdk.sdk_version,
            "displayName": name.capitalize(),
            "license": "",
            "archive": archive,
        }

    def _path(self, release: Release, name: str) -> str:
        return f"components/{release.host}/{release.release.api_level}/{release.components[name].name}"


def _refuse(code: int, message: str) -> tuple[int, Any]:
    return 400, {"code": code, "message": message}
