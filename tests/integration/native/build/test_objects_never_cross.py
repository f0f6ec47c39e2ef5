"""One compiler cache for builds of every kind: an object is what was asked for, seen in its instructions and marks."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from core.process import RealRunner
from core.session import Session
from native.build import cache
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from tests.shared.standin_sdk import standin_sdk
from toolchains.host_toolchain import ToolchainChoice

SOURCES = {
    "part.c": """
#ifdef __ARM_FEATURE_DOTPROD
#include <arm_neon.h>
int32x4_t product(int32x4_t sum, int8x16_t a, int8x16_t b);
int32x4_t product(int32x4_t sum, int8x16_t a, int8x16_t b) { return vdotq_s32(sum, a, b); }
#endif
int part(const char *text);
int part(const char *text) { return text[0]; }
extern const int mark;
const int mark = MARK;
int counted;
int count(void);
int count(void) { return __atomic_fetch_add(&counted, 1, __ATOMIC_SEQ_CST); }
float half(float x);
float half(float x) { return x * 0.5f; }
""",
    "main.cpp": """
extern "C" int part(const char *);
int main(int count, char **) { char *text = new char[8]; text[0] = (char)count; return part(text); }
""",
    "Makefile": "prog: main.o part.o\n\t$(CXX) -o $@ main.o part.o\n"
    "part.o: part.c\n\t$(CC) $(CFLAGS) -DMARK=$(MARK) -c -o $@ part.c\n"
    "main.o: main.cpp\n\t$(CXX) $(CXXFLAGS) -c -o $@ main.cpp\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(cross C CXX)\n"
    "add_executable(prog main.cpp part.c)\ntarget_compile_definitions(prog PRIVATE MARK=${MARK})\n",
    "meson.build": "project('cross', 'c', 'cpp')\nexecutable('prog', 'main.cpp', 'part.c',\n"
    "  c_args: '-DMARK=' + get_option('MARK'))\n",
    "meson.options": "option('MARK', type: 'string', value: '0')\n",
}
ARMV8_2 = ("cortex-a55", "cortex-a76")
"""CPUs with the dot product and single-instruction atomics, by Arm's technical reference manuals; the others lack both."""
CPUS = {
    "arm32": ("generic", "cortex-a53", *ARMV8_2, "soft-float"),
    "arm64": ("generic", "cortex-a53", *ARMV8_2),
}


@dataclass(frozen=True, kw_only=True)
class Sample:
    system: str
    toolchain: str
    arch: str
    cpu: str
    stl: str
    static: bool
    build_type: str
    mark: int


def all_samples() -> list[Sample]:
    kinds = itertools.product(("make", "cmake", "meson"), ("ohos", "zig"), CPUS, ("Release", "Debug"), (4097, 12289))
    found = []
    for system, toolchain, arch, build_type, mark in kinds:
        libraries = [("c++_static", True)]
        if toolchain == "ohos":
            libraries += [("c++_static", False), ("c++_shared", False)]
        for cpu, (stl, static) in itertools.product(CPUS[arch], libraries):
            if cpu != "soft-float" or toolchain == "ohos":
                found.append(
                    Sample(
                        system=system,
                        toolchain=toolchain,
                        arch=arch,
                        cpu=cpu,
                        stl=stl,
                        static=static,
                        build_type=build_type,
                        mark=mark,
                    )
                )
    return found


@pytest.fixture
def sdk(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))
    return standin_sdk(shared_cache, "5.0.0")


def write_project(folder: Path) -> Path:
    folder.mkdir()
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    return folder


def build(session: Session, project: Path, sdk: Path, sample: Sample) -> BuildOutcome:
    choice = ToolchainChoice(
        arch=sample.arch,
        toolchain=sample.toolchain,
        sdk=str(sdk) if sample.toolchain == "ohos" else "",
        cpu=sample.cpu,
        stl=sample.stl,
        static=sample.static,
    )
    request = BuildRequest(
        choice=choice,
        source=str(project),
        system=sample.system,
        options={"MARK": str(sample.mark)},
        build_type=sample.build_type,
        jobs=1,
    )
    return ensure_built(session, request)


def look_at(sdk: Path, outcome: BuildOutcome) -> dict[str, Any]:
    """What the object of ``part.c`` and the program are, by pyelftools and llvm-objdump."""
    tree = outcome.artifact.folder / "tree"
    path = next(path for path in tree.rglob("*") if path.name in ("part.c.o", "part.o"))
    with path.open("rb") as file:
        elf = ELFFile(file)
        machine = elf["e_machine"]
        debug = elf.get_section_by_name(".debug_info") is not None
        table: Any = elf.get_section_by_name(".symtab")
        symbol = table.get_symbol_by_name("mark")[0]
        mark = int.from_bytes(elf.get_section(symbol["st_shndx"]).data()[symbol["st_value"] :][:4], "little")
        marks = {
            one.tag: one.value
            for section in elf.iter_sections()
            if section["sh_type"] == "SHT_ARM_ATTRIBUTES"
            for part in section.iter_subsections()
            for group in part.iter_subsubsections()
            for one in group.iter_attributes()
        }
    code = subprocess.run(
        [
            sdk / "native/llvm/bin/llvm-objdump",
            "-d",
            *(["--mattr=+dotprod"] if machine == "EM_ARM" else []),
            "--no-show-raw-insn",
            path,
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    with outcome.artifact.path_of(outcome.artifact.products[0]).open("rb") as file:
        program = ELFFile(file)
        section: Any = program.get_section_by_name(".dynamic")
        needed = {tag.needed for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"} if section else set()
        loaded = program.get_section_by_name(".interp") is not None
    return {
        "machine": machine,
        "debug": debug,
        "mark": mark,
        "dot": re.search(r"\t[su]dot\b|\tv[su]dot\b", code) is not None,
        "atomic": re.search(r"\tldadd", code) is not None,
        "marks": marks,
        "float code": re.search(r"\tvmul\.f32|\tfmul", code) is not None,
        "loaded": loaded,
        "c++_shared": "libc++_shared.so" in needed,
    }


def assert_is(sample: Sample, seen: Mapping[str, Any]) -> None:
    arm32, optimised = sample.arch == "arm32", sample.build_type == "Release"
    assert seen["machine"] == ("EM_ARM" if arm32 else "EM_AARCH64")
    assert seen["debug"] is not optimised
    assert seen["mark"] == sample.mark
    if not arm32:
        assert seen["atomic"] is (sample.cpu in ARMV8_2)
    if not (arm32 and sample.toolchain == "zig"):
        assert seen["dot"] is (sample.cpu in ARMV8_2)
    if arm32:
        hard = sample.toolchain == "zig"
        assert (seen["marks"].get("TAG_ABI_VFP_ARGS", 0) == 1) is hard
        assert seen["float code"] is (sample.cpu != "soft-float")
        # ARM's "Addenda to the ABI": 10 is v7, 14 is v8-A.
        assert seen["marks"]["TAG_CPU_ARCH"] == (10 if sample.cpu in ("generic", "soft-float") else 14)
    assert seen["loaded"] is not sample.static
    assert seen["c++_shared"] is (sample.stl == "c++_shared")


@pytest.mark.parametrize(
    ("program", "count"),
    [("ccache", 12), ("sccache", 6), pytest.param("ccache", 60, marks=pytest.mark.exhaustive)],
)
def test_random_builds_with_one_cache_never_get_an_object_of_another(
    program: str, count: int, session: Session, tmp_path: Path, sdk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    which, other = shutil.which, {"ccache": "sccache", "sccache": "ccache"}[program]
    monkeypatch.setattr(cache.shutil, "which", lambda name: None if name == other else which(name))
    monkeypatch.setenv(f"{program.upper()}_DIR", str(tmp_path / "objects"))
    monkeypatch.setenv("SCCACHE_SERVER_UDS", str(tmp_path / "socket"))
    project = write_project(tmp_path / "cross")
    quiet = dataclasses.replace(session, runner=RealRunner())
    try:
        for sample in random.Random(13).sample(all_samples(), count):
            outcome = build(quiet, project, sdk, sample)
            assert outcome.rebuilt
            assert_is(sample, look_at(sdk, outcome))
    finally:
        if program == "sccache":
            subprocess.run([program, "--stop-server"], check=True, capture_output=True, timeout=60)
    assert any((tmp_path / "objects").rglob("*"))
