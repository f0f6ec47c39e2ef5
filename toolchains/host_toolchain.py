"""The host toolchain: what compiles, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolchains.arch import Arch

if TYPE_CHECKING:
    from toolchains.sdk import Sdk

HOST_TOOLCHAINS = ("ohos", "zig")


@dataclass(frozen=True, kw_only=True)
class HostToolchain:
    """A compiler that is ready to be used, for one arch and one CPU tuning."""

    name: str
    """``zig`` or ``ohos``."""
    arch: Arch
    cpu: str
    """Name of the CPU tuning; ``generic`` when none was asked for."""
    static: bool
    """Whether programs are linked statically, C library included."""
    file: Path
    """The rendered CMake toolchain file."""
    id: str
    """SHA-256 of everything that a build's result depends on; the same wherever the toolchain lies on the disk."""
    title: str
    """For people: ``ziglang 0.17.1 (clang 22.1.8), static musl, hard float``."""
    cc: Path
    cxx: Path
    ar: Path
    ranlib: Path
    strip: tuple[str, ...]
    """Words before the file's name in a call that strips it in place; empty when linking has done so already."""
    environment: Mapping[str, str]
    """Variables that the compiler, and a compiler cache in front of it, should see."""
    sdk: Sdk | None
    stl: str
    """C++ library: ``c++_static``, ``c++_shared`` or ``none``."""
    runtime_libraries: tuple[Path, ...] = ()
    """Shared libraries that must travel with the programs."""
    prefixes: tuple[Path, ...] = ()
    """Folders with libraries for the board, in which packages are looked for."""


@dataclass(frozen=True, kw_only=True)
class ToolchainChoice:
    """What was said about the toolchain. Empty text and None mean "not said"."""

    arch: str = ""
    toolchain: str = ""
    """One of `HOST_TOOLCHAINS`."""
    sdk: str = ""
    """Folder with an SDK in any layout, or version of an installed one."""
    cpu: str = ""
    """A CPU tuning."""
    static: bool | None = None
    stl: str = ""
    """One of c++_static, c++_shared and none."""
    prefixes: tuple[Path, ...] = ()
    """Folders with libraries for the board."""

    def without_places(self) -> ToolchainChoice:
        """The same with numbers for the folders: what is in them counts for a build, and not where they lie."""
        return replace(self, prefixes=tuple(Path(f"<prefix {number}>") for number in range(len(self.prefixes))))


def tell_compiler_caches(compiler: str) -> dict[str, str]:
    """Variables by which ccache and sccache know a compiler; `compiler` stands for all that it adds to its words.

    Left to themselves they see a wrapper script, not the compiler behind it, nor the arch and CPU that it adds.
    """
    return {"CCACHE_COMPILERCHECK": f"string:{compiler}", "SCCACHE_C_CUSTOM_CACHE_BUSTER": compiler}
