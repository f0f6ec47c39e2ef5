"""The host toolchain ohos over the stand-in SDK: what the rendered file mends, seen in what is built."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from core.session import Session
from tests.shared.cmake_project import (
    CMAKE,
    FULL_OUTPUT,
    PLAIN_OUTPUT,
    SHARED,
    TOOLS,
    USER_OUTPUT,
    build_project,
    configure,
    flags_line,
    output_of,
    run_program,
    write_project,
)
from tests.shared.sdk_matrix import Combination, build_combination, cmake_of, combinations
from tests.shared.standin_sdk import runtime_tree, standin_sdk
from toolchains.arch import ARM32, ARM64, Arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice
from toolchains.toolchain import check_compiler, choose_toolchain

BOTH = pytest.mark.parametrize("arch", [ARM32, ARM64], ids=["arm32", "arm64"])
RELEASES = pytest.mark.parametrize("release", ["3.2", "5.0.0", "7.0"])
EF_ARM_ABI_FLOAT_HARD = 0x400


@pytest.fixture
def sdk(shared_cache: Path) -> str:
    return str(standin_sdk(shared_cache, "5.0.0"))


def read_elf(path: Path) -> dict[str, object]:
    """What the tests want to know of an ELF file, read with pyelftools."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        dynamic: Any = elf.get_section_by_name(".dynamic")
        tags = list(dynamic.iter_tags()) if dynamic else []
        interpreter = elf.get_section_by_name(".interp")
        stack = [part["p_memsz"] for part in elf.iter_segments() if part["p_type"] == "PT_GNU_STACK"]
        attributes: Any = elf.get_section_by_name(".ARM.attributes")
        return {
            "flags": elf["e_flags"],
            "interpreter": interpreter.data().rstrip(b"\0").decode() if interpreter else "",
            "needed": {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"},
            "soname": next((tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"), ""),
            "stack": stack[0] if stack else 0,
            "neon": attributes is not None
            and any(
                one.tag == "TAG_ADVANCED_SIMD_ARCH" and one.value
                for part in attributes.iter_subsections()
                for group in part.iter_subsubsections()
                for one in group.iter_attributes()
            ),
        }


def code_of(path: Path) -> dict[str, bytes]:
    """The machine code in an object file, by section."""
    with path.open("rb") as file:
        sections = [one for one in ELFFile(file).iter_sections() if one["sh_flags"] & 4 and one["sh_size"]]
        assert sections
        return {one.name: one.data() for one in sections}


@BOTH
@RELEASES
def test_programs_run_and_three_configurations_give_the_same_flags_without_a_warning(
    session: Session, tmp_path: Path, shared_cache: Path, release: str, arch: Arch
) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=arch.name, sdk=str(standin_sdk(shared_cache, release))))
    source, build = write_project(tmp_path / "a project", CMAKE + SHARED), tmp_path / "a build"
    own = "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-O1"
    said = [build_project(toolchain, source, build, own), *(configure(toolchain, source, build) for _ in range(2))]
    assert len({flags_line(one) for one in said}) == 1
    assert flags_line(said[0]).count("-Wl,-O1") == flags_line(said[0]).count("stack-size") == 1
    assert not [line for line in said[0].splitlines() if re.search("CMake .*Warning|warning:|unknown to cmake", line)]
    assert "-- MINIMUM: 3.16" in said[0]
    root = runtime_tree(arch.name, shared_cache)
    assert output_of(arch, build / "plain", root=root) == PLAIN_OUTPUT
    assert output_of(arch, build / "full", root=root) == FULL_OUTPUT
    assert read_elf(build / "libhalf.so")["soname"] == "libhalf.so.1"
    assert (build / "libhalf.so").resolve().name == "libhalf.so.1.2"
    program = read_elf(build / "full")
    assert program["interpreter"] == arch.loader
    assert program["needed"] == {"libc.so"}
    assert program["stack"] == 8 * 1024 * 1024


@BOTH
def test_changed_linker_flags_are_taken_by_the_next_configuration_of_7_0(
    session: Session, tmp_path: Path, shared_cache: Path, arch: Arch
) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=arch.name, sdk=str(standin_sdk(shared_cache, "7.0"))))
    source, build = write_project(tmp_path / "source"), tmp_path / "build"
    configure(toolchain, source, build, "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-O1")
    changed = flags_line(configure(toolchain, source, build, "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed"))
    assert "-Wl,--as-needed" in changed
    assert "-Wl,-O1" not in changed
    assert changed.count("-lunwind") == 2  # once for programs, once for libraries


def test_arm32_is_softfp_with_neon_where_the_sdks_own_file_gives_neither_unless_that_is_asked_for(
    session: Session, tmp_path: Path, sdk: str, shared_cache: Path
) -> None:
    text = '#include <stdio.h>\nfloat half(float);\nint main(int c, char **v) { (void)v; printf("%g\\n", half((float)c)); return 0; }\n'
    half = "float half(float x);\nfloat half(float x) { return x * 0.5f; }\n"
    # Without -Werror, under which the SDK's own file does not compile at all: clang does not use --gcc-toolchain.
    cmake = CMAKE.replace("-Werror", "") + "target_sources(plain PRIVATE half.c)\n"
    source = write_project(tmp_path / "source", cmake, **{"plain.c": text, "half.c": half})
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM32.name, sdk=sdk))
    build_project(toolchain, source, tmp_path / "ours")
    build_project(
        choose_toolchain(session, ToolchainChoice(arch=ARM32.name, sdk=sdk, cpu="soft-float")),
        source,
        tmp_path / "soft",
    )
    options = [f"-DCMAKE_TOOLCHAIN_FILE={sdk}/native/build/cmake/ohos.toolchain.cmake", "-DOHOS_ARCH=armeabi-v7a"]
    words: list[str | Path] = [TOOLS / "cmake", "-S", source, "-B", tmp_path / "theirs", "-G", "Ninja"]
    run_program([*words, *options, "-DCMAKE_BUILD_TYPE=Release"], toolchain)
    run_program([TOOLS / "ninja", "-C", tmp_path / "theirs", "plain"], toolchain)
    half_object = Path("CMakeFiles/plain.dir/half.c.o")
    assert read_elf(tmp_path / "ours" / half_object)["neon"]
    assert not read_elf(tmp_path / "theirs" / half_object)["neon"]
    called = [
        subprocess.run(
            [f"{sdk}/native/llvm/bin/llvm-nm", "--undefined-only", tmp_path / name / half_object],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for name in ("ours", "theirs", "soft")
    ]
    assert ["__aeabi_fmul" in text for text in called] == [False, True, True]
    assert code_of(tmp_path / "soft" / half_object) == code_of(tmp_path / "theirs" / half_object)
    assert not int(str(read_elf(tmp_path / "ours/plain")["flags"])) & EF_ARM_ABI_FLOAT_HARD
    assert output_of(ARM32, tmp_path / "ours/plain", root=runtime_tree("arm32", shared_cache)) == "0.5\n"


@pytest.mark.parametrize("cpu", ["cortex-a7", "cortex-a15", "cortex-a53", "cortex-a55", "cortex-a76"])
def test_every_arm32_tuning_links_with_the_plain_library_folder(session: Session, sdk: str, cpu: str) -> None:
    check_compiler(session, choose_toolchain(session, ToolchainChoice(arch=ARM32.name, sdk=sdk, cpu=cpu)))


@BOTH
@pytest.mark.parametrize("kind", ["static", "c++_shared"])
def test_static_and_shared_cxx_libraries_are_linked_as_asked(
    session: Session, tmp_path: Path, shared_cache: Path, sdk: str, arch: Arch, kind: str
) -> None:
    static = kind == "static"
    toolchain = choose_toolchain(
        session, ToolchainChoice(arch=arch.name, sdk=sdk, static=static, stl="" if static else kind)
    )
    build_project(toolchain, write_project(tmp_path / "source"), tmp_path / "build")
    program = read_elf(tmp_path / "build/full")
    assert (program["interpreter"] == "") == static
    assert program["needed"] == (set() if static else {"libc.so", "libc++_shared.so"})
    root = None if static else runtime_tree(arch.name, shared_cache)
    assert output_of(arch, tmp_path / "build/full", root=root) == FULL_OUTPUT
    if not static:
        (library,) = toolchain.runtime_libraries
        assert read_elf(library)["soname"] == "libc++_shared.so"


def test_a_tuned_arm64_build_has_the_dot_product(session: Session, tmp_path: Path, sdk: str) -> None:
    text = "#ifndef __ARM_FEATURE_DOTPROD\n#error none\n#endif\nint main(void) { return 0; }\n"
    source = write_project(tmp_path / "source", **{"plain.c": text})
    build_project(
        choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk, cpu="cortex-a55")),
        source,
        tmp_path / "build",
    )


UNDEFINED = "add_library(open SHARED open.c)\n"
OPEN = "int nobody_has_this(void);\nint ask(void);\nint ask(void) { return nobody_has_this(); }\n"


def test_undefined_symbols_are_refused_whatever_the_inverted_variable_says(
    session: Session, tmp_path: Path, sdk: str
) -> None:
    source = write_project(tmp_path / "source", CMAKE + UNDEFINED, **{"open.c": OPEN})
    strict = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk))
    configure(strict, source, tmp_path / "strict", "-DOHOS_NO_UNDEFINED=ON")
    with pytest.raises(AssertionError, match="nobody_has_this"):
        run_program([TOOLS / "ninja", "-C", tmp_path / "strict", "open"], strict)


def test_packages_are_found_in_the_prefixes_and_not_on_the_building_machine(
    session: Session, tmp_path: Path, sdk: str
) -> None:
    prefix = tmp_path / "a prefix"
    (prefix / "lib/cmake/Wanted").mkdir(parents=True)
    (prefix / "lib/cmake/Wanted/WantedConfig.cmake").write_text("set(Wanted_FOUND TRUE)\n")
    (prefix / "include").mkdir()
    (prefix / "include/wanted.h").write_text("#pragma once\n")
    (prefix / "lib/pkgconfig").mkdir()
    (prefix / "lib/pkgconfig/wanted.pc").write_text("Name: wanted\nDescription: a\nVersion: 1.5\nCflags: -DWANTED\n")
    host = tmp_path / "host/pkgconfig"
    host.mkdir(parents=True)
    (host / "hostonly.pc").write_text("Name: hostonly\nDescription: a\nVersion: 1\n")
    cmake = CMAKE + (
        "find_package(Wanted REQUIRED)\nfind_path(WANTED_H wanted.h REQUIRED)\n"
        "find_package(PkgConfig)\nif(PkgConfig_FOUND)\n  pkg_check_modules(W REQUIRED wanted)\n"
        '  message(STATUS "pkg-config: ${W_VERSION}")\n  pkg_check_modules(H hostonly)\nendif()\n'
        'message(STATUS "host: [${H_VERSION}] ${WANTED_H}")\n'
    )
    source = write_project(tmp_path / "source", cmake)
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk, prefixes=(prefix,)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PKG_CONFIG_PATH", str(host))
        said = configure(toolchain, source, tmp_path / "build")
    assert f"-- host: [] {prefix}/include" in said
    if shutil.which("pkg-config"):
        assert "-- pkg-config: 1.5" in said


def test_a_cxx_library_that_contradicts_the_rendered_one_is_told(session: Session, tmp_path: Path, sdk: str) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk))
    said = configure(toolchain, write_project(tmp_path / "source"), tmp_path / "build", "-DOHOS_STL=c++_shared")
    assert "OHOS_STL=c++_shared is ignored" in said


@BOTH
def test_the_compiler_scripts_need_no_flags(
    session: Session, tmp_path: Path, shared_cache: Path, sdk: str, arch: Arch
) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=arch.name, sdk=sdk))
    source = write_project(tmp_path / "source")
    run_program([toolchain.cc, "-Werror", "-O2", "plain.c", "-o", "plain"], toolchain, source)
    run_program([toolchain.cxx, "-Werror", "-O2", "-c", "full.cpp"], toolchain, source)
    run_program([toolchain.cxx, "-Werror", "full.o", "-o", "full"], toolchain, source)
    run_program([*toolchain.strip, "full"], toolchain, source)
    root = runtime_tree(arch.name, shared_cache)
    assert output_of(arch, source / "plain", root=root) == PLAIN_OUTPUT
    assert output_of(arch, source / "full", root=root) == FULL_OUTPUT
    assert read_elf(source / "full")["stack"] == 8 * 1024 * 1024


def test_two_folders_give_the_same_bytes(session: Session, tmp_path: Path, sdk: str) -> None:
    built = []
    for place in (tmp_path / "one", tmp_path / "another place"):
        toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM32.name, sdk=sdk))
        source, build = write_project(place / "source"), place / "build"
        maps = f'"-ffile-prefix-map={source}=source" "-ffile-prefix-map={build}=build"'
        build_project(toolchain, source, build, f"-DCMAKE_C_FLAGS={maps}", f"-DCMAKE_CXX_FLAGS={maps}")
        built.append([(build / program).read_bytes() for program in ("plain", "full")])
    assert built[0] == built[1]


# every release in every layout with several CMakes ---------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("one", combinations(), ids=str)
def test_every_edition_of_the_sdks_file_works_in_every_layout_with_every_cmake(
    session: Session, tmp_path: Path, shared_cache: Path, one: Combination
) -> None:
    cmake = cmake_of(one.cmake, shared_cache)
    if isinstance(cmake, str):
        pytest.skip(f"CMake {one.cmake} cannot be had from the package index: {cmake}")
    build_combination(session, one, standin_sdk(shared_cache, one.release), cmake, tmp_path, shared_cache)


@pytest.mark.parametrize("below", [".", "23", "ohos-sdk/linux", "sdk/default/openharmony"])
def test_every_layout_builds(session: Session, tmp_path: Path, sdk: str, below: str) -> None:
    home = tmp_path / "home" / below
    home.parent.mkdir(parents=True, exist_ok=True)
    if below == ".":
        home = tmp_path / "home"
    home.symlink_to(sdk)
    toolchain: HostToolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=str(tmp_path / "home")))
    build_project(toolchain, write_project(tmp_path / "source"), tmp_path / "build")


def test_user_program_with_a_shared_library_runs(
    session: Session, tmp_path: Path, shared_cache: Path, sdk: str
) -> None:
    toolchain = choose_toolchain(session, ToolchainChoice(arch=ARM64.name, sdk=sdk))
    source, build = write_project(tmp_path / "source", CMAKE + SHARED), tmp_path / "build"
    build_project(toolchain, source, build)
    # CMake's RPATH to the build folder, which qemu sees as it is.
    assert output_of(ARM64, build / "user", root=runtime_tree("arm64", shared_cache)) == USER_OUTPUT
