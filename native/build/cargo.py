"""The build system ``cargo``: a Rust project, in a copy of its folder, with a rendered configuration."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import HostToolMissing, UsageError
from core.files import sha256_json, write_atomic
from core.process import RealRunner
from native.artifact.elf import is_for
from native.build.job import COPY, INSTALLED_TO, NO_INSTALL_STEP, BuildJob, BuildLog, begin_tree, explain_failure
from native.build.make import NAMES, PROGRAMS, render_programs
from native.build.render import render_build

if TYPE_CHECKING:
    from core.process import Result
    from core.session import Session

CONFIGURATION = "cargo.toml"
TARGETS: Mapping[tuple[str, str], str] = {
    ("ohos", "arm32"): "armv7-unknown-linux-ohos",
    ("ohos", "arm64"): "aarch64-unknown-linux-ohos",
    ("ohos", "x86_64"): "x86_64-unknown-linux-ohos",
    ("zig", "arm32"): "armv7-unknown-linux-musleabihf",
    ("zig", "arm64"): "aarch64-unknown-linux-musl",
    ("zig", "x86_64"): "x86_64-unknown-linux-musl",
}
"""Toolchain and arch → rustc's name of the target."""
PROFILES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Release": ("release", {}),
    "RelWithDebInfo": ("release", {"debug": "true"}),
    "MinSizeRel": ("release", {"opt-level": '"s"'}),
    "Debug": ("dev", {}),
}
"""CMake's names for build types → cargo's profile, and what of it is changed."""
FOLDERS = {"release": "release", "dev": "debug"}
NO_STANDARD_LIBRARY = re.compile(r"can't find crate for `(?:core|std)`")
UNKNOWN_TARGET = re.compile(r"could not find specification for target", re.IGNORECASE)
LIBRARY_OF_ALL = "libcore-*.rlib"
"""What even a program without std is made with."""
ASK_SECONDS = 60.0
NOT_OF_THE_SHELL = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET")
"""Variables that would win over the configuration, even when they are empty."""


class Cargo:
    """The machine's cargo and rustc, which must have the standard library for the target."""

    def version(self) -> str:
        """What the build system is, as a part of the key. Raises HostToolMissing."""
        return _versions(_find_cargo())

    def run(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> None:
        """Copies and builds. Raises BuildError with the first error, HostToolMissing without a standard library."""
        target, programs = target_of(job), render_programs(job)
        text = render_configuration(job)
        if begin_tree(session, job, sha256_json([text, programs, dict(job.environment)])):
            for name, content in programs.items():
                write_atomic(job.tree / PROGRAMS / name, content, mode=0o755)
            write_atomic(job.tree / CONFIGURATION, text)
        _require_library(session, job, target)
        with session.console.progress(f"compiling {job.title}", unit="steps"):
            result = session.runner.run(
                ["env", *(word for name in NOT_OF_THE_SHELL for word in ("-u", name)), *_words(session, job, target)],
                deadline=deadline,
                cwd=job.tree / COPY,
                env=_environment(job, target),
                on_stdout=log.write,
                on_stderr=log.write,
            )
        if not result.ok:
            raise _explain(result, job, target)

    def install(self, session: Session, job: BuildJob, log: BuildLog, deadline: Deadline) -> str:
        """Takes what lies at the top of cargo's folder for the target; below it are copies under other names."""
        built = job.tree / "target" / target_of(job) / FOLDERS[PROFILES[job.build_type][0]]
        found = [path for path in sorted(built.iterdir()) if path.is_file() and is_for(path, job.toolchain.arch)]
        for path in found:
            place = job.staging / INSTALLED_TO.lstrip("/") / ("lib" if path.suffix == ".so" else "bin")
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        return "" if found else NO_INSTALL_STEP


def target_of(job: BuildJob) -> str:
    return TARGETS[job.toolchain.name, job.toolchain.arch.name]


def render_configuration(job: BuildJob) -> str:
    """What cargo reads besides the project's own configuration, which it is merged with."""
    toolchain = job.toolchain
    profile, changes = PROFILES[job.build_type]
    # rustc would add the C library and start files that it brings for musl itself: here they are the compiler's.
    flags = ["-Clink-self-contained=no"] if toolchain.name == "zig" else []
    flags.append(f"-Ctarget-feature={'+' if toolchain.static else '-'}crt-static")
    flags += [f"-Ctarget-cpu={toolchain.cpu}"] if toolchain.cpu.startswith("cortex-") else []
    flags.append(f"--remap-path-prefix={job.tree / COPY}=.")
    return render_build(
        "cargo.toml.jinja",
        target=target_of(job),
        linker=str(job.tree / PROGRAMS / NAMES["CC"]),
        archiver=str(job.tree / PROGRAMS / NAMES["AR"]),
        flags=flags,
        profile=profile,
        changes=changes,
    )


def _require_library(session: Session, job: BuildJob, target: str) -> None:
    """Before cargo fetches crates and compiles what runs on this machine, which takes minutes. Raises HostToolMissing."""
    if _makes_its_own_library(job.tree / COPY):
        return
    # In the project's folder, for it may pin a toolchain of rustup's.
    asked = session.runner.run(
        [_find_rustc(_find_cargo()), "--print", "target-libdir", "--target", target],
        deadline=Deadline.after(ASK_SECONDS, "rustc's folder of libraries"),
        cwd=job.tree / COPY,
    )
    if UNKNOWN_TARGET.search(asked.error_text):
        raise HostToolMissing(
            f"rustc does not know the target {target}, so {job.title} cannot be built: it is {_versions(_find_cargo())}.",
            remedy=f"Install a newer Rust: `rustup update stable` and `rustup target add {target}`.",
        )
    if asked.ok and not any(Path(asked.text.strip()).glob(LIBRARY_OF_ALL)):
        raise _lacks_library(job, target)


def _makes_its_own_library(source: Path) -> bool:
    """Whether cargo is told to (`-Zbuild-std`), or unstable features are asked for, with which a program may need none."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    files = [folder / name for folder in (source / ".cargo", home) for name in ("config.toml", "config")]
    told = any("build-std" in file.read_text(errors="replace") for file in files if file.is_file())
    return told or any(os.environ.get(name) for name in ("RUSTC_BOOTSTRAP", "CARGO_UNSTABLE_BUILD_STD"))


def _words(session: Session, job: BuildJob, target: str) -> list[str]:
    words = [_find_cargo(), "build", "--config", str(job.tree / CONFIGURATION), "--target", target]
    words += ["--target-dir", str(job.tree / "target"), "--profile", PROFILES[job.build_type][0], "-j", str(job.jobs)]
    words += ["--offline"] if session.settings.offline else []
    for name, value in job.options.items():
        if not re.fullmatch(r"[a-z][a-z-]*", name):
            raise UsageError(f"--option {name}: cargo has flags in small letters, such as features=NAME.")
        words.append(f"--{name}={value}" if value else f"--{name}")
    return words


def _environment(job: BuildJob, target: str) -> dict[str, str]:
    """For crates that compile C by themselves, and for those that ask pkg-config."""
    from toolchains.render import pkg_config_folders

    name = target.replace("-", "_")
    tools = {f"{tool}_{name}": str(job.tree / PROGRAMS / NAMES[tool]) for tool in ("CC", "CXX", "AR", "RANLIB")}
    return {
        **{name: value for name, value in job.environment.items() if value},
        **tools,
        "PKG_CONFIG_ALLOW_CROSS": "1",
        "PKG_CONFIG_LIBDIR": pkg_config_folders(job.toolchain.prefixes),
        "PATH": f"{job.tree / PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _explain(result: Result, job: BuildJob, target: str) -> Exception:
    if NO_STANDARD_LIBRARY.search(result.error_text):
        return _lacks_library(job, target)
    return explain_failure(result, "Compiling", job)


def _lacks_library(job: BuildJob, target: str) -> HostToolMissing:
    return HostToolMissing(
        f"rustc has no standard library for {target}, so {job.title} cannot be built.",
        remedy=f"Install it: `rustup target add {target}` (Debian's rustc has none for it), then build again.",
    )


@functools.cache
def _versions(cargo: str) -> str:
    """cargo and the rustc that it uses; a folder may pin another one with rustup, which is taken then all the same."""
    said = [
        RealRunner().run([program, "--version"], deadline=Deadline.after(ASK_SECONDS, f"{program}'s version")).text
        for program in (cargo, _find_rustc(cargo))
    ]
    return ", ".join(" ".join(text.split()) for text in said)


def _find_rustc(cargo: str) -> str:
    return shutil.which(os.environ.get("RUSTC", "rustc")) or str(Path(cargo).with_name("rustc"))


def _find_cargo() -> str:
    found = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo/bin"))
    if found is None:
        raise HostToolMissing(
            "This project is built with cargo, which is not on this machine.",
            remedy="Install Rust with rustup, as its page says, then the target: "
            "`rustup target add aarch64-unknown-linux-ohos` (or aarch64-unknown-linux-musl for the toolchain zig).",
        )
    return found
