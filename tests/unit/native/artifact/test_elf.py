"""ELF files: what is read from them, and that a damaged one is told and never a traceback."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import DamagedProgram, UnfitProduct
from native.artifact.elf import inspect_elf
from native.build.products import check_fitness
from native.recipe.recipe import ProductSpec
from tests.support.build_parts import make_toolchain
from tests.support.tiny_elf import write_arm32, write_arm64, write_dynamic
from toolchains.arch import ARM32, ARM64, X86_64, Arch

PROGRAM = ProductSpec(name="hello", path="hello", target="hello", kind="program")
LIBRARY = ProductSpec(name="libhello", path="libhello.so", target="hello", kind="library")
HARD_FLOAT = 0x5000400


def set_arm_flags(path: Path, flags: int) -> Path:
    """Writes ``e_flags``, which stand at byte 36 of a 32-bit file."""
    content = bytearray(path.read_bytes())
    content[36:40] = struct.pack("<I", flags)
    path.write_bytes(content)
    return path


def test_a_static_arm64_program_is_seen_as_such(tmp_path: Path) -> None:
    info = inspect_elf(write_arm64(tmp_path / "a", b"hi"))
    assert info is not None
    assert (info.machine, info.bits, info.type) == ("EM_AARCH64", 64, "program")
    assert (info.interpreter, info.needed, info.static, info.stripped) == ("", (), True, True)
    assert info.float_abi == ""


def test_a_program_with_a_loader_is_not_static(tmp_path: Path) -> None:
    info = inspect_elf(write_dynamic(tmp_path / "a", "/lib/ld-musl-aarch64.so.1"))
    assert info is not None
    assert info.interpreter == "/lib/ld-musl-aarch64.so.1"
    assert not info.static


@pytest.mark.parametrize(("flags", "float_abi"), [(0x5000200, "soft"), (0x5000400, "hard"), (0x5000000, "")])
def test_the_float_abi_of_arm32_is_in_the_flags(flags: int, float_abi: str, tmp_path: Path) -> None:
    info = inspect_elf(set_arm_flags(write_arm32(tmp_path / "a", b"hi"), flags))
    assert info is not None
    assert info.float_abi == float_abi


@pytest.mark.parametrize("content", [b"", b"\x7f", b"\x7fEL", b"#!/bin/sh\n", b"GGUF" * 100])
def test_a_file_that_is_no_elf_is_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    assert inspect_elf(path) is None


def test_every_cut_of_a_program_is_told_as_damage(tmp_path: Path) -> None:
    whole = write_dynamic(tmp_path / "whole", "/lib/ld-musl-aarch64.so.1").read_bytes()
    path = tmp_path / "cut"
    for length in range(4, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedProgram, match="cut"):
            inspect_elf(path)


@settings(max_examples=300)
@given(changes=st.lists(st.tuples(st.integers(4, 250), st.integers(0, 255)), min_size=1, max_size=12))
def test_damaged_headers_never_raise_anything_else(changes: list[tuple[int, int]], tmp_path: Path) -> None:
    content = bytearray(write_dynamic(tmp_path / "whole", "/lib/ld-musl-aarch64.so.1").read_bytes())
    for offset, value in changes:
        content[offset % len(content)] = value
    content[:4] = b"\x7fELF"
    path = tmp_path / "damaged"
    path.write_bytes(content)
    try:
        info = inspect_elf(path)
    except DamagedProgram as error:
        assert str(path) in error.message
    else:
        assert info is not None


@pytest.mark.parametrize(
    ("built_for", "asked_for", "message"),
    [
        (ARM32, ARM64, r"EM_ARM \(32 bits\), not for arm64"),
        (ARM64, ARM32, r"EM_AARCH64 \(64 bits\), not for arm32"),
        (ARM64, X86_64, "not for x86_64"),
    ],
)
def test_a_program_for_another_arch_is_refused(built_for: Arch, asked_for: Arch, message: str, tmp_path: Path) -> None:
    write = {"arm32": write_arm32, "arm64": write_arm64}[built_for.name]
    info = inspect_elf(write(tmp_path / "a", b"hi"))
    check_fitness(PROGRAM, info, make_toolchain(built_for))
    with pytest.raises(UnfitProduct, match=message):
        check_fitness(PROGRAM, info, make_toolchain(asked_for))


def test_a_script_is_no_program_but_may_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(UnfitProduct, match="not an ELF file"):
        check_fitness(PROGRAM, None, make_toolchain())
    check_fitness(ProductSpec(name="notes", path="notes", target="notes", kind="file"), None, make_toolchain())


def test_hard_float_is_allowed_in_static_programs_only(tmp_path: Path) -> None:
    static = inspect_elf(set_arm_flags(write_arm32(tmp_path / "a", b"hi"), HARD_FLOAT))
    assert static is not None
    check_fitness(PROGRAM, static, make_toolchain(ARM32))
    with_loader = dataclasses.replace(static, interpreter=ARM32.loader)
    library = dataclasses.replace(static, type="library")
    for spec, info in ((PROGRAM, with_loader), (LIBRARY, library)):
        with pytest.raises(UnfitProduct, match="hard float"):
            check_fitness(spec, info, make_toolchain(ARM32, name="ohos", static=False))
        soft = dataclasses.replace(info, float_abi="soft")
        check_fitness(spec, soft, make_toolchain(ARM32, name="ohos", static=False))


def test_a_dynamic_program_of_a_toolchain_that_links_statically_is_refused(tmp_path: Path) -> None:
    """zig makes one of a program whose library is a shared one, for a C library that is not the board's."""
    static = inspect_elf(write_arm64(tmp_path / "a", b"hi"))
    assert static is not None
    dynamic = dataclasses.replace(static, interpreter=ARM64.loader, needed=("libpart.so", "libc.so"))
    with pytest.raises(UnfitProduct, match=r"needs libpart\.so, libc\.so.* links statically") as caught:
        check_fitness(PROGRAM, dynamic, make_toolchain(ARM64))
    assert "--toolchain ohos" in (caught.value.remedy or "")
    check_fitness(PROGRAM, dynamic, make_toolchain(ARM64, static=False))


def test_a_loader_that_the_board_lacks_is_refused(tmp_path: Path) -> None:
    info = inspect_elf(write_dynamic(tmp_path / "a", "/lib64/ld-linux-aarch64.so.1"))
    with pytest.raises(
        UnfitProduct, match=r"ld-linux-aarch64\.so\.1; OpenHarmony on arm64 has /lib/ld-musl-aarch64\.so\.1"
    ):
        check_fitness(PROGRAM, info, make_toolchain(static=False))
