"""What an ELF file says about itself: for whom it is, and what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import DamagedProgram

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

    from toolchains.arch import Arch

MAGIC = b"\x7fELF"
EF_ARM_ABI_FLOAT_SOFT = 0x200
EF_ARM_ABI_FLOAT_HARD = 0x400
"""Flags of "ELF for the Arm Architecture", section 4.1.1; the linkers set the first for softfp objects too."""

BAD_VALUES = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, OSError, MemoryError)
"""What the reader raises, besides its own errors, for offsets and sizes that make no sense."""


@dataclass(frozen=True, kw_only=True)
class ElfInfo:
    """One ELF file."""

    machine: str
    """``EM_AARCH64``, ``EM_ARM``, …"""
    bits: int
    type: str
    """``program``, ``library`` (a shared object without interpreter), ``object`` or ``core``."""
    interpreter: str
    """Path of the loader; empty when the kernel starts it alone."""
    needed: tuple[str, ...]
    soname: str
    float_abi: str
    """arm32 only: ``hard``, ``soft`` (which softfp is, too: the calling convention is the same), or empty."""
    stripped: bool
    stack_size: int
    """Bytes that the file asks for (``PT_GNU_STACK``); 0 leaves it to the C library, which for musl threads means 128 KiB."""
    build_id: str

    @property
    def static(self) -> bool:
        """True for a program that needs neither loader nor shared library."""
        return self.type == "program" and not self.interpreter and not self.needed


def inspect_elf(path: Path) -> ElfInfo | None:
    """Reads an ELF file; None when it is none. Raises DamagedProgram when it begins as one but cannot be read."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return None
        from elftools.common.exceptions import ELFError
        from elftools.construct import ConstructError
        from elftools.elf.elffile import ELFFile

        try:
            return _read(ELFFile(file), path.stat().st_size)
        except (ELFError, ConstructError, _CutShort, *BAD_VALUES) as why:
            raise DamagedProgram(f"{path} begins as an ELF file, but is damaged: {why}") from why


class _CutShort(Exception):
    pass


def _read(elf: ELFFile, size: int) -> ElfInfo:
    header = elf.header
    if header["e_shoff"] + header["e_shnum"] * header["e_shentsize"] > size:
        raise _CutShort("it ends before its section table")
    segments: list[Any] = list(elf.iter_segments())
    if any(segment["p_offset"] + segment["p_filesz"] > size for segment in segments):
        raise _CutShort("it ends within a segment")
    interpreter = next((s.get_interp_name() for s in segments if s["p_type"] == "PT_INTERP"), "")
    dynamic = list(_dynamic_tags(segments))
    return ElfInfo(
        machine=str(header["e_machine"]),
        bits=elf.elfclass,
        type=_type_of(str(header["e_type"]), interpreter, dynamic),
        interpreter=interpreter,
        needed=tuple(tag.needed for tag in dynamic if tag.entry.d_tag == "DT_NEEDED"),
        soname=next((tag.soname for tag in dynamic if tag.entry.d_tag == "DT_SONAME"), ""),
        float_abi=_float_abi(elf),
        stripped=elf.get_section_by_name(".symtab") is None,
        stack_size=next((s["p_memsz"] for s in segments if s["p_type"] == "PT_GNU_STACK"), 0),
        build_id=_build_id(segments),
    )


def _dynamic_tags(segments: list[Any]) -> Iterator[Any]:
    for segment in segments:
        if segment["p_type"] == "PT_DYNAMIC":
            yield from segment.iter_tags()


def _type_of(elf_type: str, interpreter: str, dynamic: list[Any]) -> str:
    """A position-independent program has the type of a shared object; the loader or the PIE flag tells them apart."""
    if elf_type == "ET_EXEC" or interpreter:
        return "program"
    if elf_type == "ET_DYN":
        df_1_pie = 0x08000000
        pie = any(tag.entry.d_tag == "DT_FLAGS_1" and tag.entry.d_val & df_1_pie for tag in dynamic)
        return "program" if pie else "library"
    return {"ET_REL": "object", "ET_CORE": "core"}.get(elf_type, elf_type)


def is_for(path: Path, arch: Arch) -> bool:
    """Whether a file is an ELF file for `arch`, by its first bytes."""
    with path.open("rb") as file:
        start = file.read(20)
    bits = {b"\1": 32, b"\2": 64}.get(start[4:5])
    machine = {"EM_ARM": 40, "EM_AARCH64": 183, "EM_X86_64": 62}[arch.elf_machine]
    return start.startswith(MAGIC) and (bits, start[18:20]) == (arch.elf_bits, machine.to_bytes(2, "little"))


def _float_abi(elf: ELFFile) -> str:
    if elf.header["e_machine"] != "EM_ARM":
        return ""
    flags = elf.header["e_flags"]
    if flags & EF_ARM_ABI_FLOAT_HARD:
        return "hard"
    return "soft" if flags & EF_ARM_ABI_FLOAT_SOFT else ""


def _build_id(segments: list[Any]) -> str:
    for segment in segments:
        if segment["p_type"] == "PT_NOTE":
            for note in segment.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    return ""
