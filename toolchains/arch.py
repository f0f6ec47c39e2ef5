"""The arches that ohforge builds for, and what each is called by the tools around it."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from core.errors import HostUnsupported, unknown_name


@dataclass(frozen=True, kw_only=True)
class Arch:
    """One arch. Names as the SDK's toolchain file, clang, zig, ELF (``e_machine``) and qemu use them."""

    name: str
    ohos_arch: str
    ohos_triple: str
    zig_triple: str
    cmake_processor: str
    elf_machine: str
    elf_bits: int
    loader: str
    """Interpreter of dynamic programs in OpenHarmony."""
    qemu: str
    uname_machines: tuple[str, ...]


ARM32 = Arch(
    name="arm32",
    ohos_arch="armeabi-v7a",
    ohos_triple="arm-linux-ohos",
    zig_triple="arm-linux-musleabihf",
    cmake_processor="armv7l",
    elf_machine="EM_ARM",
    elf_bits=32,
    loader="/lib/ld-musl-arm.so.1",
    qemu="qemu-arm-static",
    uname_machines=("armv7l", "armv8l"),
)
ARM64 = Arch(
    name="arm64",
    ohos_arch="arm64-v8a",
    ohos_triple="aarch64-linux-ohos",
    zig_triple="aarch64-linux-musl",
    cmake_processor="aarch64",
    elf_machine="EM_AARCH64",
    elf_bits=64,
    loader="/lib/ld-musl-aarch64.so.1",
    qemu="qemu-aarch64-static",
    uname_machines=("aarch64",),
)
X86_64 = Arch(
    name="x86_64",
    ohos_arch="x86_64",
    ohos_triple="x86_64-linux-ohos",
    zig_triple="x86_64-linux-musl",
    cmake_processor="x86_64",
    elf_machine="EM_X86_64",
    elf_bits=64,
    loader="/lib/ld-musl-x86_64.so.1",
    qemu="",
    uname_machines=("x86_64",),
)
ARCHES: dict[str, Arch] = {arch.name: arch for arch in (ARM32, ARM64, X86_64)}
ALIASES = {
    "armeabi-v7a": "arm32",
    "arm": "arm32",
    "armv7": "arm32",
    "arm64-v8a": "arm64",
    "aarch64": "arm64",
    "amd64": "x86_64",
}


def find_arch(name: str) -> Arch:
    """The arch of that name (or usual other name); raises UnknownName with the nearest."""
    found = ARCHES.get(ALIASES.get(name, name))
    if found is None:
        raise unknown_name("arch", name, ARCHES)
    return found


def find_host_arch() -> Arch:
    """The arch of this computer; raises HostUnsupported when it is none that ohforge builds for."""
    machine = platform.machine()
    for arch in ARCHES.values():
        if machine in arch.uname_machines:
            return arch
    raise HostUnsupported(
        f"This computer is {machine or 'of an unknown kind'}, for which ohforge builds nothing; it knows {', '.join(ARCHES)}.",
        remedy="Use another computer.",
    )
