"""A small project in C and C++ that shows whether a toolchain works, and the ways to build and to run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolchains.arch import Arch
from toolchains.host_toolchain import HostToolchain

TOOLS = Path(sys.executable).parent
"""The environment's own CMake, Ninja and Meson."""
SECONDS = 1800

CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(small C CXX)
include(CheckFunctionExists)
include(CheckCCompilerFlag)
find_package(Threads REQUIRED)
check_function_exists(getpid HAVE_GETPID)
check_function_exists(no_such_function_anywhere HAVE_NO_SUCH_FUNCTION)
add_compile_options(-Wall -Wextra -Werror)
add_executable(plain plain.c)
target_link_libraries(plain m)
add_executable(full full.cpp)
target_link_libraries(full Threads::Threads)
message(STATUS "FLAGS: ${CMAKE_C_FLAGS} | ${CMAKE_CXX_FLAGS} | ${CMAKE_EXE_LINKER_FLAGS} | ${CMAKE_SHARED_LINKER_FLAGS}")
message(STATUS "MINIMUM: ${CMAKE_MINIMUM_REQUIRED_VERSION}")
"""
SHARED = """
add_library(half SHARED half.c)
set_target_properties(half PROPERTIES VERSION 1.2 SOVERSION 1)
add_executable(user user.c)
target_link_libraries(user half)
"""
FILES = {
    # The float ABI: a mixture of the two prints 1.000000 or 0.000000 and nobody complains.
    "plain.c": """
#include <math.h>
#include <stdio.h>
int main(int argc, char **argv) { (void)argv; printf("sin(1) = %.6f\\n", sin(argc)); return 0; }
""",
    "full.cpp": """
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>
thread_local int own = 0;
int main() {
    std::vector<int> sums(4);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([i, &sums] { for (int k = 0; k <= 100; ++k) own += k; sums[i] = own; });
    for (auto &thread : threads) thread.join();
    try { throw std::runtime_error("caught"); }
    catch (const std::exception &error) { std::cout << error.what() << ' ' << std::accumulate(sums.begin(), sums.end(), own) << '\\n'; }
}
""",
    "half.c": "double half(double x);\ndouble half(double x) { return x / 2; }\n",
    "user.c": """
#include <stdio.h>
double half(double x);
int main(int argc, char **argv) { (void)argv; printf("half = %.2f\\n", half(argc)); return 0; }
""",
}
# Worked out by hand: sin(1), and four times the sum of 0 to 100.
PLAIN_OUTPUT = "sin(1) = 0.841471\n"
FULL_OUTPUT = "caught 20200\n"
USER_OUTPUT = "half = 0.50\n"

OLD_CPUS = {"arm32": "cortex-a7", "arm64": "cortex-a53"}
"""What a generic build must run on."""


def write_project(folder: Path, cmake: str = CMAKE, **files: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "CMakeLists.txt").write_text(cmake)
    for name, text in (FILES | files).items():
        (folder / name).write_text(text)
    return folder


def configure(toolchain: HostToolchain, source: Path, build: Path, *options: str, cmake: Path = TOOLS / "cmake") -> str:
    """Configures, and returns everything that CMake said."""
    words: list[str | Path] = [
        cmake,
        "-S",
        source,
        "-B",
        build,
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}",
    ]
    words += [f"-DCMAKE_TOOLCHAIN_FILE={toolchain.file}", "-DCMAKE_BUILD_TYPE=Release", *options]
    return run_program(words, toolchain)


def build_project(toolchain: HostToolchain, source: Path, build: Path, *options: str) -> str:
    """Configures and builds, and returns what CMake said of the configuration."""
    said = configure(toolchain, source, build, *options)
    run_program([TOOLS / "ninja", "-C", build], toolchain)
    return said


def run_program(words: list[str | Path], toolchain: HostToolchain, folder: Path | None = None) -> str:
    # Meson and CMake look for Ninja, and for nothing else, on PATH.
    environment = {**os.environ, **toolchain.environment, "PATH": f"{TOOLS}:{os.environ['PATH']}"}
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


def run_emulated(
    arch: Arch, program: Path, *, cpu: str = "", root: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program of `arch`, on an old CPU unless told otherwise; `root` has the loader of dynamic ones."""
    words: list[str | Path] = []
    if arch.qemu:
        qemu = shutil.which(arch.qemu)
        if qemu is None:
            pytest.skip(f"{arch.qemu} is not installed (Debian package qemu-user-static)")
        words = [qemu, "-cpu", cpu or OLD_CPUS[arch.name]]
        words += ["-L", root] if root else []
    return subprocess.run([*words, program], capture_output=True, text=True, timeout=120, check=False)


def output_of(arch: Arch, program: Path, *, cpu: str = "", root: Path | None = None) -> str:
    done = run_emulated(arch, program, cpu=cpu, root=root)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def flags_line(said: str) -> str:
    """The flags that a configuration ended with."""
    return next(line for line in said.splitlines() if line.startswith("-- FLAGS:"))


def cache_value(build: Path, name: str) -> str:
    """A value in CMake's cache."""
    for line in (build / "CMakeCache.txt").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.partition("=")[2]
    raise AssertionError(f"{name} is not in the cache")
