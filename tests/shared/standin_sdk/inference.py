"""A stand-in SDK whose MindSpore Lite and NNRt libraries compute: the reference runtimes, built with its own compiler."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from core.deadline import Deadline
from core.files import atomic_folder, sha256_folder, sha256_json
from core.locks import hold
from core.process import RealRunner
from core.session import PROJECT
from tests.shared.standin_sdk.assemble import board_libraries, link_tree, standin_sdk
from tests.shared.standin_sdk.releases import find_release
from toolchains.arch import Arch

RUNTIME = PROJECT / "native/programs/runtime"
HEADERS = ("mindspore", "neural_network_runtime")
LIBRARIES = ("libmindspore*.so", "libneural_network_*.so")


def inference_sdk(cache: Path, release: str, *arches: Arch) -> Path:
    """As `standin_sdk`, with headers and working libraries of both engines for `arches`; kept in `cache` likewise.

    They say of themselves, in every output, that they are the reference runtime.
    """
    plain = standin_sdk(cache, release)
    key = sha256_json([plain.name, sha256_folder(RUNTIME), sorted(arch.name for arch in arches)])[:16]
    tree = plain.parent / f"{release}-inference-{key}"
    with hold(plain.parent / "lock", Deadline.after(1800, "the stand-in SDK")):
        if not tree.is_dir():
            with atomic_folder(tree) as folder:
                for name in ("native", "toolchains"):
                    link_tree(plain / name, folder / name)
                for name in HEADERS:
                    shutil.copytree(RUNTIME / "include" / name, folder / "native/sysroot/usr/include" / name)
                for arch in arches:
                    _replace_libraries(folder, plain, arch, find_release(release).api_level)
    return tree


def inference_board_libraries(sdk: Path, arch: Arch, cache: Path, folder: Path) -> Path:
    """Fills `folder` with what a board of that arch has in its library folder: the C library and both engines.

    Not the C++ library, which is part of the system from OpenHarmony 5.1 on only.
    """
    shutil.copytree(board_libraries(arch.name, cache), folder, ignore=shutil.ignore_patterns("libc++_shared.so"))
    for library in _engines(sdk, arch):
        shutil.copy2(library, folder)
    return folder


def _replace_libraries(folder: Path, plain: Path, arch: Arch, level: int) -> None:
    build = folder / "work"
    for library in _build_libraries(plain, arch, level, build):
        place = _sysroot_libraries(folder, arch) / library.name
        place.unlink()  # A name in the shared tree too: never written through.
        shutil.copy2(library, place)
    shutil.rmtree(build)


def _build_libraries(sdk: Path, arch: Arch, level: int, build: Path) -> list[Path]:
    configure = [
        *("cmake", "-S", str(RUNTIME), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
        f"-DCMAKE_TOOLCHAIN_FILE={sdk}/native/build/cmake/ohos.toolchain.cmake",
        *(f"-DOHOS_ARCH={arch.ohos_arch}", "-DOHOS_STL=c++_static", "-DOHFORGE_REFERENCE_SHARED=ON"),
        f"-DOHFORGE_API_LEVEL={level}",
    ]
    if arch.elf_bits == 32:
        configure.append("-DCMAKE_C_FLAGS=-march=armv7-a -mfloat-abi=softfp -mfpu=neon-vfpv4")
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    for words in (configure, ["ninja", "-C", str(build)]):
        done = RealRunner().run(words, deadline=Deadline.after(900, "the reference runtimes"), env={"PATH": tools})
        assert done.ok, done.last_lines(40)
    return sorted(build.glob("*.so"))


def _engines(sdk: Path, arch: Arch) -> Iterable[Path]:
    return (path for pattern in LIBRARIES for path in _sysroot_libraries(sdk, arch).glob(pattern))


def _sysroot_libraries(sdk: Path, arch: Arch) -> Path:
    return sdk / "native/sysroot/usr/lib" / arch.ohos_triple
