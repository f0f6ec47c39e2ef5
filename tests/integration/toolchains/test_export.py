"""Exports, each used by the tool that it is for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from core.session import Session
from core.settings import Settings
from tests.shared.cmake_project import (
    FULL_OUTPUT,
    PLAIN_OUTPUT,
    TOOLS,
    output_of,
    run_emulated,
    run_program,
    write_project,
)
from tests.shared.standin_sdk import runtime_tree, standin_sdk
from toolchains.arch import ARM32, ARM64, Arch
from toolchains.export import (
    export_cargo,
    export_environment,
    export_meson,
    list_variables,
    preset_name,
    rust_target,
    write_presets,
)
from toolchains.host_toolchain import HostToolchain, ToolchainChoice
from toolchains.toolchain import choose_toolchain

KINDS = pytest.mark.parametrize("kind", ["zig", "ohos"])


@pytest.fixture(autouse=True)
def shared_runtimes(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))
    monkeypatch.delenv("OHFORGE_CACHE_DIR")


def make_toolchain(kind: str, arch: Arch, tmp_path: Path, shared_cache: Path) -> HostToolchain:
    """A toolchain in a folder with a blank and a quote in its name."""
    session = Session(settings=Settings(cache_dir=str(tmp_path / "it's here")))
    sdk = str(standin_sdk(shared_cache, "5.0.0")) if kind == "ohos" else ""
    return choose_toolchain(session, ToolchainChoice(arch=arch.name, toolchain=kind, sdk=sdk))


def root_of(kind: str, arch: Arch, shared_cache: Path) -> Path | None:
    return runtime_tree(arch.name, shared_cache) if kind == "ohos" else None


def read_variables(words: list[str | Path], names: list[str]) -> dict[str, str]:
    """The values that a shell has for `names` after what `words` do."""
    done = subprocess.run(words, capture_output=True, check=True, timeout=60)
    values = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if "=" in entry)
    return {name: values[name] for name in names}


@KINDS
def test_sh_and_fish_read_the_very_values(tmp_path: Path, shared_cache: Path, kind: str) -> None:
    toolchain = make_toolchain(kind, ARM64, tmp_path, shared_cache)
    wanted = list_variables(toolchain, bare=True)
    shells = [("sh", ". "), *([("fish", "source ")] if shutil.which("fish") else [])]
    for shell, read in shells:
        script = tmp_path / f"env.{shell}"
        script.write_text(export_environment(toolchain, shell, bare=True))
        assert read_variables([shell, "-c", f"{read}{script}; env -0"], list(wanted)) == wanted
    if len(shells) == 1:
        pytest.skip("fish is not installed: only sh was tried")


@KINDS
def test_make_builds_with_the_bare_names(tmp_path: Path, shared_cache: Path, kind: str) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    toolchain = make_toolchain(kind, ARM32, tmp_path, shared_cache)
    source = write_project(tmp_path / "source")
    (source / "Makefile").write_text("plain: plain.o\n\t$(CC) $(LDFLAGS) $^ -lm -o $@\n")
    script = tmp_path / "env.sh"
    script.write_text(export_environment(toolchain, "sh", bare=True))
    # As make has it, $(CC) is not quoted: a compiler in a folder with a blank needs a name without one.
    link = tmp_path / "cc"
    link.symlink_to(toolchain.cc)
    subprocess.run(["sh", "-c", f'. {script}; make CC="{link}"'], cwd=source, check=True, timeout=600)
    assert output_of(ARM32, source / "plain", root=root_of(kind, ARM32, shared_cache)) == PLAIN_OUTPUT


MESON = """
project('small', 'c', 'cpp', default_options: ['buildtype=release'])
compiler = meson.get_compiler('c')
if not compiler.has_function('getpid') or compiler.has_function('no_such_function_anywhere')
  error('a probe that links did not tell the truth')
endif
if dependency('hostonly', required: false).found()
  error('a package of the building machine was found')
endif
executable('plain', 'plain.c', dependencies: compiler.find_library('m', required: false))
executable('full', 'full.cpp', dependencies: dependency('threads'))
"""


@KINDS
@pytest.mark.parametrize("arch", [ARM32, ARM64], ids=["arm32", "arm64"])
def test_meson_builds_with_the_cross_file(tmp_path: Path, shared_cache: Path, kind: str, arch: Arch) -> None:
    meson = TOOLS / "meson"
    if not meson.exists():
        pytest.skip("meson is not installed in the environment")
    toolchain = make_toolchain(kind, arch, tmp_path, shared_cache)
    source, build = write_project(tmp_path / "a source"), tmp_path / "a build"
    (source / "meson.build").write_text(MESON)
    (tmp_path / "cross.ini").write_text(export_meson(toolchain))
    said = run_program([meson, "setup", build, source, "--cross-file", tmp_path / "cross.ini"], toolchain)
    run_program([TOOLS / "ninja", "-C", build], toolchain)
    root = root_of(kind, arch, shared_cache)
    assert output_of(arch, build / "plain", root=root) == PLAIN_OUTPUT
    assert output_of(arch, build / "full", root=root) == FULL_OUTPUT
    assert "cross compiled" in said or "Host machine cpu family" in said


@KINDS
def test_cmake_configures_and_builds_by_preset_beside_the_users_own(
    tmp_path: Path, shared_cache: Path, kind: str
) -> None:
    toolchain = make_toolchain(kind, ARM64, tmp_path, shared_cache)
    source = write_project(tmp_path / "source")
    (source / "CMakeUserPresets.json").write_text(
        json.dumps({"version": 3, "configurePresets": [{"name": "mine", "generator": "Ninja", "binaryDir": "out"}]})
    )
    write_presets(source, [toolchain])
    listed = run_program([TOOLS / "cmake", "--list-presets"], toolchain, source)
    assert '"mine"' in listed
    assert f'"{preset_name(toolchain)}"' in listed
    run_program([TOOLS / "cmake", "--preset", preset_name(toolchain)], toolchain, source)
    run_program([TOOLS / "cmake", "--build", "--preset", preset_name(toolchain)], toolchain, source)
    program = source / "build" / preset_name(toolchain) / "full"
    assert output_of(ARM64, program, root=root_of(kind, ARM64, shared_cache)) == FULL_OUTPUT


RUST = """
#![allow(internal_features)]
#![feature(no_core, lang_items)]
#![no_core]
#![no_main]
#[lang = "pointee_sized"] pub trait PointeeSized {}
#[lang = "meta_sized"] pub trait MetaSized: PointeeSized {}
#[lang = "sized"] pub trait Sized: MetaSized {}
#[lang = "copy"] pub trait Copy {}
impl Copy for i32 {}
#[link(name = "c")] extern "C" { fn abs(value: i32) -> i32; }
#[no_mangle] pub extern "C" fn main() -> i32 { unsafe { abs(42) } }
"""


@KINDS
@pytest.mark.parametrize("arch", [ARM32, ARM64], ids=["arm32", "arm64"])
def test_cargo_links_with_the_fragment(tmp_path: Path, shared_cache: Path, kind: str, arch: Arch) -> None:
    """Rust's library for the target is not needed: the crate brings the few items that the language itself wants."""
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        pytest.skip("cargo is not installed")
    toolchain = make_toolchain(kind, arch, tmp_path, shared_cache)
    crate = tmp_path / "crate"
    (crate / "src").mkdir(parents=True)
    (crate / "src/main.rs").write_text(RUST)
    (crate / "Cargo.toml").write_text(
        '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[profile.dev]\npanic = "abort"\n'
    )
    (tmp_path / "cargo.toml").write_text(export_cargo(toolchain))
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
    target = rust_target(toolchain)
    known = subprocess.run(
        ["rustc", "--target", target, "--emit=metadata", "-o", tmp_path / "m", crate / "src/main.rs"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if known.returncode:
        pytest.skip(f"this rustc takes another set of language items: {known.stderr.splitlines()[:1]}")
    subprocess.run(
        ["cargo", "build", "--offline", "--target", target, "--config", tmp_path / "cargo.toml"],
        cwd=crate,
        env=environment,
        check=True,
        timeout=600,
    )
    program = crate / "target" / target / "debug/small"
    done = run_emulated(arch, program, root=root_of(kind, arch, shared_cache))
    assert done.returncode == 42
