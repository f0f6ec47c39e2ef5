"""The host toolchain zig: real builds, run under qemu-user on CPUs that have no more than they must."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from core.session import Session
from core.settings import Settings
from tests.shared.cmake_project import (
    CMAKE,
    FULL_OUTPUT,
    PLAIN_OUTPUT,
    build_project,
    cache_value,
    configure,
    output_of,
    run_emulated,
    write_project,
)
from toolchains import zig
from toolchains.arch import ARCHES, ARM32, ARM64, Arch
from toolchains.host_toolchain import ToolchainChoice
from toolchains.toolchain import check_compiler, choose_toolchain

ALL = pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)
EF_ARM_ABI_FLOAT_HARD = 0x400
RUNTIME_FILES = 300
"""More new entries than this in zig's cache mean that it has built a C library (which is about a thousand)."""


@pytest.fixture(autouse=True)
def shared_runtimes(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One cache for zig's C and C++ runtimes: each set costs a minute or two, once."""
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))
    return shared_cache / "zig"


@pytest.fixture
def spaced(tmp_path: Path) -> Session:
    """A session whose cache, and so the toolchain, lies in a folder with blanks and a quote in its name."""
    os.environ.pop("OHFORGE_CACHE_DIR")
    return Session(settings=Settings(cache_dir=str(tmp_path / "it's a cache")))


@ALL
def test_c_and_cxx_programs_run_on_the_oldest_cpu_of_the_arch(spaced: Session, tmp_path: Path, arch: Arch) -> None:
    toolchain = choose_toolchain(spaced, ToolchainChoice(arch=arch.name, toolchain="zig"))
    source, build = write_project(tmp_path / "a project"), tmp_path / "a build"
    build_project(toolchain, source, build)
    assert output_of(arch, build / "plain") == PLAIN_OUTPUT
    assert output_of(arch, build / "full") == FULL_OUTPUT
    for program in ("plain", "full"):
        with (build / program).open("rb") as file:
            elf = ELFFile(file)
            assert elf["e_machine"] == arch.elf_machine
            assert elf.get_section_by_name(".interp") is None
            assert elf.get_section_by_name(".symtab") is None
            assert elf.get_section_by_name(".note.gnu.build-id") is not None
            assert bool(elf["e_flags"] & EF_ARM_ABI_FLOAT_HARD) == (arch == ARM32)


@ALL
def test_probes_that_link_tell_the_truth(session: Session, tmp_path: Path, arch: Arch) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=arch.name, toolchain="zig"))
    build_project(toolchain, write_project(tmp_path / "source"), tmp_path / "build")
    assert cache_value(tmp_path / "build", "HAVE_GETPID") == "1"
    assert cache_value(tmp_path / "build", "HAVE_NO_SUCH_FUNCTION") == ""


@pytest.mark.parametrize("options", [(), ("-DCMAKE_POSITION_INDEPENDENT_CODE=ON",)], ids=["plain", "pic"])
@pytest.mark.parametrize("cpu", ["generic", "cortex-a55"])
def test_neither_configuring_nor_tuning_builds_another_set_of_runtimes(
    session: Session, tmp_path: Path, shared_runtimes: Path, cpu: str, options: tuple[str, ...]
) -> None:
    check_compiler(session, choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig")))
    before = count_entries(shared_runtimes)
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig", cpu=cpu))
    build_project(toolchain, write_project(tmp_path / "source"), tmp_path / "build", *options)
    assert count_entries(shared_runtimes) - before < RUNTIME_FILES


def test_a_zig_installed_elsewhere_shares_the_runtimes(
    session: Session, tmp_path: Path, shared_runtimes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = zig.find_zig()
    check_compiler(session, choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig")))
    before = count_entries(shared_runtimes)
    package = tmp_path / "another clone" / "ziglang"
    package.mkdir(parents=True)
    shutil.copy2(here.program, package / "zig")
    shutil.copytree(here.program.parent / "lib", package / "lib", copy_function=link_or_copy)
    monkeypatch.setattr(zig, "find_zig", lambda: dataclasses.replace(here, program=package / "zig"))
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig"))
    assert str(package) in toolchain.cc.read_text()
    check_compiler(session, toolchain)
    assert count_entries(shared_runtimes) - before < RUNTIME_FILES


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def count_entries(cache: Path) -> int:
    return sum(1 for _ in (cache / "o").iterdir())


DOT_PRODUCT = """
#include <arm_neon.h>
#include <stdio.h>
#ifndef __ARM_FEATURE_DOTPROD
#error no dot product
#endif
int main(int argc, char **argv) {
    (void)argv;
    int8x16_t a = vdupq_n_s8((signed char)(argc * 3)), b = vdupq_n_s8(5);
    printf("%d\\n", vaddvq(vdotq_s32(vdupq_n_s32(0), a, b)));
    return 0;
}
"""


@pytest.mark.parametrize(("arch", "new_cpu"), [(ARM64, "cortex-a76"), (ARM32, "max")], ids=["arm64", "arm32"])
def test_a_tuned_build_uses_the_instructions_and_ends_with_sigill_on_a_cpu_without_them(
    session: Session, tmp_path: Path, arch: Arch, new_cpu: str
) -> None:
    sum_of_lanes = "" if arch == ARM64 else (
        "static int vaddvq(int32x4_t v) { return v[0] + v[1] + v[2] + v[3]; }\n"
    )  # fmt: skip
    text = DOT_PRODUCT.replace("int main", f"{sum_of_lanes}int main")
    if arch == ARM64:
        text = text.replace("vaddvq(", "vaddvq_s32(")
    toolchain = choose_toolchain(session, ToolchainChoice(arch=arch.name, toolchain="zig", cpu="cortex-a55"))
    source = write_project(tmp_path / "source", **{"plain.c": text})
    build_project(toolchain, source, tmp_path / "build")
    # By hand: 16 lanes of 3 times 5.
    assert output_of(arch, tmp_path / "build/plain", cpu=new_cpu) == "240\n"
    assert run_emulated(arch, tmp_path / "build/plain").returncode in (-4, 132)


def test_a_projects_own_march_reaches_the_compiler(session: Session, tmp_path: Path) -> None:
    cmake = (
        CMAKE
        + """
check_c_compiler_flag("-march=armv8.2-a+dotprod+fp16" KNOWS_MARCH)
check_c_compiler_flag("-march=armv8.2-a+nonsense" KNOWS_NONSENSE)
set_source_files_properties(plain.c PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod+fp16")
"""
    )
    text = DOT_PRODUCT.replace("vaddvq(", "vaddvq_s32(")
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig"))
    build_project(toolchain, write_project(tmp_path / "source", cmake, **{"plain.c": text}), tmp_path / "build")
    assert output_of(ARM64, tmp_path / "build/plain", cpu="cortex-a76") == "240\n"
    assert cache_value(tmp_path / "build", "KNOWS_MARCH") == "1"
    assert cache_value(tmp_path / "build", "KNOWS_NONSENSE") == ""


@ALL
def test_the_same_source_in_two_folders_gives_the_same_bytes(tmp_path: Path, arch: Arch) -> None:
    os.environ.pop("OHFORGE_CACHE_DIR")
    built = []
    for place in (tmp_path / "one", tmp_path / "another place, with a longer name"):
        toolchain = choose_toolchain(
            Session(settings=Settings(cache_dir=str(place / "cache"))), ToolchainChoice(arch=arch.name, toolchain="zig")
        )
        text = "#include <stdio.h>\nint main(void) { puts(__FILE__); return 0; }\n"
        source, build = write_project(place / "source", **{"plain.c": text}), place / "build"
        maps = f'"-ffile-prefix-map={source}=source" "-ffile-prefix-map={build}=build"'
        build_project(toolchain, source, build, f"-DCMAKE_C_FLAGS={maps}", f"-DCMAKE_CXX_FLAGS={maps}")
        assert output_of(arch, build / "plain") == "source/plain.c\n"
        built.append([(build / program).read_bytes() for program in ("plain", "full")])
    assert built[0] == built[1]


def test_undefined_behaviour_is_not_trapped_unless_asked_for(session: Session, tmp_path: Path) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig"))
    source = tmp_path / "overflow.c"
    source.write_text(
        "#include <limits.h>\nint main(int argc, char **argv) { (void)argv; return INT_MAX + argc > 0; }\n"
    )
    for flags, code in (["-O0"], 0), (["-O0", "-fsanitize=undefined", "-fsanitize-trap=undefined"], -5):
        subprocess.run([toolchain.cc, *flags, "-c", source, "-o", tmp_path / "o.o"], check=True, timeout=600)
        subprocess.run([toolchain.cc, tmp_path / "o.o", "-o", tmp_path / "overflow"], check=True, timeout=600)
        assert run_emulated(ARM64, tmp_path / "overflow").returncode == code


def test_an_archive_made_with_the_wrappers_links(session: Session, tmp_path: Path) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig"))
    (tmp_path / "answer.c").write_text("int answer(void);\nint answer(void) { return 42; }\n")
    (tmp_path / "main.c").write_text("int answer(void);\nint main(void) { return answer(); }\n")
    commands: list[list[str | Path]] = [
        [toolchain.cc, "-c", "answer.c"],
        [toolchain.ar, "rc", "libanswer.a", "answer.o"],
        [toolchain.ranlib, "libanswer.a"],
        [toolchain.cc, "main.c", "-L.", "-lanswer", "-o", "main"],
    ]
    for words in commands:
        subprocess.run(words, cwd=tmp_path, check=True, timeout=600)
    assert run_emulated(ARM64, tmp_path / "main").returncode == 42


def test_options_that_only_have_the_linker_tell_more_change_nothing_and_the_map_is_written(
    session: Session, tmp_path: Path
) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig"))
    (tmp_path / "main.c").write_text("int answer(void) { return 42; }\nint main(void) { return answer(); }\n")
    telling = {
        "plain": [],
        "told": ["-Wl,--warn-common,-Map,told.map,--gc-sections", "-Wl,--verbose"],
        "split": ["-Xlinker", "--cref", "-Wl,-Map", "-Wl,split.map", "-Wl,-t"],
    }
    subprocess.run([toolchain.cc, "-g", "-c", "main.c"], cwd=tmp_path, check=True, timeout=600)
    said = {
        name: subprocess.run(
            [toolchain.cc, "-g", "main.o", *words, "-o", name],
            cwd=tmp_path,
            check=True,
            timeout=600,
            capture_output=True,
            text=True,
        )
        for name, words in telling.items()
    }
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "split").read_bytes()
    assert run_emulated(ARM64, tmp_path / "told").returncode == 42
    assert [said["told"].stderr.count(option) for option in ("--warn-common", "--verbose", "-Map")] == [1, 1, 0]
    with (tmp_path / "told").open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        [answer] = table.get_symbol_by_name("answer") or []
        written = [line.split() for line in (tmp_path / "told.map").read_text().splitlines()]
    assert [int(words[0], 16) for words in written if words[-1:] == ["answer"]] == [answer["st_value"]]
    assert "main.o:(.text)" in (tmp_path / "split.map").read_text()
    assert not said["told"].stdout


def test_probes_of_linker_options_hear_what_zigs_linker_knows(session: Session, tmp_path: Path) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, toolchain="zig"))
    cmake = """
cmake_minimum_required(VERSION 3.18)
project(probes C)
include(CheckLinkerFlag)
check_linker_flag(C -Wl,--warn-common KNOWS_WARN_COMMON)
check_linker_flag(C -Wl,--gc-sections KNOWS_GC_SECTIONS)
"""
    configure(toolchain, write_project(tmp_path / "source", cmake), tmp_path / "build")
    assert cache_value(tmp_path / "build", "KNOWS_WARN_COMMON") == ""
    assert cache_value(tmp_path / "build", "KNOWS_GC_SECTIONS") == "1"
    conftest = tmp_path / "conftest.c"
    conftest.write_text("int main(void) { return 0; }\n")
    for option, status in ("-Wl,--warn-common", 1), ("-Wl,--gc-sections", 0):
        done = subprocess.run([toolchain.cc, option, conftest, "-o", tmp_path / "conftest"], timeout=600, check=False)
        assert done.returncode == status
