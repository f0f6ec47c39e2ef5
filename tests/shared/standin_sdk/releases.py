"""The releases that the stand-in can look like: numbers, archive habits, and editions of the SDK's CMake file.

The table is the tests' own, so that ohforge's catalogue is checked against something that it did not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import unknown_name

FEATURES = {
    # what an edition of ohos.toolchain.cmake brought, and with which version
    "asm_version": (4, 0),
    "forwards_sdk_native": (4, 1),
    "hwasan": (4, 1),
    "ohos_is_ohos": (4, 1),
    "tsan": (5, 0, 0),
    "unix": (5, 0, 0),
    "hwasan_globals": (5, 0, 1),
    "ubsan": (5, 1, 0),
    "clang_wrappers": (5, 1, 0),
    "compatible_version": (6, 1),
    "forces_linker_flags": (7, 0),
}


@dataclass(frozen=True, kw_only=True)
class SdkRelease:
    """One release as it was published for Linux."""

    version: str
    sdk_version: str
    api_level: int
    release_type: str = "Release"
    tar_prefix: str = "ohos-sdk/"
    date: str = ""
    """Stands in the archives' names, as in ``_20260829``."""
    hdc: str
    full_version: str = ""
    """``platformVersion`` of releases that are numbered by API level."""
    mac_suffix: str = ""
    mirror_dir: str = ""
    """Folder on the mirror when it is not ``<version>-Release``."""
    extra_members: tuple[str, ...] = ()

    @property
    def features(self) -> dict[str, bool]:
        """Which traits this release's toolchain file has."""
        number = tuple(int(part) for part in self.version.split("-")[0].split("."))
        traits = {name: number >= since for name, since in FEATURES.items()}
        return traits | {"asm_no_relax": self.version == "4.1"}

    @property
    def folder(self) -> str:
        """The release's folder on the mirror."""
        return self.mirror_dir or f"{self.version}-Release"


_TABLE = (
    SdkRelease(version="3.2", sdk_version="3.2.11.9", api_level=9, hdc="1.2.0a"),
    SdkRelease(version="3.2.4", sdk_version="3.2.15.4", api_level=9, hdc="1.2.0a", mirror_dir="3.2.4"),
    SdkRelease(version="4.0", sdk_version="4.0.10.13", api_level=10, hdc="1.3.0a"),
    SdkRelease(version="4.1", sdk_version="4.1.7.5", api_level=11, hdc="2.0.0a", mac_suffix="-signed"),
    SdkRelease(version="4.1.1", sdk_version="4.1.7.8", api_level=11, hdc="2.0.0a"),
    SdkRelease(version="5.0.0", sdk_version="5.0.0.71", api_level=12, hdc="3.1.0b", tar_prefix=""),
    SdkRelease(version="5.0.1", sdk_version="5.0.1.111", api_level=13, hdc="3.1.0b", tar_prefix=""),
    SdkRelease(version="5.0.2", sdk_version="5.0.2.123", api_level=14, hdc="3.1.0b"),
    SdkRelease(version="5.0.3", sdk_version="5.0.3.135", api_level=15, hdc="3.1.0e"),
    SdkRelease(version="5.1.0", sdk_version="5.1.0.107", api_level=18, hdc="3.1.0e"),
    SdkRelease(version="6.0", sdk_version="6.0.0.47", api_level=20, hdc="3.2.0b", release_type="Beta1", tar_prefix=""),
    SdkRelease(version="6.0.0.1", sdk_version="6.0.0.48", api_level=20, hdc="3.2.0b"),
    SdkRelease(version="6.1", sdk_version="6.1.0.31", api_level=23, hdc="3.2.0c", tar_prefix=""),
    SdkRelease(version="6.1-LTS", sdk_version="6.1.0.35", api_level=23, hdc="3.2.0c", mirror_dir="6.1-LTS"),
    SdkRelease(
        version="7.0",
        sdk_version="26.0.0.38",
        api_level=26,
        hdc="3.2.0f",
        full_version="26.0.0",
        date="_20260829",
        extra_members=("manifest_tag.xml", "logs/build.log"),
    ),
)
RELEASES = {release.version: release for release in _TABLE}


def find_release(version: str) -> SdkRelease:
    """The release of that version; raises UnknownName with the nearest."""
    if version not in RELEASES:
        raise unknown_name("stand-in release", version, RELEASES)
    return RELEASES[version]
