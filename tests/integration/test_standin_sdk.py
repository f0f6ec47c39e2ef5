"""The stand-in SDK compiles with its own toolchain file, as the SDK would, and what it compiles runs under qemu."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.process import RealRunner, Result
from tests.support.standin_sdk import runtime_tree, standin_sdk
from toolchains.arch import ARCHES, Arch

PROBE = Path(__file__).parent.parent / "data/standin_sdk"
LINKAGES = {
    "static": ["-DOHOS_STL=c++_static", "-DCMAKE_EXE_LINKER_FLAGS=-static"],
    "c++_static": ["-DOHOS_STL=c++_static"],
    "c++_shared": ["-DOHOS_STL=c++_shared"],
}
NEEDED: dict[str, set[str]] = {
    "static": set(),
    "c++_static": {"libc.so"},
    "c++_shared": {"libc.so", "libc++_shared.so"},
}


# The project's own CMake and Ninja stand beside the interpreter, whether or not the environment is activated.
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def run(*argv: str | Path, seconds: float = 300.0) -> Result:
    return RealRunner().run(argv, deadline=Deadline.after(seconds, f"`{argv[0]}`"), env={"PATH": TOOLS})


def configure(tree: Path, source: Path, build: Path, *options: str) -> Result:
    return run(
        "cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_TOOLCHAIN_FILE={tree}/native/build/cmake/ohos.toolchain.cmake", *options,
    )  # fmt: skip


def build_probe(tree: Path, build: Path, arch: Arch, *options: str) -> None:
    configured = configure(tree, PROBE, build, f"-DOHOS_ARCH={arch.ohos_arch}", *options)
    assert configured.ok, configured.last_lines(40)
    built = run("cmake", "--build", build)
    assert built.ok, built.last_lines(40)


def emulate(cache: Path, arch: Arch, *argv: str | Path) -> Result:
    return run(arch.qemu, "-L", runtime_tree(arch.name, cache), *argv)


def readelf(tree: Path, *argv: str | Path) -> str:
    result = run(tree / "native/llvm/bin/llvm-readelf", *argv)
    assert result.ok, result.last_lines()
    return result.text


@pytest.fixture(scope="module")
def sdk(shared_cache: Path) -> Path:
    return standin_sdk(shared_cache, "5.0.0")


@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize("arch", ["arm32", "arm64"])
def test_c_and_cxx_programs_build_with_the_sdks_own_file_and_run(
    sdk: Path, shared_cache: Path, tmp_path: Path, arch: str, linkage: str
) -> None:
    target = ARCHES[arch]
    build_probe(sdk, tmp_path, target, *LINKAGES[linkage])

    c_program = emulate(shared_cache, target, tmp_path / "probe_c", "1")
    assert (c_program.text, c_program.exit_code) == ("0.841471\n", 7)
    cxx_program = emulate(shared_cache, target, tmp_path / "probe_cxx", tmp_path, "1")
    # 41 + 42 + 43 + 44: each thread's own copy, read by the destructor of another thread_local object.
    assert cxx_program.text.splitlines() == [
        "exception thrown",
        "threads 170 main 40",
        "regex 12 and 5",
        "filesystem probe.txt 12",
        "sin 0.841471",
    ], cxx_program.error_text
    if linkage == "c++_shared":
        library_user = emulate(shared_cache, target, "-E", f"LD_LIBRARY_PATH={tmp_path}", tmp_path / "with_library")
        assert library_user.text.splitlines() == ["square", "only squares"], library_user.error_text
    needed = set(re.findall(r"Shared library: \[(.+?)\]", readelf(sdk, "-d", tmp_path / "probe_cxx")))
    assert needed == NEEDED[linkage]
    loader = re.findall(r"interpreter: (.+?)\]", readelf(sdk, "-l", tmp_path / "probe_cxx"))
    assert loader == ([] if linkage == "static" else [target.loader])
    if arch == "arm32":
        # 0x400 instead of 0x200 would mean that one object was compiled for another calling convention.
        assert "0x5000200" in readelf(sdk, "-h", tmp_path / "probe_cxx")
