"""Release × layout × arch × CMake: one small project, configured twice, built and run, for each combination."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from core.session import Session
from tests.shared.cmake_project import (
    CMAKE,
    FULL_OUTPUT,
    SHARED,
    TOOLS,
    configure,
    flags_line,
    output_of,
    run_program,
    write_project,
)
from tests.shared.standin_sdk import runtime_tree
from toolchains.arch import ARM32, ARM64, Arch
from toolchains.host_toolchain import ToolchainChoice
from toolchains.toolchain import choose_toolchain

RELEASES = ("3.2", "4.0", "4.1", "5.0.0", "5.0.1", "5.1.0", "6.1", "7.0")
"""One of each edition of the SDK's CMake file that the stand-in knows."""
CMAKES = ("3.25.2", "3.28.4", "3.30.9", "4.0.3")
LAYOUTS = {
    # name: where the folder of components lies below the folder that is named with --sdk
    "native folder": "",
    "components": ".",
    "API folder": "23",
    "tarball": "linux",
    "tarball, prefix": "ohos-sdk/linux",
    "DevEco": "sdk/default/openharmony",
    "DevEco's sdk": "default/openharmony",
    "macOS app": "Contents/sdk/default/openharmony",
}
ARCHES = (ARM32, ARM64)


@dataclass(frozen=True, kw_only=True)
class Combination:
    release: str
    layout: str
    arch: Arch
    cmake: str

    def __str__(self) -> str:
        return f"{self.release}, {self.layout}, {self.arch.name}, CMake {self.cmake}"


def combinations() -> list[Combination]:
    """All combinations."""
    return [
        Combination(release=release, layout=layout, arch=arch, cmake=cmake)
        for cmake, layout, arch, release in itertools.product(CMAKES, LAYOUTS, ARCHES, RELEASES)
    ]


def place_sdk(folder: Path, layout: str, sdk: Path) -> Path:
    """Shows the folder of components `sdk` in a layout; returns the folder that a user would name."""
    if not LAYOUTS[layout]:
        return sdk / "native"
    if LAYOUTS[layout] == ".":
        return sdk
    home = folder / LAYOUTS[layout]
    home.parent.mkdir(parents=True)
    home.symlink_to(sdk)
    return folder


def build_combination(session: Session, one: Combination, sdk: Path, cmake: Path, folder: Path, cache: Path) -> None:
    """Configures twice (the flags must stay), builds, runs; raises AssertionError with what was said."""
    toolchain = choose_toolchain(
        session, ToolchainChoice(arch=one.arch.name, sdk=str(place_sdk(folder / "home", one.layout, sdk)))
    )
    source, build = write_project(folder / "source", CMAKE + SHARED), folder / "build"
    said = [configure(toolchain, source, build, cmake=cmake) for _ in range(2)]
    assert flags_line(said[0]) == flags_line(said[1]), said[1]
    assert "unknown to cmake" not in said[0], said[0]
    run_program([TOOLS / "ninja", "-C", build], toolchain)
    assert output_of(one.arch, build / "full", root=runtime_tree(one.arch.name, cache)) == FULL_OUTPUT
    # Without the platform file of CMake 3.30 a shared library has neither a soname nor the links to its versions.
    assert (build / "libhalf.so").resolve().name == "libhalf.so.1.2"


def cmake_of(version: str, cache: Path) -> Path | str:
    """A CMake of that version from the package index, or why it cannot be had."""
    folder = cache / f"cmake-{version}"
    program = folder / "cmake/data/bin/cmake"
    if not program.is_file():
        words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, f"cmake=={version}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            return done.stderr.strip()[-200:]
    return program
