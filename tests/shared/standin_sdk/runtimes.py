"""Compiles the C++ runtimes of the stand-in SDK with its own clang: libc++, libc++abi, libunwind, and our emutls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from core.deadline import Deadline
from core.errors import BuildError, HostToolMissing
from core.process import Runner
from tests.shared.standin_sdk.layout import FILES, TARGETS, Target, compiler_runtime

COMPILE_SECONDS = 600.0
COMMON = (
    "-O2", "-fPIC", "-ffunction-sections", "-fdata-sections", "-funwind-tables", "-D__MUSL__", "-D_GNU_SOURCE", "-w",
)  # fmt: skip
CXX = ("-std=c++23", "-nostdinc++", "-fvisibility-inlines-hidden")
HIDDEN = "-fvisibility=hidden"
LIBCXX = ("src/*.cpp", "src/filesystem/*.cpp", "src/ryu/*.cpp", "src/experimental/keep.cpp")
UNWIND = (
    "libunwind.cpp", "Unwind-EHABI.cpp", "UnwindLevel1.c", "UnwindLevel1-gcc-ext.c",
    "UnwindRegistersSave.S", "UnwindRegistersRestore.S",
)  # fmt: skip
LEFT_OUT = {
    "new.cpp": "libc++abi defines the same operators",
    "cxa_noexception.cpp": "for builds without exceptions",
}
CLANG_NEEDS = ("libedit2", "libffi8", "libstdc++6", "libxml2", "libz3-4", "libzstd1", "zlib1g")
"""Debian's packages of the shared libraries that clang and lld load from the machine."""


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """One object: its library, its source and how it is compiled."""

    library: str
    source: Path
    object: Path
    flags: tuple[str, ...]


def check_host_libraries(native: Path, runner: Runner) -> None:
    """Raises HostToolMissing, naming Debian's packages, when the SDK's clang lacks a library of this machine."""
    clang = native / "llvm/bin/clang"
    result = runner.run([clang, "--version"], deadline=Deadline.after(COMPILE_SECONDS, "clang's answer"))
    if result.ok:
        return
    # The loader names one missing library at a time, so all that clang needs are named at once.
    raise HostToolMissing(
        f"The stand-in SDK's clang does not start on this machine: {result.last_lines(3)}",
        remedy=f"Install what it needs: apt-get install {' '.join(CLANG_NEEDS)}",
    )


def build_runtimes(native: Path, sources: Path, work: Path, runner: Runner) -> None:
    """Compiles all objects of all arches side by side, then makes the libraries. Raises BuildError."""
    tools = Tools(native=native, runner=runner)
    jobs = [(target, job) for target in TARGETS for job in _plan(native, target, sources, work / target.triple)]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        futures = [pool.submit(tools.compile, target, job) for target, job in jobs]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    for target in TARGETS:
        _make_libraries(tools, target, [job for owner, job in jobs if owner is target])


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The stand-in's own compiler and archiver."""

    native: Path
    runner: Runner

    def compile(self, target: Target, job: Compilation) -> None:
        driver = "clang++" if job.source.suffix == ".cpp" else "clang"
        job.object.parent.mkdir(parents=True, exist_ok=True)
        self.clang(target, driver, [*target.flags, *job.flags, "-c", job.source, "-o", job.object])

    def clang(self, target: Target, driver: str, arguments: Sequence[str | Path]) -> None:
        self.run([
            self.native / "llvm/bin" / driver,
            f"--target={target.triple}",
            f"--sysroot={self.native / 'sysroot'}",
            *arguments,
        ])  # fmt: skip

    def archive(self, library: Path, objects: Sequence[Path]) -> None:
        library.parent.mkdir(parents=True, exist_ok=True)
        self.run([self.native / "llvm/bin/llvm-ar", "rcsD", library, *objects])

    def remove_members(self, library: Path, prefix: str) -> None:
        """Takes the members whose names begin with `prefix` out of an archive."""
        archiver = self.native / "llvm/bin/llvm-ar"
        members = [name for name in self.run([archiver, "t", library]).split() if name.startswith(prefix)]
        self.run([archiver, "d", library, *members])

    def run(self, argv: Sequence[str | Path]) -> str:
        result = self.runner.run(argv, deadline=Deadline.after(COMPILE_SECONDS, f"`{Path(argv[0]).name}`"))
        if not result.ok:
            command = " ".join(str(word) for word in result.argv)
            raise BuildError(f"The stand-in SDK cannot be assembled: {command}\n{result.last_lines(20)}")
        return result.text


def _plan(native: Path, target: Target, sources: Path, work: Path) -> Iterator[Compilation]:
    for library, paths, flags in (
        _libcxx(native, target, sources),
        _libcxxabi(native, target, sources),
        _libunwind(sources),
        ("emutls", [FILES / "emutls.c"], ()),
    ):
        for path in paths:
            if path.name not in LEFT_OUT:
                language = CXX if path.suffix == ".cpp" else ()
                target_object = work / library / f"{path.stem}.o"
                yield Compilation(
                    library=library, source=path, object=target_object, flags=(*COMMON, *language, *flags)
                )


Library = tuple[str, list[Path], tuple[str, ...]]
"""Name, sources and flags."""


def _libcxx(native: Path, target: Target, sources: Path) -> Library:
    root = sources / "libcxx"
    paths = [path for pattern in LIBCXX for path in sorted(root.glob(pattern))]
    own = ("-D_LIBCPP_BUILDING_LIBRARY", "-DLIBCXX_BUILDING_LIBCXXABI", f"-I{root / 'src'}")
    return "c++", paths, (HIDDEN, *_cxx_headers(native, target, sources), *own)


def _libcxxabi(native: Path, target: Target, sources: Path) -> Library:
    own = ("-D_LIBCXXABI_BUILDING_LIBRARY", "-D_LIBCPP_BUILDING_LIBRARY", f"-I{sources / 'libcxx/src'}")
    unwind = f"-I{sources / 'libunwind/include'}"
    paths = sorted((sources / "libcxxabi/src").glob("*.cpp"))
    return "c++abi", paths, (HIDDEN, *_cxx_headers(native, target, sources), *own, unwind)


def _libunwind(sources: Path) -> Library:
    root = sources / "libunwind"
    own = ("-D_LIBUNWIND_IS_NATIVE_ONLY", "-fno-exceptions", "-fno-rtti", f"-I{root / 'include'}")
    return "unwind", [root / "src" / name for name in UNWIND], (HIDDEN, *own)


def _cxx_headers(native: Path, target: Target, sources: Path) -> tuple[str, ...]:
    include = native / "llvm/include"
    folders = (include / target.triple / "c++/v1", include / "c++/v1", sources / "libcxxabi/include")
    return tuple(f"-isystem{folder}" for folder in folders)


def _make_libraries(tools: Tools, target: Target, jobs: Sequence[Compilation]) -> None:
    def objects(library: str) -> list[Path]:
        return [job.object for job in jobs if job.library == library]

    lib = tools.native / "llvm/lib" / target.triple
    tools.archive(lib / "libc++_static.a", objects("c++"))
    tools.archive(lib / "libc++abi.a", objects("c++abi"))
    tools.archive(lib / "libunwind.a", objects("unwind"))
    builtins = compiler_runtime(tools.native, target) / "libclang_rt.builtins.a"
    tools.remove_members(builtins, "emutls")
    tools.archive(builtins, objects("emutls"))
    (lib / "libc++.a").write_text("INPUT(-lc++_static -lc++abi)\n")
    tools.clang(target, "clang++", [
        *target.flags, "-shared", "-nostdlib++", f"-L{lib}", "-Wl,-soname,libc++_shared.so", "-Wl,--whole-archive",
        "-l:libc++_static.a", "-l:libc++abi.a", "-Wl,--no-whole-archive",
        "-Wl,--exclude-libs,libunwind.a:libclang_rt.builtins.a", "-Wl,--no-undefined", "-Wl,--gc-sections",
        "-o", lib / "libc++_shared.so",
    ])  # fmt: skip
    (lib / "libc++.so").write_text("INPUT(-lc++_shared)\n")
