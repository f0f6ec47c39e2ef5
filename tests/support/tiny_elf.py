"""The smallest programs for ARM, as machine code written by hand: print a text, then exit or crash.

Instructions are encoded after the Arm Architecture Reference Manuals (A64: C6.2, A32: A8.8), the file header after the
System V ABI. No compiler is needed, so tests that only need "a program of that arch" start at once.
"""

from __future__ import annotations

import struct
from pathlib import Path

BASE = 0x10000


def write_arm64(path: Path, text: bytes, *, status: int = 0, crash: bool = False, spin: bool = False) -> Path:
    """A static arm64 program that writes `text` and exits with `status`, reads address 0, or never ends."""
    code = [
        0xD2800020,  # mov x0, #1
        0,  # adr x1, text
        0xD2800002 | (len(text) << 5),  # mov x2, #length
        0xD2800808,  # mov x8, #64 (write)
        0xD4000001,  # svc #0
    ]
    if spin:
        code += [0x14000000]  # b .
    if crash:
        code += [0xD2800001, 0xF9400020]  # mov x1, #0; ldr x0, [x1]
    code += [0xD2800000 | (status << 5), 0xD2800BA8, 0xD4000001]  # mov x0, #status; mov x8, #93 (exit); svc #0
    offset = (len(code) - 1) * 4  # from the adr to the text, which follows the code
    code[1] = 0x10000001 | ((offset & 3) << 29) | ((offset >> 2) << 5)
    return _write(path, b"".join(struct.pack("<I", word) for word in code) + text, machine=183, bits=64)


def write_arm32(path: Path, text: bytes, *, status: int = 0, crash: bool = False) -> Path:
    """A static arm32 program (EABI, Linux system calls) that writes `text` and exits with `status` or reads address 0."""
    code = [
        0xE3A00001,  # mov r0, #1
        0,  # add r1, pc, #offset
        0xE3A02000 | len(text),  # mov r2, #length
        0xE3A07004,  # mov r7, #4 (write)
        0xEF000000,  # svc 0
    ]
    if crash:
        code += [0xE3A01000, 0xE5910000]  # mov r1, #0; ldr r0, [r1]
    code += [0xE3A00000 | status, 0xE3A07001, 0xEF000000]  # mov r0, #status; mov r7, #1 (exit); svc 0
    code[1] = 0xE28F1000 | ((len(code) - 1) * 4 - 8)  # pc reads as the instruction's address + 8
    return _write(path, b"".join(struct.pack("<I", word) for word in code) + text, machine=40, bits=32)


def write_dynamic(path: Path, interpreter: str, *, machine: int = 183) -> Path:
    """An arm64 program that asks for a loader; good for looking at, not for running."""
    return _write(path, b"\0" * 16, machine=machine, bits=64, interpreter=interpreter.encode() + b"\0")


def _write(path: Path, content: bytes, *, machine: int, bits: int, interpreter: bytes = b"") -> Path:
    header_size, entry_size = (64, 56) if bits == 64 else (52, 32)
    segments = 2 if interpreter else 1
    start = header_size + segments * entry_size
    content = interpreter + content
    size = start + len(content)
    flags = 0x5000200 if bits == 32 else 0  # EABI version 5, soft float
    identity = b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9)
    word = "Q" if bits == 64 else "I"
    entry = BASE + start + len(interpreter)
    header = identity + struct.pack(
        f"<HHI{word}{word}{word}IHHHHHH",
        2,
        machine,
        1,
        entry,
        header_size,
        0,
        flags,
        header_size,
        entry_size,
        segments,
        0,
        0,
        0,
    )
    table = _segment(1, 5, 0, BASE, size, bits)
    if interpreter:
        table = _segment(3, 4, start, BASE + start, len(interpreter), bits) + table
    path.write_bytes(header + table + content)
    path.chmod(0o755)
    return path


def _segment(kind: int, flags: int, offset: int, address: int, size: int, bits: int) -> bytes:
    if bits == 64:
        return struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size, 0x10000)
    return struct.pack("<IIIIIIII", kind, offset, address, address, size, size, flags, 0x10000)
