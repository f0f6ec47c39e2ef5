"""The stand-in SDK compiles with its own toolchain file, and what it compiles runs under qemu.

The second half holds the stand-in to the weak points that published SDKs have: without them it would prove less.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.process import RealRunner, Result
from core.session import PROJECT
from core.testing import FakeRunner
from deploy.emulator.board.boards import create_board, stop_board
from tests.shared.standin_sdk import Release, board_libraries, make_release, runtime_tree, standin_sdk, tiny_tree
from toolchains.arch import ARCHES, Arch

PROBE = PROJECT / "tests/data/standin_sdk"
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


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one C program that a test may rewrite."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(one C)\nadd_executable(one one.c)\n"
    )
    (folder / "one.c").write_text("int main(void) { return 0; }\n")
    return folder


def add_line(project: Path, line: str) -> None:
    with (project / "CMakeLists.txt").open("a") as file:
        file.write(line)


def cached(build: Path, name: str) -> str:
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found[1] if found else ""


def compile_c(tree: Path, text: str, tmp_path: Path, *flags: str) -> Result:
    source = tmp_path / "piece.c"
    source.write_text(text)
    sysroot = f"--sysroot={tree}/native/sysroot"
    return run(
        tree / "native/llvm/bin/clang", sysroot, "-D_GNU_SOURCE", *flags, "-c", source, "-o", tmp_path / "piece.o"
    )


@pytest.mark.parametrize(
    ("version", "counts"), [("5.0.0", [0, 0, 0]), ("6.1", [0, 0, 0]), ("7.0", [1, 2, 3])], ids=["5.0.0", "6.1", "7.0"]
)
def test_linker_flags_grow_with_each_configure_only_from_7_0_on(
    shared_cache: Path, project: Path, tmp_path: Path, version: str, counts: list[int]
) -> None:
    tree, build = standin_sdk(shared_cache, version), tmp_path / "build"
    found = []
    for _ in range(3):
        assert configure(tree, project, build).ok
        found.append(cached(build, "CMAKE_EXE_LINKER_FLAGS").count("-lunwind"))
    assert found == counts


PUBLISHED_COMPILE = (
    "-fdata-sections -ffunction-sections -funwind-tables -fstack-protector-strong -no-canonical-prefixes -fno-addrsig"
    " -Wa,--noexecstack -Wformat -Werror=format-security"
)
PUBLISHED_LINK = (
    "--rtlib=compiler-rt -fuse-ld=lld -static-libstdc++ -Wl,--build-id=sha1 -Wl,--warn-shared-textrel"
    " -Wl,--fatal-warnings -lunwind -Wl,--no-undefined -Qunused-arguments -Wl,-z,noexecstack -Wl,--gc-sections"
)


@pytest.mark.parametrize(
    ("arch", "own"),
    [("arm64-v8a", " -DUSER -D__MUSL__ -O2 -DNDEBUG"), ("armeabi-v7a", " -march=armv7a -DUSER -D__MUSL__")],
)
def test_command_lines_are_the_published_ones_in_order(
    sdk: Path, project: Path, tmp_path: Path, arch: str, own: str
) -> None:
    build = tmp_path / "build"
    options = ["-DCMAKE_C_FLAGS=-DUSER", "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-O1", "-DOHOS_STL=c++_static"]
    assert configure(sdk, project, build, f"-DOHOS_ARCH={arch}", *options).ok
    lines = re.sub(r" +", " ", run("cmake", "--build", build, "--verbose").text)
    assert PUBLISHED_COMPILE + own in lines
    assert PUBLISHED_LINK + " -Wl,-O1" in lines


@pytest.mark.parametrize(
    ("version", "option", "flag", "there"),
    [
        ("3.2", "OHOS_ENABLE_ASAN=ON", "-fsanitize=address", True),
        ("3.2", "OHOS_ENABLE_ASAN=1", "-fsanitize=address", False),
        ("4.0", "OHOS_ENABLE_HWASAN=ON", "-fsanitize=hwaddress", False),
        ("4.1", "OHOS_ENABLE_HWASAN=ON", "-fsanitize=hwaddress", True),
        ("4.1", "OHOS_ENABLE_TSAN=ON", "-fsanitize=thread", False),
        ("5.0.0", "OHOS_ENABLE_TSAN=ON", "-fsanitize=thread", True),
        ("5.0.0", "OHOS_ENABLE_UBSAN=ON", "-fsanitize=undefined", False),
        ("5.1.0", "OHOS_ENABLE_UBSAN=1", "-fsanitize=undefined", True),
        ("6.0", "OHOS_COMPATIBLE_SDK_VERSION=20", "-Wunguarded-availability", False),
        ("6.1", "OHOS_COMPATIBLE_SDK_VERSION=", "-Wunguarded-availability", False),
        ("7.0", "OHOS_COMPATIBLE_SDK_VERSION=", "-Wunguarded-availability", True),
        ("5.0.0", "OHOS_PLATFORM=anything", "anything", False),
    ],
)
def test_editions_differ_in_the_switches_that_they_know(
    project: Path, tmp_path: Path, version: str, option: str, flag: str, there: bool
) -> None:
    tree, build = tiny_tree(tmp_path / "tree", version), tmp_path / "build"
    # The tiny tree's compiler compiles nothing, so CMake is told what it would have found out.
    known = ["-DCMAKE_C_COMPILER_FORCED=TRUE", "-DCMAKE_C_COMPILER_ID=Clang", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    configured = configure(tree, project, build, f"-D{option}", *known)
    assert configured.ok, configured.last_lines(30)
    assert (flag in (build / "compile_commands.json").read_text()) is there


def test_arm32_is_soft_float_unless_more_is_asked_for(sdk: Path, tmp_path: Path) -> None:
    neon = "#include <arm_neon.h>\nfloat32x4_t twice(float32x4_t v) { return vaddq_f32(v, v); }\n"
    default = ["--target=arm-linux-ohos", "-march=armv7a"]
    refused = compile_c(sdk, neon, tmp_path, *default)
    assert "NEON intrinsics not available with the soft-float ABI" in refused.error_text
    assert compile_c(sdk, neon, tmp_path, *default, "-mfloat-abi=softfp", "-mfpu=neon-vfpv4").ok


def test_hard_float_in_the_link_shows_in_the_elf_flags_and_in_a_wrong_sine(
    sdk: Path, shared_cache: Path, tmp_path: Path
) -> None:
    hard = ["-DCMAKE_C_FLAGS=-mfloat-abi=hard -mfpu=neon-vfpv4", "-DCMAKE_EXE_LINKER_FLAGS=-static"]
    configured = configure(sdk, PROBE, tmp_path, "-DOHOS_ARCH=armeabi-v7a", "-DOHOS_STL=c++_static", *hard)
    assert configured.ok, configured.last_lines(40)
    built = run("cmake", "--build", tmp_path, "--target", "probe_c")
    assert built.ok, built.last_lines(40)
    assert "0x5000400" in readelf(sdk, "-h", tmp_path / "probe_c")
    assert emulate(shared_cache, ARCHES["arm32"], tmp_path / "probe_c", "1").text != "0.841471\n"


def test_external_toolchain_is_an_error_under_werror(sdk: Path, project: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    # The compiler check itself has no -Werror; the project's own objects have.
    add_line(project, "target_compile_options(one PRIVATE -Werror)\n")
    assert configure(sdk, project, build).ok
    assert "argument unused during compilation: '--gcc-toolchain=" in run("cmake", "--build", build).text


@pytest.mark.parametrize(("option", "fails"), [("OFF", True), ("ON", False)])
def test_no_undefined_means_its_opposite(sdk: Path, project: Path, tmp_path: Path, option: str, fails: bool) -> None:
    build = tmp_path / "build"
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(one C)\nadd_library(one SHARED one.c)\n"
    )
    (project / "one.c").write_text("int elsewhere(void);\nint here(void) { return elsewhere(); }\n")
    assert configure(sdk, project, build, f"-DOHOS_NO_UNDEFINED={option}").ok
    built = run("cmake", "--build", build)
    assert ("undefined symbol: elsewhere" in built.text) is fails
    assert built.ok is not fails


def test_a_prefix_is_found_only_through_the_root_path(sdk: Path, project: Path, tmp_path: Path) -> None:
    config = tmp_path / "prefix/lib/cmake/thing/thing-config.cmake"
    config.parent.mkdir(parents=True)
    config.write_text("set(thing_FOUND TRUE)\n")
    add_line(project, 'find_package(thing)\nmessage(STATUS "thing: ${thing_FOUND}")\n')
    prefix = tmp_path / "prefix"
    hidden = configure(sdk, project, tmp_path / "a", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert "thing: 0" in hidden.text
    assert "thing: 1" in configure(sdk, project, tmp_path / "b", f"-DCMAKE_FIND_ROOT_PATH={prefix}").text


@pytest.mark.parametrize(
    ("option", "message"),
    [("-DOHOS_ARCH=aarch64", "unrecognized aarch64"), ("-DOHOS_STL=gnu", "Unsupported STL configuration: gnu.")],
)
def test_unknown_options_stop_the_configure(
    sdk: Path, project: Path, tmp_path: Path, option: str, message: str
) -> None:
    configured = configure(sdk, project, tmp_path / "build", option)
    assert not configured.ok
    assert message in configured.error_text


@pytest.mark.parametrize("value", ["20", "6.0.0(20)", "20.0.0"])
def test_a_compatible_version_becomes_part_of_the_triple_from_6_1_on(
    shared_cache: Path, project: Path, tmp_path: Path, value: str
) -> None:
    build = tmp_path / "build"
    tree = standin_sdk(shared_cache, "6.1")
    configured = configure(tree, project, build, f"-DOHOS_COMPATIBLE_SDK_VERSION={value}")
    assert configured.ok, configured.last_lines(30)
    built = run("cmake", "--build", build, "--verbose")
    assert built.ok, built.last_lines(30)
    assert "--target=aarch64-linux-ohos20.0.0" in built.text
    assert "-ldeviceinfo_ndk.z" in built.text


@pytest.mark.parametrize(
    "call",
    [
        "#include <pthread.h>\n#include <sched.h>\nint f(cpu_set_t *s) { return pthread_setaffinity_np(pthread_self(), 1, s); }",
        "#include <spawn.h>\nint f(posix_spawn_file_actions_t *a) { return posix_spawn_file_actions_addchdir_np(a, 0); }",
    ],
)
def test_functions_that_openharmony_lacks_are_not_declared(sdk: Path, tmp_path: Path, call: str) -> None:
    result = compile_c(sdk, call, tmp_path, "--target=aarch64-linux-ohos")
    assert "call to undeclared function" in result.error_text


@pytest.mark.parametrize("arch", ["arm32", "arm64"])
def test_cxx_names_carry_the_sdks_inline_namespace(sdk: Path, arch: str) -> None:
    library = sdk / "native/llvm/lib" / ARCHES[arch].ohos_triple / "libc++_shared.so"
    names = run(sdk / "native/llvm/bin/llvm-nm", "-D", "--defined-only", "-C", library).text
    assert "std::__n1::basic_string<char" in names
    assert "std::__1::" not in names
    assert f"soname: [{library.name}]" in readelf(sdk, "-d", library)


@pytest.mark.parametrize("arch", ["arm32", "arm64"])
def test_a_program_logs_through_the_ndk_library(
    sdk: Path, shared_cache: Path, project: Path, tmp_path: Path, arch: str
) -> None:
    target, build = ARCHES[arch], tmp_path / "build"
    add_line(project, "target_link_libraries(one hilog_ndk.z)\n")
    (project / "one.c").write_text(
        '#define LOG_TAG "probe"\n#include <hilog/log.h>\n'
        'int main(void) { OH_LOG_WARN(LOG_APP, "%{public}d of %{private}s", 3, "five"); return 0; }\n'
    )
    assert configure(sdk, project, build, f"-DOHOS_ARCH={target.ohos_arch}").ok
    built = run("cmake", "--build", build)
    assert built.ok, built.last_lines(30)
    libraries = sdk / "native/sysroot/usr/lib" / target.ohos_triple
    logged = emulate(shared_cache, target, "-E", f"LD_LIBRARY_PATH={libraries}", build / "one")
    assert logged.error_text == "W A00000/probe: 3 of five\n"


def test_hdc_tells_the_version_of_its_release(shared_cache: Path) -> None:
    for version, said in (("5.0.0", "Ver: 3.1.0b\n"), ("7.0", "Ver: 3.2.0f\n")):
        assert run(standin_sdk(shared_cache, version) / "toolchains/hdc", "-v").text == said


def test_the_tree_works_wherever_it_is_unpacked(sdk: Path, project: Path, tmp_path: Path) -> None:
    release = make_release(tmp_path / "packed", "5.0.0", tree=sdk)
    unpacked = tmp_path / "else where"
    unpack(release, unpacked)
    configured = configure(unpacked, project, tmp_path / "build")
    assert configured.ok, configured.last_lines(30)
    built = run("cmake", "--build", tmp_path / "build")
    assert built.ok, built.last_lines(30)


@pytest.mark.parametrize(("arch", "profile"), [("arm32", "dayu200"), ("arm64", "dayu200-arm64")])
def test_dynamic_programs_run_on_the_emulated_board_through_the_sdks_hdc(
    sdk: Path, shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str, profile: str
) -> None:
    target, here = ARCHES[arch], "/data/local/tmp"
    build_probe(sdk, tmp_path / "build", target, *LINKAGES["c++_shared"])
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(tmp_path / "boards"))
    libraries = {arch: str(board_libraries(arch, shared_cache))}
    board = create_board(f"emulated-{profile}", profile=profile, libraries=libraries)
    hdc: list[str | Path] = [sdk / "toolchains/hdc", "-t", board.serial]
    try:
        sent = run(*hdc, "file", "send", tmp_path / "build/probe_cxx", f"{here}/probe_cxx")
        assert "FileTransfer finish" in sent.text, sent.text
        # The board's C++ library is found where OpenHarmony has it only by the loader's configuration, which is not ours.
        path = f"LD_LIBRARY_PATH=/system/{'lib' if arch == 'arm32' else 'lib64'}"
        said = run(*hdc, "shell", f"cd {here}; chmod 755 probe_cxx; {path} ./probe_cxx {here} 1; echo status $?")
    finally:
        stop_board(board)
    lines = said.text.split()
    assert "170" in lines, said.text
    assert lines[-4:] == ["sin", "0.841471", "status", "0"], said.text


def test_a_second_call_runs_no_program(sdk: Path, shared_cache: Path) -> None:
    asked = FakeRunner(answers=[(("dpkg", "--print-architecture"), run("dpkg", "--print-architecture"))])
    assert standin_sdk(shared_cache, "5.0.0", asked) == sdk
    assert len(asked.calls) == 1


def unpack(release: Release, target: Path) -> None:
    """Unpacks a component with restored modes and links, which Python's zipfile loses."""
    for zipped in (release.components["native"], release.components["toolchains"]):
        with zipfile.ZipFile(zipped) as archive:
            for entry in archive.infolist():
                mode, path = entry.external_attr >> 16, target / entry.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                if stat.S_ISLNK(mode):
                    path.symlink_to(archive.read(entry).decode())
                else:
                    path.write_bytes(archive.read(entry))
                    path.chmod(mode)
