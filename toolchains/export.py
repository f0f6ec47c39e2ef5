"""A toolchain for other tools: shells, Meson, CMake presets (and so IDEs), Cargo.

Nothing here ever sets a bare ``CC`` unless it is asked to: it would reach the tools that a build compiles for the
machine that builds, and these would then be programs for the board.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.dry import Would
from core.errors import InvalidData, unknown_name
from core.files import write_atomic
from toolchains.host_toolchain import HostToolchain
from toolchains.render import pkg_config_folders, render

SHELLS = ("sh", "fish", "powershell", "json")
RUST_TARGETS: Mapping[tuple[str, str], str] = {
    ("ohos", "arm32"): "armv7-unknown-linux-ohos",
    ("ohos", "arm64"): "aarch64-unknown-linux-ohos",
    ("ohos", "x86_64"): "x86_64-unknown-linux-ohos",
    ("zig", "arm32"): "armv7-unknown-linux-musleabihf",
    ("zig", "arm64"): "aarch64-unknown-linux-musl",
    ("zig", "x86_64"): "x86_64-unknown-linux-musl",
}
MESON_CPUS: Mapping[str, tuple[str, str]] = {
    "arm32": ("arm", "armv7a"),
    "arm64": ("aarch64", "aarch64"),
    "x86_64": ("x86_64", "x86_64"),
}
"""Arch → Meson's cpu_family and cpu."""


# environment -------------------------------------------------------------------------------------


def list_variables(toolchain: HostToolchain, *, bare: bool = False) -> dict[str, str]:
    """The variables that lead a build to a toolchain.

    ``OHFORGE_…`` for scripts of one's own, and the names with the target in them that Rust's cc, cmake and pkg-config
    crates and Cargo read. `bare`: also CC, CXX and so on, for autotools and make.
    """
    programs = {"CC": toolchain.cc, "CXX": toolchain.cxx, "AR": toolchain.ar, "RANLIB": toolchain.ranlib}
    if toolchain.strip:
        programs["STRIP"] = Path(toolchain.strip[0])
    target = rust_target(toolchain)
    name = target.replace("-", "_")
    variables = {f"OHFORGE_{kind}": str(program) for kind, program in programs.items()}
    variables["OHFORGE_ARCH"] = toolchain.arch.name
    variables["OHFORGE_TARGET"] = clang_target(toolchain)
    variables["OHFORGE_CMAKE_TOOLCHAIN_FILE"] = str(toolchain.file)
    variables |= {f"{kind}_{name}": str(programs[kind]) for kind in ("CC", "CXX", "AR", "RANLIB")}
    variables[f"CMAKE_TOOLCHAIN_FILE_{name}"] = str(toolchain.file)
    variables[f"PKG_CONFIG_LIBDIR_{name}"] = pkg_config_folders(toolchain.prefixes)
    variables[f"CARGO_TARGET_{name.upper()}_LINKER"] = str(toolchain.cc)
    if bare:
        variables |= {kind: str(program) for kind, program in programs.items()}
        variables["CMAKE_TOOLCHAIN_FILE"] = str(toolchain.file)
        variables["PKG_CONFIG_LIBDIR"] = pkg_config_folders(toolchain.prefixes)
    return variables


def export_environment(toolchain: HostToolchain, shell: str, *, bare: bool = False) -> str:
    """The variables as text for ``sh``, ``fish`` or ``powershell``, or as one JSON object. Raises UnknownName."""
    if shell not in SHELLS:
        raise unknown_name("shell", shell, SHELLS)
    variables = list_variables(toolchain, bare=bare)
    if shell == "json":
        return json.dumps(variables, indent=2) + "\n"
    return render(f"env.{shell}.jinja", title=_title(toolchain), variables=variables)


def rust_target(toolchain: HostToolchain) -> str:
    """Rust's name for what the toolchain builds for."""
    return RUST_TARGETS[toolchain.name, toolchain.arch.name]


def clang_target(toolchain: HostToolchain) -> str:
    """The triple as clang (or zig) takes it."""
    return toolchain.arch.ohos_triple if toolchain.name == "ohos" else toolchain.arch.zig_triple


# other build systems -----------------------------------------------------------------------------


def export_meson(
    toolchain: HostToolchain,
    *,
    launcher: str = "",
    emulator: str = "",
    cmake: str = "",
    compile_flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
) -> str:
    """A Meson cross file; with a program before the compiler, one before the programs, CMake and flags, when given."""
    family, cpu = MESON_CPUS[toolchain.arch.name]
    return render(
        "meson.ini.jinja",
        title=_title(toolchain),
        cc=toolchain.cc,
        cxx=toolchain.cxx,
        ar=toolchain.ar,
        ranlib=toolchain.ranlib,
        strip=toolchain.strip[0] if toolchain.strip else "",
        pkg_config=shutil.which("pkg-config") or "",
        pkg_config_libdir=pkg_config_folders(toolchain.prefixes),
        file=toolchain.file,
        cpu_family=family,
        cpu=cpu,
        launcher=launcher,
        prefixes=toolchain.prefixes,
        emulator=emulator,
        cmake=cmake,
        compile_flags=compile_flags,
        link_flags=link_flags,
    )


def export_cargo(toolchain: HostToolchain) -> str:
    """A fragment of Cargo's configuration."""
    target = rust_target(toolchain)
    variables = list_variables(toolchain)
    wanted = ("CC_", "CXX_", "AR_", "RANLIB_", "CMAKE_TOOLCHAIN_FILE_", "PKG_CONFIG_LIBDIR_")
    return render(
        "cargo.toml.jinja",
        title=_title(toolchain),
        target=target,
        cc=toolchain.cc,
        rustflags=["-C", "link-self-contained=no"] if toolchain.name == "zig" else [],
        variables={name: value for name, value in variables.items() if name.startswith(wanted)},
    )


# CMake presets -----------------------------------------------------------------------------------

PRESETS = "CMakeUserPresets.json"
OURS = "ohforge-"
"""What the names of our presets begin with; all others are the user's."""
PRESETS_VERSION = 3
"""The first format with ``toolchainFile`` (CMake 3.21)."""


def merge_presets(existing: str, toolchains: Sequence[HostToolchain]) -> str:
    """The text of a ``CMakeUserPresets.json`` with presets for `toolchains` beside what is in `existing`.

    Presets of ours that are there already are replaced, the user's stay as they are and where they are. `existing` may
    be empty. Raises InvalidData when it is not a presets file.
    """
    presets: dict[str, Any] = _read_presets(existing) if existing.strip() else {"version": PRESETS_VERSION}
    presets["version"] = max(presets["version"], PRESETS_VERSION)
    new: dict[str, Callable[[HostToolchain], dict[str, Any]]] = {
        "configurePresets": _configure_preset,
        "buildPresets": _build_preset,
    }
    for kind, make in new.items():
        kept = [entry for entry in presets.get(kind, []) if not _is_ours(entry)]
        presets[kind] = kept + [make(toolchain) for toolchain in toolchains]
    return json.dumps(presets, indent=2, ensure_ascii=False) + "\n"


def write_presets(folder: Path, toolchains: Sequence[HostToolchain]) -> Path:
    """Writes or completes ``CMakeUserPresets.json`` in a project's folder, atomically. Raises InvalidData."""
    path, _, text = _merge_into(folder, toolchains)
    write_atomic(path, text)
    return path


def would_write_presets(folder: Path, toolchains: Sequence[HostToolchain]) -> Would:
    """What `write_presets` would do. Raises InvalidData."""
    path, existing, text = _merge_into(folder, toolchains)
    names = ", ".join(map(preset_name, toolchains))
    action = "use" if existing == text else "complete" if existing else "write"
    return Would(action=action, what=str(path), size=len(text.encode()), why=f"presets {names}")


def _merge_into(folder: Path, toolchains: Sequence[HostToolchain]) -> tuple[Path, str, str]:
    """The file of presets in `folder`, its text, and that with the presets for `toolchains`."""
    path = folder / PRESETS
    existing = path.read_text(encoding="utf-8-sig") if path.exists() else ""
    try:
        return path, existing, merge_presets(existing, toolchains)
    except InvalidData as error:
        raise InvalidData(f"{path}: {error.message}", remedy="Correct or move the file; it was not changed.") from error


def preset_name(toolchain: HostToolchain) -> str:
    """``ohforge-zig-arm64``, with the CPU tuning when it is not the generic one."""
    tuned = "" if toolchain.cpu == "generic" else f"-{toolchain.cpu}"
    return f"{OURS}{toolchain.name}-{toolchain.arch.name}{tuned}"


def _read_presets(text: str) -> dict[str, Any]:
    try:
        presets = json.loads(text)
    except ValueError as error:
        raise InvalidData(f"not JSON: {error}") from error
    if not isinstance(presets, dict) or not isinstance(presets.get("version"), int):
        raise InvalidData("not a presets file: it has no version.")
    for kind in ("configurePresets", "buildPresets"):
        if not isinstance(presets.get(kind, []), list):
            raise InvalidData(f"{kind} is not a list.")
    return presets


def _is_ours(entry: object) -> bool:
    return isinstance(entry, dict) and str(entry.get("name", "")).startswith(OURS)


def _configure_preset(toolchain: HostToolchain) -> dict[str, Any]:
    return {
        "name": preset_name(toolchain),
        "displayName": f"{toolchain.arch.name}: {toolchain.title}",
        "generator": "Ninja",
        "binaryDir": "${sourceDir}/build/${presetName}",
        "toolchainFile": str(toolchain.file),
        "cacheVariables": {"CMAKE_BUILD_TYPE": "Release"},
        "environment": dict(toolchain.environment),
    }


def _build_preset(toolchain: HostToolchain) -> dict[str, Any]:
    return {"name": preset_name(toolchain), "configurePreset": preset_name(toolchain)}


def _title(toolchain: HostToolchain) -> str:
    return f"{toolchain.title}, for {toolchain.arch.name}"
