"""Host toolchain ``zig``: the clang, musl and libc++ of PyPI's ziglang, made to behave as a usual cross compiler."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import HostToolMissing, TuningNotForArch, UsageError
from core.files import sha256_json
from core.session import Session
from toolchains.arch import ARM32, find_arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice, tell_compiler_caches
from toolchains.render import pkg_config_folders, place_rendered, render
from toolchains.tuning import GENERIC, Tuning, find_tuning

PROGRAMS: Mapping[str, tuple[str, str]] = {
    "zig-cc": ("zig-cc.jinja", "cc"),
    "zig-c++": ("zig-cc.jinja", "c++"),
    "zig-ar": ("zig-tool.jinja", "ar"),
    "zig-ranlib": ("zig-tool.jinja", "ranlib"),
}
"""Program → its template and zig's sub-command."""
IN_LIBC = ("crypt", "dl", "m", "pthread", "resolv", "rt", "util", "xnet")
"""What musl has in its libc: it installs empty libraries of these names, which projects look for."""


@dataclass(frozen=True, kw_only=True)
class Zig:
    """The installed ziglang package."""

    program: Path
    version: str
    clang: str


def find_zig() -> Zig:
    """The ``zig`` binary of the installed ziglang package. Raises HostToolMissing.

    The binary is called itself: ``python -m ziglang`` costs an interpreter for every file that is compiled.
    """
    import importlib.metadata
    import importlib.util

    spec = importlib.util.find_spec("ziglang")
    program = Path(spec.origin).parent / "zig" if spec and spec.origin else None
    if program is None or not program.is_file():
        raise HostToolMissing(
            "The host toolchain zig needs the Python package ziglang, which is not installed.",
            remedy="Run `make setup`, or install ohforge again with pip.",
        )
    return Zig(program=program, version=importlib.metadata.version("ziglang"), clang=_clang_version(program.parent))


def _clang_version(package: Path) -> str:
    """The version of clang, which is that of the libc++ beside it (``_LIBCPP_VERSION 220108`` is 22.1.8)."""
    found = re.search(
        r"^#\s*define\s+_LIBCPP_VERSION\s+(\d{2})(\d{2})(\d{2})$",
        (package / "lib/libcxx/include/__config").read_text(),
        re.MULTILINE,
    )
    return ".".join(str(int(part)) for part in found.groups()) if found else "unknown"


def prepare_zig(session: Session, choice: ToolchainChoice) -> HostToolchain:
    """Renders wrappers and toolchain file for `choice`; fast when they are there already. With ``--dry`` none is written."""
    if choice.static is False:
        raise UsageError(
            "The toolchain zig links statically only: its musl is not the board's C library.",
            remedy="Use --toolchain ohos for programs that share the board's libraries.",
        )
    if choice.stl not in ("", "c++_static"):
        raise UsageError(f"The toolchain zig has only --stl c++_static, not {choice.stl!r}.")
    zig = find_zig()
    arch = find_arch(choice.arch)
    tuning = find_tuning(choice.cpu, arch)
    if not tuning.zig:
        raise TuningNotForArch(
            f"The CPU tuning {tuning.name!r} is for the host toolchain ohos only.",
            remedy="Use --toolchain ohos, or another --cpu.",
        )
    cache = session.settings.cache / "zig"
    shared = Path(os.environ.get("ZIG_GLOBAL_CACHE_DIR") or cache) / f"lib-{zig.version}"
    if not session.dry:
        share_headers(zig, shared)
    place = _Place(cache=str(cache), zig=str(zig.program), lib=str(shared))
    files = _render_files(zig, tuning, choice, place)
    name = f"zig-{arch.name}-{tuning.name}"
    parent = session.settings.cache / "toolchains"
    folder = place_rendered(parent, name, files, frozenset(PROGRAMS), dry=session.dry)
    return HostToolchain(
        name="zig",
        arch=arch,
        cpu=tuning.name,
        static=True,
        file=folder / "toolchain.cmake",
        id=_identify(zig, tuning, choice),
        title=_describe(zig, tuning),
        cc=folder / "zig-cc",
        cxx=folder / "zig-c++",
        ar=folder / "zig-ar",
        ranlib=folder / "zig-ranlib",
        strip=(),
        environment=tell_compiler_caches(_identify_compiler(zig, tuning)),
        sdk=None,
        stl="c++_static",
        prefixes=choice.prefixes,
    )


def share_headers(zig: Zig, link: Path) -> None:
    """Points `link` to the headers and sources of zig's runtimes, unless it leads to those of another clone.

    Two packages of one version hold the same files, and zig's cache knows them by their path.
    """
    if link.is_dir():
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(zig.program.parent / "lib", target_is_directory=True)
    temporary.replace(link)


@dataclass(frozen=True, kw_only=True)
class _Place:
    cache: str
    zig: str
    lib: str


NOWHERE = _Place(cache="<cache>", zig="<zig>", lib="<lib>")
"""Stands for the paths in what the id is made of, so that two folders give the same one."""


def _render_files(zig: Zig, tuning: Tuning, choice: ToolchainChoice, place: _Place) -> dict[str, str]:
    cmake = render(
        "zig.cmake.jinja",
        arch=tuning.arch,
        version=zig.version,
        cpu_name=tuning.name,
        prefixes=choice.prefixes,
        pkg_config_libdir=pkg_config_folders(choice.prefixes),
    )
    programs = {name: _render_program(name, zig, tuning, place) for name in PROGRAMS}
    return {"toolchain.cmake": cmake, **programs, **{f"root/usr/lib/lib{name}.a": "!<arch>\n" for name in IN_LIBC}}


def _render_program(name: str, zig: Zig, tuning: Tuning, place: _Place) -> str:
    template, subcommand = PROGRAMS[name]
    return render(
        template,
        program=name,
        subcommand=subcommand,
        arch=tuning.arch,
        version=zig.version,
        cpu=tuning.zig,
        baseline=find_tuning(GENERIC, tuning.arch).zig,
        clang_flags=tuning.clang,
        zig=place.zig,
        lib=place.lib,
        cache=place.cache,
    )


def _identify(zig: Zig, tuning: Tuning, choice: ToolchainChoice) -> str:
    return sha256_json(
        {"zig": zig.version, "clang": zig.clang, "files": _render_files(zig, tuning, choice.without_places(), NOWHERE)}
    )


def _identify_compiler(zig: Zig, tuning: Tuning) -> str:
    """All that an object depends on beside the words of the call: the wrapper with what it adds, and the zig behind it."""
    programs = [_render_program(name, zig, tuning, NOWHERE) for name in ("zig-cc", "zig-c++")]
    return sha256_json({"zig": zig.version, "clang": zig.clang, "programs": programs})


def _describe(zig: Zig, tuning: Tuning) -> str:
    parts = [f"ziglang {zig.version} (clang {zig.clang})", "static musl"]
    if tuning.arch == ARM32:
        parts.append("hard float")
    if tuning.name != GENERIC:
        parts.append(f"tuned for {tuning.name}")
    return ", ".join(parts)
