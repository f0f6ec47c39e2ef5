"""The reference runtimes as shared libraries: names and functions of each API level, no more and no fewer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from core.files import sha256_folder, sha256_json
from tests.shared.reference_runtime import RUNTIME, compile_with
from tests.support.nnrt_runtime import host_compilers, program_sources
from tests.support.sdk_symbols import LITE_IMPORTS, exported_functions, imported_functions, nnrt_libraries

TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
LIBRARIES = {
    9: {"libmindspore-lite.huawei.so": 48, "libneural_network_runtime.z.so": 31},
    10: {"libmindspore_lite_ndk.so": 63, "libneural_network_runtime.so": 31},
    # Of the 82 functions of MindSpore Lite the 19 for training are not there.
    11: {
        "libmindspore_lite_ndk.so": 82 - 19,
        "libneural_network_core.so": 50,
        "libneural_network_runtime.so": 25,
    },
}
"""API level → library → number of functions, as counted in the SDKs' stubs."""


@pytest.fixture(scope="module", params=sorted(LIBRARIES))
def built(request: pytest.FixtureRequest, shared_cache: Path) -> tuple[int, Path]:
    level = int(request.param)
    return level, build_libraries(shared_cache, level)


def build_libraries(cache: Path, level: int) -> Path:
    # CMake's tree belongs to one source folder, and the cache to every clone on this machine.
    key = sha256_json([str(RUNTIME), sha256_folder(RUNTIME)])
    folder = cache / f"reference-{level}-{key[:16]}"
    cc, cxx = host_compilers()
    environment = {**os.environ, "PATH": TOOLS, "CC": " ".join(cc), "CXX": " ".join(cxx)}
    configure = ["cmake", "-S", RUNTIME, "-B", folder, "-G", "Ninja", "-DOHFORGE_REFERENCE_SHARED=ON"]
    for words in ([*configure, f"-DOHFORGE_API_LEVEL={level}"], ["ninja", "-C", folder]):
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


def functions(library: Path) -> set[str]:
    with library.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        return {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"}


def test_names_and_numbers_of_functions_are_those_of_the_sdk(built: tuple[int, Path]) -> None:
    level, folder = built
    found = {path.name: functions(path) for path in folder.glob("*.so")}
    assert {
        name: len([function for function in names if function.startswith("OH_")]) for name, names in found.items()
    } == LIBRARIES[level]
    # Beside those only the mark that tells them from the real libraries.
    for names in found.values():
        assert len([name for name in names if not name.startswith("OH_")]) == 1
        assert any(name.startswith("ohforge_reference_") for name in names)


def test_nnrts_functions_are_those_of_the_level_and_divided_as_in_the_sdk(built: tuple[int, Path]) -> None:
    level, folder = built
    assert {path.name: exported_functions(path) for path in folder.glob("libneural*.so")} == nnrt_libraries(level)


def test_every_function_that_mslite_calls_is_there(built: tuple[int, Path]) -> None:
    level, folder = built
    [library] = folder.glob("libmindspore*.so")
    assert LITE_IMPORTS[min(level, 10)] <= exported_functions(library)
    assert level >= 10 or not (LITE_IMPORTS[10] - LITE_IMPORTS[9]) & exported_functions(library)


def test_the_library_is_called_what_its_file_is(built: tuple[int, Path]) -> None:
    _, folder = built
    for path in folder.glob("*.so"):
        with path.open("rb") as file:
            tags = list(ELFFile(file).get_section_by_name(".dynamic").iter_tags("DT_SONAME"))
        assert [tag.soname for tag in tags] == [path.name]


def test_a_program_of_another_level_does_not_link(built: tuple[int, Path], shared_cache: Path, tmp_path: Path) -> None:
    level, folder = built
    _, cxx = host_compilers()
    libraries = list(folder.glob("libneural*.so"))
    for style in (9, 12):
        flags = ["-std=c++17", "-r", f"-DOHFORGE_API_LEVEL={style}"]
        whole = compile_with(cxx, shared_cache, f"nnrt-{style}.o", program_sources(style), flags)
        linked = subprocess.run(
            [*cxx, whole, *libraries, "-o", tmp_path / "nnrt"], capture_output=True, text=True, timeout=300
        )
        # The old functions are still there at level 11; the new ones are not at level 9.
        assert (linked.returncode == 0) == (style == 9 or level >= 11), linked.stderr
        if style == 12 and level < 11:
            assert "OH_NNTensorDesc_Create" in linked.stderr


def test_a_program_runs_over_the_pair_of_libraries(built: tuple[int, Path], shared_cache: Path, tmp_path: Path) -> None:
    level, folder = built
    _, cxx = host_compilers()
    style = 12 if level >= 11 else 9
    flags = ["-std=c++17", "-r", f"-DOHFORGE_API_LEVEL={style}"]
    whole = compile_with(cxx, shared_cache, f"nnrt-{style}.o", program_sources(style), flags)
    program = tmp_path / "nnrt"
    libraries = sorted(folder.glob("libneural*.so"), reverse=True)
    subprocess.run([*cxx, whole, *libraries, f"-Wl,-rpath,{folder}", "-o", program], check=True, timeout=300)
    done = subprocess.run(
        [program], env={**os.environ, "OHFORGE_NNRT_DEVICES": "1"}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "engine: ohforge reference runtime" in done.stdout
    assert "check: 12 values, largest difference 0" in done.stdout


@pytest.mark.parametrize("level", sorted(LITE_IMPORTS))
def test_mslite_imports_what_its_api_level_has_and_nothing_else(level: int, shared_cache: Path) -> None:
    cc, _ = host_compilers()
    flags = ["-std=gnu11", "-r", f"-DOHFORGE_API_LEVEL={level}"]
    sources = sorted((RUNTIME.parent / "mslite" / "src").glob("*.c"))
    assert (
        imported_functions(compile_with(cc, shared_cache, f"mslite-{level}.o", sources, flags)) == LITE_IMPORTS[level]
    )
