"""Where the files of the Debian packages go in an SDK-shaped ``native`` folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from core.errors import SdkIncomplete
from tests.shared.standin_sdk.packages import LLVM
from toolchains.arch import ARM32, ARM64, Arch

FILES = Path(__file__).parent / "files"
TOOLS = ("ar", "objcopy", "nm", "readobj", "symbolizer", "objdump", "size", "strings", "cxxfilt", "dwarfdump")
TOOL_LINKS = {
    "clang": f"clang-{LLVM}",
    "clang++": "clang",
    "ld.lld": "lld",
    "llvm-ranlib": "llvm-ar",
    "llvm-strip": "llvm-objcopy",
    "llvm-readelf": "llvm-readobj",
    "llvm-addr2line": "llvm-symbolizer",
}
KERNEL_HEADERS = ("linux", "asm-generic", "mtd", "rdma", "sound", "video", "xen", "misc")
MISSING_IN_OHOS = {
    # OpenHarmony's musl has none of these; with them in place the stand-in would hide real porting errors.
    "pthread.h": ("pthread_getaffinity_np", "pthread_setaffinity_np", "pthread_cancel", "pthread_setcancelstate"),
    "spawn.h": ("posix_spawn_file_actions_addchdir_np", "posix_spawn_file_actions_addfchdir_np"),
}


@dataclass(frozen=True, kw_only=True)
class Target:
    """One arch of the stand-in and its names in Debian."""

    arch: Arch
    debian: str
    musl: str
    """Triple in the paths of Debian's musl packages."""
    gnu: str
    """Triple in the paths of all other packages."""
    flags: tuple[str, ...] = ()
    """How the runtimes are compiled."""

    @property
    def triple(self) -> str:
        return self.arch.ohos_triple


TARGETS = (
    Target(arch=ARM64, debian="arm64", musl="aarch64-linux-musl", gnu="aarch64-linux-gnu"),
    Target(
        arch=ARM32,
        debian="armel",
        musl="arm-linux-musleabi",
        gnu="arm-linux-gnueabi",
        flags=("-march=armv7-a", "-mfloat-abi=softfp", "-mfpu=neon-vfpv4"),
    ),
)


def lay_out_host_tools(native: Path, host: Path) -> None:
    """Copies clang, lld and LLVM's tools; they find their libraries beside them, so the tree can be moved."""
    llvm = host / f"usr/lib/llvm-{LLVM}"
    target = native / "llvm/bin"
    target.mkdir(parents=True)
    _copy(llvm / "bin/clang", target / f"clang-{LLVM}")
    _copy(llvm / "bin/lld", target / "lld")
    for tool in TOOLS:
        _copy(llvm / f"bin/llvm-{tool}", target / f"llvm-{tool}")
    for link, name in TOOL_LINKS.items():
        (target / link).symlink_to(name)
    for library in (f"libLLVM.so.{LLVM}.1", f"libclang-cpp.so.{LLVM}.1"):
        _copy(_one(host.glob(f"usr/lib/*-linux-gnu/{library}"), library), native / "llvm/lib" / library)
    _copy_folder(llvm / f"lib/clang/{LLVM}/include", native / f"llvm/lib/clang/{LLVM}/include")


def lay_out_kernel_headers(native: Path, packages: Path) -> None:
    """The kernel's headers that all arches share."""
    for name in KERNEL_HEADERS:
        source = packages / "arm64/usr/include" / name
        if source.is_dir():
            _copy_folder(source, native / "sysroot/usr/include" / name)


def lay_out_sysroot(native: Path, target: Target, packages: Path) -> None:
    """The C library of one arch: headers with OpenHarmony's gaps, start files, archives, libc.so and its loader name."""
    root = packages / target.debian
    include = native / "sysroot/usr/include" / target.triple
    _copy_folder(root / "usr/include" / target.musl, include)
    _copy_folder(root / "usr/include" / target.gnu / "asm", include / "asm")
    for header, names in MISSING_IN_OHOS.items():
        _remove_declarations(include / header, names)
    lib = native / "sysroot/usr/lib" / target.triple
    for pattern in ("*.o", "*.a"):
        for file in (root / "usr/lib" / target.musl).glob(pattern):
            _copy(file, lib / file.name)
    _copy(_one(root.glob(f"**/{target.musl}/libc.so"), "musl's libc.so"), lib / "libc.so")
    (lib / Path(target.arch.loader).name).symlink_to("libc.so")


def lay_out_compiler_runtime(native: Path, target: Target, packages: Path) -> None:
    """Builtins and crtbegin/crtend under the names that clang's OHOS driver asks for."""
    root = packages / target.debian
    place = compiler_runtime(native, target)
    if target.arch is ARM32:
        # LLVM has no usable armel runtime in Debian; GCC's is soft-float by nature.
        gcc = _one(root.glob(f"usr/lib/gcc/{target.gnu}/*"), "armel's libgcc")
        sources = {
            "libclang_rt.builtins.a": gcc / "libgcc.a",
            "clang_rt.crtbegin.o": gcc / "crtbeginS.o",
            "clang_rt.crtend.o": gcc / "crtendS.o",
        }
    else:
        runtime = root / f"usr/lib/llvm-{LLVM}/lib/clang/{LLVM}/lib/linux"
        sources = {
            "libclang_rt.builtins.a": runtime / "libclang_rt.builtins-aarch64.a",
            "clang_rt.crtbegin.o": runtime / "clang_rt.crtbegin-aarch64.o",
            "clang_rt.crtend.o": runtime / "clang_rt.crtend-aarch64.o",
        }
    for name, source in sources.items():
        _copy(source, place / name)


def lay_out_cxx_headers(native: Path, sources: Path) -> None:
    """libc++'s headers, in clang's place and in the SDK's, with the site file that the sources' packager took out."""
    for folder in ("llvm/include/libcxx-ohos/include/c++/v1", "llvm/include/c++/v1"):
        place = native / folder
        _copy_folder(sources / "libcxx/include", place)
        for header in ("cxxabi.h", "__cxxabi_config.h"):
            _copy(sources / "libcxxabi/include" / header, place / header)
        for path in (place / "__config", *(place / "__configuration").glob("*.h")):
            path.write_text(re.sub(r"/\* zig patch:[^\n]*\*/", "#include <__config_site>", path.read_text()))
    # The SDK's own folder is one for all arches; clang looks in a folder per triple.
    sites = [f"llvm/include/{target.triple}/c++/v1" for target in TARGETS]
    for folder in ("llvm/include/libcxx-ohos/include/c++/v1", *sites):
        _copy(FILES / "__config_site", native / folder / "__config_site")


def lay_out_runtime(root: Path, native: Path, target: Target) -> None:
    """What a board has of one arch: loader, C library and C++ library, in its own places."""
    lib, system = root / "lib", root / ("system/lib" if target.arch.elf_bits == 32 else "system/lib64")
    for folder in (lib, system):
        _copy(native / "sysroot/usr/lib" / target.triple / "libc.so", folder / "libc.so")
        _copy(native / "llvm/lib" / target.triple / "libc++_shared.so", folder / "libc++_shared.so")
    loader = root / target.arch.loader.removeprefix("/")
    _copy(lib / "libc.so", loader)
    loader.chmod(0o755)
    # musl's loader reads its search path here; OpenHarmony's own one has a file of namespaces instead.
    path = root / "etc" / f"{loader.name.removesuffix('.so.1')}.path"
    path.parent.mkdir()
    path.write_text(f"/{system.relative_to(root)}\n/lib\n")


def compiler_runtime(native: Path, target: Target) -> Path:
    return native / f"llvm/lib/clang/{LLVM}/lib" / target.triple


def _remove_declarations(header: Path, names: Iterable[str]) -> None:
    text = header.read_text()
    for name in names:
        text, count = re.subn(rf"^\w[\w *]*\b{name}\([^;]*;\n", "", text, flags=re.MULTILINE)
        if count != 1:
            raise SdkIncomplete(f"{header} was expected to declare {name} once, not {count} times.")
    header.write_text(text)


def _one(found: Iterable[Path], what: str) -> Path:
    paths = sorted(found)
    if not paths:
        raise SdkIncomplete(
            f"The Debian packages have no {what}: another Debian release than 12 may name it otherwise."
        )
    return paths[0]


def _copy(source: Path, target: Path) -> None:
    if not source.is_file():
        raise SdkIncomplete(f"The Debian packages have no {source}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _copy_folder(source: Path, target: Path) -> None:
    if not source.is_dir():
        raise SdkIncomplete(f"The Debian packages have no folder {source}.")
    shutil.copytree(source, target, dirs_exist_ok=True)
