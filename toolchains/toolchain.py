"""The host toolchain: what compiles, and which one is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import ToolchainError, UsageError, unknown_name
from core.session import Session
from toolchains.arch import Arch

if TYPE_CHECKING:
    from toolchains.sdk import Sdk

HOST_TOOLCHAINS = ("ohos", "zig")


@dataclass(frozen=True, kw_only=True)
class HostToolchain:
    """A compiler that is ready to be used, for one arch and one CPU tuning."""

    name: str
    """``zig`` or ``ohos``."""
    arch: Arch
    cpu: str
    """Name of the CPU tuning; ``generic`` when none was asked for."""
    static: bool
    """Whether programs are linked statically, C library included."""
    file: Path
    """The rendered CMake toolchain file."""
    id: str
    """SHA-256 of everything that a build's result depends on; the same wherever the toolchain lies on the disk."""
    title: str
    """For people: ``ziglang 0.17.1 (clang 22.1.8), static musl, hard float``."""
    bin: Path
    """Folder of the programs below, each of which needs no further flags."""
    cc: Path
    cxx: Path
    ar: Path
    ranlib: Path
    strip: tuple[str, ...]
    """Words before the file's name in a call that strips it in place; empty when linking has done so already."""
    environment: Mapping[str, str]
    """Variables that the compiler, and ccache in front of it, should see."""
    sdk: Sdk | None
    stl: str
    """C++ library: ``c++_static``, ``c++_shared`` or ``none``."""
    link_flags: tuple[str, ...] = ()
    """What a build without CMake should add to its links; CMake gets it from `file`."""
    runtime_libraries: tuple[Path, ...] = ()
    """Shared libraries that must travel with the programs."""
    prefixes: tuple[Path, ...] = ()
    """Folders with libraries for the board, in which packages are looked for."""


@dataclass(frozen=True, kw_only=True)
class ToolchainRequest:
    """What was asked for; empty text and None mean "the toolchain's own default"."""

    arch: Arch
    cpu: str = ""
    static: bool | None = None
    stl: str = ""
    prefixes: tuple[Path, ...] = ()


def choose_toolchain(
    session: Session,
    *,
    arch: Arch,
    name: str = "",
    sdk: str = "",
    cpu: str = "",
    static: bool | None = None,
    stl: str = "",
    prefixes: Sequence[Path] = (),
) -> HostToolchain:
    """The toolchain that is meant: by name, else by the setting, else the SDK when there is one, else zig.

    `sdk` is a folder with an SDK in any layout; `cpu` a CPU tuning; `stl` one of c++_static, c++_shared and none.
    Says what was chosen, and why. Raises UnknownName, TuningNotForArch, SdkNotFound, SdkIncomplete, HostToolMissing.
    """
    request = ToolchainRequest(
        arch=arch, cpu=cpu, static=static, stl=stl, prefixes=tuple(prefix.absolute() for prefix in prefixes)
    )
    return prepare_toolchain(session, request, name=name, sdk=sdk)


def prepare_toolchain(session: Session, request: ToolchainRequest, *, name: str = "", sdk: str = "") -> HostToolchain:
    """As `choose_toolchain`, with all that a request can say."""
    chosen, why, found = _choose_name(session, name, sdk)
    if chosen == "zig":
        from toolchains.zig import prepare_zig

        toolchain = prepare_zig(session, request)
    else:
        from toolchains.ohos import prepare_ohos
        from toolchains.sdk import require_sdk

        toolchain = prepare_ohos(session, request, found or require_sdk(session, sdk))
    session.console.chosen("toolchain", f"{toolchain.name}, {toolchain.title}", why)
    return toolchain


def _choose_name(session: Session, name: str, sdk: str) -> tuple[str, str, Sdk | None]:
    """Which toolchain, why, and the SDK when it had to be looked for."""
    for given in (name, session.settings.toolchain):
        if given and given not in HOST_TOOLCHAINS:
            raise unknown_name("host toolchain", given, HOST_TOOLCHAINS)
    if name == "zig" and sdk:
        raise UsageError("--sdk names an SDK, but --toolchain zig has none.", remedy="Leave one of them away.")
    if name or sdk:
        return name or "ohos", "--toolchain" if name else "--sdk", None
    if session.settings.toolchain:
        return session.settings.toolchain, "ohforge.toolchain", None
    from toolchains.sdk import find_sdk

    found = find_sdk(session)
    return (
        ("ohos", f"there is an SDK, by {found.found_by}", found)
        if found
        else ("zig", "no SDK is installed or named", None)
    )


def check_compiler(session: Session, toolchain: HostToolchain, *, cxx: bool = True) -> float:
    """Compiles and links a small C (and C++) program; returns the seconds that it took.

    A moment when the compiler is ready. zig builds its C and C++ runtimes at the first link for an arch, which takes
    a minute or two and would otherwise look like a configuration that hangs. Raises ToolchainError with the compiler's
    words.
    """
    import tempfile
    import time

    started = time.monotonic()
    languages = [("C", toolchain.cc, "c", "int main(void) { return 0; }\n")]
    if cxx:
        languages.append(("C++", toolchain.cxx, "cpp", '#include <string>\nint main() { return std::stoi("0"); }\n'))
    with tempfile.TemporaryDirectory(prefix="ohforge-") as scratch:
        for language, compiler, suffix, text in languages:
            source, built = Path(scratch, f"main.{suffix}"), Path(scratch, "main.o")
            source.write_text(text)
            deadline = Deadline.after(
                session.settings.timeouts.build, f"the first {language} link with {toolchain.title}"
            )
            compile_it: list[str | Path] = [compiler, "-O2", "-c", source, "-o", built]
            link_it: list[str | Path] = [compiler, *toolchain.link_flags, built, "-o", Path(scratch, "main")]
            with session.console.progress(
                f"{language} compiler and its runtime for {toolchain.arch.name}", unit="steps"
            ):
                for argv in (compile_it, link_it):
                    result = session.runner.run(argv, deadline=deadline, env=toolchain.environment)
                    if not result.ok:
                        raise ToolchainError(
                            f"The {language} compiler of {toolchain.title} does not work:\n{result.last_lines()}"
                        )
    return time.monotonic() - started
