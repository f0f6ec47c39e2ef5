"""Which releases of the ohos-sdk exist, as ``releases.yaml`` knows them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.data_file import read_data
from core.errors import InvalidData, SdkNotForHost, UnknownName, unknown_name

DATA = Path(__file__).resolve().parent / "releases.yaml"
HOST_FOLDERS = {
    "linux-x64": ("linux", "x64"),
    "linux-arm64": ("linux", "arm64"),
    "windows-x64": ("windows", "x64"),
    "macos-x64": ("darwin", "x64"),
    "macos-arm64": ("darwin", "arm64"),
}
"""What an SDK's programs run on → the folder in the tarball and the arch in the package names."""
COMPONENTS = ("native", "toolchains", "ets", "js", "previewer")
WANTED_COMPONENTS = ("native", "toolchains")
"""The compiler with its libraries, and the board tools; the others are for apps."""


UNITS = {"MB": 1_000_000, "GB": 1_000_000_000}


@dataclass(frozen=True, kw_only=True)
class Archive:
    """One published tarball. Empty text and 0 mean: not known."""

    hosts: tuple[str, ...]
    file: str
    size: str = ""
    """As the release note prints it."""
    bytes: int = 0
    sha256: str = ""
    pins: int = 0
    """Independent public sources that agree on `sha256`."""

    @property
    def size_in_bytes(self) -> int | None:
        """The exact count where one was published, else about what the release note prints; None when neither is."""
        number, _, unit = self.size.partition(" ")
        return self.bytes or (round(float(number) * UNITS[unit]) if unit in UNITS else None)


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """Names to link with."""

    mindspore_lite: str
    nnrt: tuple[str, ...]
    mindspore_lite_known: str = ""
    """``inferred``, where it was not read."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One published release."""

    version: str
    """As the release is called, for example ``5.0.0``."""
    sdk_version: str
    """As its packages are called, for example ``5.0.0.71``."""
    api_level: int
    release_type: str
    folder: str
    archives: tuple[Archive, ...]
    clang: str
    cmake: str
    musl: str
    hdc: str
    libraries: Libraries
    dayu200_image: str
    full_version: str = ""
    notes: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(host for archive in self.archives for host in archive.hosts))

    def archives_for(self, host: str) -> tuple[Archive, ...]:
        """The tarballs that hold the SDK for `host`, best first; raises SdkNotForHost when there is none."""
        if host not in HOST_FOLDERS:
            raise unknown_name("host", host, HOST_FOLDERS)
        found = tuple(archive for archive in self.archives if host in archive.hosts)
        if not found:
            raise SdkNotForHost(
                f"No ohos-sdk {self.version} is published for {host}; it exists for {', '.join(self.hosts)}."
            )
        return found


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    releases: tuple[Release, ...]
    """Oldest first."""
    mirrors: tuple[str, ...]
    component_list_url: str
    support_versions: tuple[str, ...]
    github_url: str
    github_repository: str
    daily_url: str


@functools.cache
def read_catalogue(file: Path = DATA) -> Catalogue:
    """Reads the catalogue, which a test holds to its schema. Raises InvalidData when a key is wrong or missing."""
    try:
        return _make_catalogue(read_data(file))
    except (KeyError, TypeError) as error:
        raise InvalidData(f"{file} does not have the form of releases.schema.json: {error}") from error


def _make_catalogue(value: dict[str, Any]) -> Catalogue:
    return Catalogue(
        releases=tuple(sorted(map(_make_release, value["releases"]), key=lambda release: release_order(release))),
        mirrors=tuple(value["mirrors"]),
        component_list_url=value["component_list"]["url"],
        support_versions=tuple(value["component_list"]["support_versions"]),
        github_url=value["github"]["url"],
        github_repository=value["github"]["repository"],
        daily_url=value["daily"]["url"],
    )


def find_release(text: str) -> Release:
    """The release that `text` means; raises UnknownName with the nearest.

    Taken are a release (``5.0.0``, ``5.0.0-Release``, ``v5.0.0``, its git tag), the packages' own version
    (``5.0.0.71``), an API level (``api12`` or ``12``: the newest release of that level), and ``latest``.
    """
    releases = read_catalogue().releases
    wanted = text.strip()
    if wanted.lower() == "latest":
        return releases[-1]
    level = re.fullmatch(r"(api[- ]?)?(\d+)", wanted, re.IGNORECASE)
    of_level = [release for release in releases if level and release.api_level == int(level[2])]
    if of_level:
        return of_level[-1]
    if level and level[1]:
        levels = sorted({r.api_level for r in releases}, key=lambda known: abs(known - int(level[2])))
        near = " and ".join(f"api{known}" for known in sorted(levels[:2]))
        raise UnknownName(f"No release of the ohos-sdk has the API level {level[2]}; the nearest are {near}.")
    short = re.sub(r"^(openharmony-)?v", "", re.sub(r"-release$", "", wanted, flags=re.IGNORECASE), flags=re.IGNORECASE)
    for release in releases:
        if short.lower() in (release.version.lower(), release.sdk_version, release.full_version):
            return release
    for release in releases:  # 6.0.0 is called 6.0 there, and 5.0 does not exist
        if re.sub(r"(\.0)+$", "", short) == re.sub(r"(\.0)+$", "", release.version) and short.count(".") > 1:
            return release
    raise _unknown_release(text, short)


def _unknown_release(text: str, short: str) -> UnknownName:
    versions = [release.version for release in read_catalogue().releases]
    same_line = [version for version in versions if version.startswith(f"{short}.")]
    if same_line:
        return UnknownName(f"There is no release {text!r} of the ohos-sdk, but {', '.join(same_line)}.")
    return unknown_name("release of the ohos-sdk", text, versions)


def release_of_sdk_version(sdk_version: str) -> Release | None:
    """The release whose packages have that version; None for builds that are no release."""
    return next((r for r in read_catalogue().releases if r.sdk_version == sdk_version), None)


def release_order(release: Release) -> tuple[int, ...]:
    """Sorts releases by the version of their packages, as numbers."""
    return tuple(int(part) for part in release.sdk_version.split("."))


def _make_release(raw: dict[str, Any]) -> Release:
    fields = dict(raw)
    fields["archives"] = tuple(Archive(**{**a, "hosts": tuple(a["hosts"])}) for a in raw["archives"])
    fields["libraries"] = Libraries(**{**raw["libraries"], "nnrt": tuple(raw["libraries"]["nnrt"])})
    fields["notes"] = tuple(raw.get("notes", ()))
    return Release(**fields)
