"""CPU tunings: the file is sound, and names that do not fit are refused with those that do."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InvalidData, TuningNotForArch, UnknownName
from toolchains.arch import ARCHES, ARM32, ARM64, X86_64
from toolchains.tuning import TUNING_FILE, Tuning, find_tuning, read_tunings


def test_every_arch_has_a_generic_tuning_and_no_name_means_it() -> None:
    for arch in ARCHES.values():
        assert find_tuning("", arch).name == "generic"
        assert find_tuning("", arch).arch == arch


def test_the_tunings_that_the_documentation_names_exist() -> None:
    for name in ("cortex-a53", "cortex-a55", "cortex-a72", "cortex-a76"):
        assert find_tuning(name, ARM64).clang
        assert find_tuning(name, ARM32).clang
    assert find_tuning("cortex-a7", ARM32).zig == "cortex_a7"


def test_generic_arm32_has_half_precision_conversions_because_plain_neon_does_not_build_llama() -> None:
    assert "-mfpu=neon-vfpv4" in find_tuning("generic", ARM32).clang


def all_tunings() -> list[Tuning]:
    return [one for arches in read_tunings(TUNING_FILE).values() for one in arches.values()]


def test_no_tuning_sets_the_cpu_that_sends_clang_to_another_library_folder() -> None:
    assert all("-mcpu=cortex-a7" not in tuning.clang for tuning in all_tunings())


def test_no_tuning_sets_the_float_abi() -> None:
    assert not [flag for tuning in all_tunings() for flag in tuning.clang if "float-abi" in flag]


def test_only_the_one_for_comparisons_is_without_floating_point_instructions() -> None:
    soft = [tuning for tuning in all_tunings() if tuning.soft_float]
    assert [(tuning.name, tuning.arch, tuning.clang, tuning.zig) for tuning in soft] == [
        ("soft-float", ARM32, ("-march=armv7a",), "")
    ]


def test_the_tuning_of_the_rk3568_needs_only_what_its_cpuinfo_lists() -> None:
    line = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
    rk3568 = line.split()
    assert set(find_tuning("cortex-a55", ARM64).cpuinfo) <= set(rk3568)


def test_an_unknown_tuning_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean 'cortex-a55'"):
        find_tuning("cortexa55", ARM64)


def test_a_tuning_of_another_arch_is_answered_with_those_of_this_one() -> None:
    with pytest.raises(TuningNotForArch, match=r"'cortex-a7' is not for arm64; arm64 has: generic, .*cortex-a55"):
        find_tuning("cortex-a7", ARM64)
    with pytest.raises(TuningNotForArch, match="x86_64 has: generic, x86-64-v3"):
        find_tuning("cortex-a55", X86_64)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "cortex-x1: {title: a, arm64: {zig: cortex_x1, clang: [-mcpu=cortex-x1]}}",
            "line 1: the file lacks generic",
        ),
        ("generic: {title: a, arm64: {zig: cortex-a55, clang: ['-mcpu=a; rm -rf /']}}", r"generic.arm64.clang\[0\]"),
        ("generic: {title: a, arm64: {zig: 'Big', clang: [-mcpu=a]}}", "generic.arm64.zig"),
        ("generic: {title: a, arm32: {clang: [-mcpu=a]}}", "generic.arm32"),
        ("generic: {title: a, arm32: {clang: [-mcpu=a], float: hard}}", "generic.arm32.float"),
        ("generic: {title: a, riscv: {zig: a, clang: [-mcpu=a]}}", "riscv"),
        ("generic: {title: a}", "generic"),
        ("[]", "the file"),
    ],
)
def test_a_tuning_file_of_the_wrong_form_is_refused_by_entry(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "tuning.yaml"
    file.write_text(text)
    with pytest.raises(InvalidData, match=complaint):
        read_tunings(file)


def test_the_shipped_file_is_read_once() -> None:
    assert read_tunings(TUNING_FILE) is read_tunings(TUNING_FILE)
