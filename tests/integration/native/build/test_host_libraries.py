"""A machine full of libraries of its own: none gets into a build for the board, and what is named for it does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from core.session import Session
from native.build.ensure import BuildRequest, ensure_built
from tests.shared.standin_sdk import standin_sdk
from toolchains.host_toolchain import ToolchainChoice

TOOLCHAIN = pytest.mark.parametrize("toolchain", ["zig", "ohos"])
MAIN = "int main(void) { return 0; }\n"
PROJECTS = {
    "cmake": {
        "CMakeLists.txt": """cmake_minimum_required(VERSION 3.16)
project(looks C)
include(CheckIncludeFile)
find_path(HEADER extra.h)
find_path(SYSTEM_HEADER gnu/libc-version.h)
find_library(LIBRARY extra)
find_package(extra QUIET CONFIG)
find_package(PkgConfig REQUIRED)
pkg_check_modules(MODULE extra)
check_include_file(extra.h INCLUDED)
foreach(found "${HEADER}" "${SYSTEM_HEADER}" "${LIBRARY}" "${extra_FOUND}" "${MODULE_FOUND}" "${INCLUDED}")
  if(found)
    message(STATUS "found: 1")
  else()
    message(STATUS "found: 0")
  endif()
endforeach()
add_executable(looks main.c)
""",
        "main.c": MAIN,
    },
    "meson": {
        "meson.build": """project('looks', 'c')
cc = meson.get_compiler('c')
message('found: @0@'.format(cc.has_header('extra.h').to_int()))
message('found: @0@'.format(cc.find_library('extra', required: false).found().to_int()))
message('found: @0@'.format(dependency('extra', required: false, method: 'pkg-config').found().to_int()))
message('found: @0@'.format(dependency('extra', required: false, method: 'cmake').found().to_int()))
executable('looks', 'main.c')
""",
        "main.c": MAIN,
    },
    "make": {
        "configure": """#!/bin/sh
look() { if "$@" 2>/dev/null >&2; then echo found: 1; else echo found: 0; fi; }
echo '#include <extra.h>' > conftest.c
look $CC -c conftest.c -o conftest.o
echo 'int extra(void); int main(void) { return extra(); }' > conftest.c
look $CC conftest.c -lextra -o conftest
look pkg-config --exists extra
""",
        "Makefile": "looks: main.c\n\t$(CC) -o $@ main.c\n",
        "main.c": MAIN,
    },
}


@pytest.fixture
def sdk(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("make") is None or shutil.which("pkg-config") is None:
        pytest.skip("make and pkg-config are not both installed")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))
    return standin_sdk(shared_cache, "5.0.0")


def write_library(prefix: Path, session: Session, sdk: Path, toolchain: str) -> Path:
    """A prefix with a header, a static library for arm64 and what CMake and pkg-config read, made by a build."""
    source = prefix.with_name(f"{prefix.name}-source")
    files = {
        "extra.c": "int extra(void);\nint extra(void) { return 0; }\n",
        "extra.h": "int extra(void);\n",
        "extra.pc": f"Name: extra\nDescription: x\nVersion: 1\nCflags: -I{prefix}/include\nLibs: -L{prefix}/lib -lextra\n",
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(extra C)\nadd_library(extra STATIC extra.c)\n"
        "install(TARGETS extra EXPORT extra)\ninstall(FILES extra.h DESTINATION include)\n"
        "install(FILES extra.pc DESTINATION lib/pkgconfig)\n"
        "install(EXPORT extra FILE extra-config.cmake DESTINATION lib/cmake/extra)\n",
    }
    source.mkdir()
    for name, text in files.items():
        (source / name).write_text(text)
    choice = ToolchainChoice(arch="arm64", toolchain=toolchain, sdk=str(sdk) if toolchain == "ohos" else "")
    artifact = ensure_built(session, BuildRequest(source=str(source), choice=choice)).artifact
    shutil.copytree(artifact.folder / artifact.prefix, prefix)
    return prefix


def what_is_found(session: Session, project: Path, system: str, toolchain: str, sdk: Path, **more: object) -> list[int]:
    choice = ToolchainChoice(arch="arm64", toolchain=toolchain, sdk=str(sdk) if toolchain == "ohos" else "")
    request = BuildRequest(source=str(project), system=system, choice=choice, **more)  # type: ignore[arg-type]
    log = ensure_built(session, request).artifact.folder / "build.log"
    return [int(digit) for digit in re.findall(r"found: (\d)", log.read_text())]


@TOOLCHAIN
def test_nothing_of_the_machine_is_found_and_all_of_a_prefix_is(
    toolchain: str, session: Session, tmp_path: Path, sdk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = write_library(tmp_path / "host", session, sdk, toolchain)
    for variable in ("CMAKE_PREFIX_PATH", "extra_ROOT"):
        monkeypatch.setenv(variable, str(host))
    for variable in ("CPATH", "C_INCLUDE_PATH", "CMAKE_INCLUDE_PATH"):
        monkeypatch.setenv(variable, str(host / "include"))
    for variable in ("LIBRARY_PATH", "CMAKE_LIBRARY_PATH"):
        monkeypatch.setenv(variable, str(host / "lib"))
    monkeypatch.setenv("PKG_CONFIG_PATH", str(host / "lib/pkgconfig"))
    for system, files in PROJECTS.items():
        project = tmp_path / f"with {system}"
        project.mkdir()
        for name, text in files.items():
            (project / name).write_text(text)
        found = what_is_found(session, project, system, toolchain, sdk)
        assert found == [0] * len(found), system
        assert len(found) == {"cmake": 6, "meson": 4, "make": 3}[system]
        found = what_is_found(session, project, system, toolchain, sdk, prefixes=(str(host),))
        # The second of CMake's is a header of glibc, and a prefix is no place of the compiler's own.
        assert found == ([1, 0, 1, 1, 1, 0] if system == "cmake" else [1] * len(found)), system
    named = {"CMAKE_PREFIX_PATH": str(host)}
    found = what_is_found(session, tmp_path / "with cmake", "cmake", toolchain, sdk, options=named)
    assert found[:4] == [1, 0, 1, 1]


def test_what_musl_has_in_its_c_library_is_found_by_the_names_that_projects_know(
    session: Session, tmp_path: Path, sdk: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(looks C)\nadd_executable(looks main.c)\n"
        "foreach(name m pthread dl rt)\n  find_library(${name}_LIBRARY ${name} REQUIRED)\n"
        "  target_link_libraries(looks ${${name}_LIBRARY})\nendforeach()\n"
    )
    (project / "main.c").write_text("#include <math.h>\nint main(int n, char **v) { return (int)cos(n) + !v; }\n")
    choice = ToolchainChoice(arch="arm64", toolchain="zig")
    assert ensure_built(session, BuildRequest(source=str(project), choice=choice)).rebuilt
