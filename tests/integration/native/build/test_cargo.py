"""Rust projects: what cargo is told, and what a machine without cargo, or without a target's library, is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import HostToolMissing
from core.session import Session
from native.build.cargo import TARGETS
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.build.job import first_errors
from tests.shared.standin_sdk import runtime_tree, standin_sdk
from toolchains.arch import ARCHES
from toolchains.host_toolchain import ToolchainChoice

STAND_IN = """\
#!{python}
# Stands in for cargo: links what a Rust program would be with the linker that it is told, and leaves what cargo leaves.
# Stands in for rustc too, which has the libraries of some targets in a folder beside it.
import json, os, pathlib, shutil, subprocess, sys, tomllib
words = sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("cargo 1.0 (stand-in)"))
told = dict(zip(words, words[1:]))
if told.get("--print") == "target-libdir":
    if pathlib.Path("unknown").exists():
        sys.exit(f'error: error loading target specification: could not find specification for target "{told["--target"]}"')
    sys.exit(print(pathlib.Path(__file__).parent.parent / "lib/rustlib" / told["--target"] / "lib"))
if pathlib.Path("broken").exists():
    sys.exit("error[E0463]: can't find crate for `std`")
configuration = tomllib.loads(pathlib.Path(told["--config"]).read_text())
target = configuration["target"][told["--target"]]
place = pathlib.Path(told["--target-dir"], told["--target"], "release")
(place / "deps").mkdir(parents=True, exist_ok=True)
(place / "build").mkdir(exist_ok=True)
subprocess.run([target["linker"], "src/main.c", "-o", place / "hello"], check=True)
shutil.copy(place / "hello", place / "deps/hello-0123456789abcdef")
shutil.copy("/bin/true", place / "build/build-script-build")
(place / "hello.d").write_text("hello: src/main.rs")
flags = [name for name in os.environ if name in ("RUSTFLAGS", "CARGO_TARGET_DIR")]
pathlib.Path(told["--target-dir"], "told.json").write_text(json.dumps([words, configuration, flags]))
"""
BARE = """\
#![feature(no_core, lang_items)]
#![no_core]
#![no_main]
#![allow(internal_features)]
#[lang = "pointee_sized"]
pub trait PointeeSized {}
#[lang = "meta_sized"]
pub trait MetaSized: PointeeSized {}
#[lang = "sized"]
pub trait Sized: MetaSized {}
#[lang = "copy"]
pub trait Copy {}
impl Copy for i32 {}
#[link(name = "c")]
extern "C" {
    fn puts(text: *const u8) -> i32;
}
#[no_mangle]
pub extern "C" fn main() -> i32 {
    unsafe {
        puts(b"from rust\\0" as *const [u8; 10] as *const u8);
    }
    0
}
"""
MANIFEST = '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n[profile.release]\npanic = "abort"\n'


@pytest.fixture
def project(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))
    (tmp_path / "hello/src").mkdir(parents=True)
    (tmp_path / "hello/Cargo.toml").write_text(MANIFEST)
    (tmp_path / "hello/src/main.c").write_text('#include <stdio.h>\nint main(void) { puts("from C"); return 0; }\n')
    (tmp_path / "hello/src/main.rs").write_text('fn main() { println!("from rust"); }\n')
    return tmp_path / "hello"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for target in TARGETS.values():
        (tmp_path / "lib/rustlib" / target / "lib").mkdir(parents=True)
        (tmp_path / "lib/rustlib" / target / "lib/libcore-0123456789abcdef.rlib").touch()
    for name in ("cargo", "rustc"):
        (tmp_path / "bin" / name).write_text(STAND_IN.replace("{python}", sys.executable))
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("RUSTC_BOOTSTRAP", raising=False)
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo-home"))
    # What a shell may have would win over the configuration.
    monkeypatch.setenv("RUSTFLAGS", "")
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "elsewhere"))


def build(session: Session, project: Path, toolchain: str, arch: str, sdk: str = "", **more: object) -> BuildOutcome:
    choice = ToolchainChoice(arch=arch, toolchain=toolchain, sdk=sdk)
    return ensure_built(session, BuildRequest(source=str(project), choice=choice, **more))  # type: ignore[arg-type]


def printed_by(session: Session, outcome: BuildOutcome, cache: Path) -> str:
    [product] = outcome.artifact.products
    assert product.name == "hello"
    emulator = ARCHES[outcome.artifact.arch].qemu
    if shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed")
    words = [emulator, "-L", runtime_tree(outcome.artifact.arch, cache), outcome.artifact.path_of(product)]
    return session.runner.run(words, deadline=Deadline.after(60, "the program")).text


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    ("toolchain", "arch", "target", "crt"),
    [
        ("zig", "arm32", "armv7-unknown-linux-musleabihf", "+"),
        ("zig", "arm64", "aarch64-unknown-linux-musl", "+"),
        ("ohos", "arm32", "armv7-unknown-linux-ohos", "-"),
        ("ohos", "arm64", "aarch64-unknown-linux-ohos", "-"),
    ],
)
def test_cargo_is_told_target_linker_and_flags_and_its_programs_are_the_products(
    session: Session, project: Path, shared_cache: Path, toolchain: str, arch: str, target: str, crt: str
) -> None:
    sdk = str(standin_sdk(shared_cache, "5.0.0")) if toolchain == "ohos" else ""
    outcome = build(session, project, toolchain, arch, sdk, options={"features": "loud", "no-default-features": ""})
    assert printed_by(session, outcome, shared_cache) == "from C\n"
    words, configuration, flags = json.loads((outcome.artifact.folder / "tree/target/told.json").read_text())
    assert words[:2] == ["build", "--config"]
    assert {"--features=loud", "--no-default-features", target} <= set(words)
    assert f"-Ctarget-feature={crt}crt-static" in configuration["target"][target]["rustflags"]
    assert flags == []
    assert not (project / "target").exists()


@pytest.mark.usefixtures("stand_in")
def test_a_target_without_its_library_is_told_before_cargo_begins(
    session: Session, project: Path, tmp_path: Path, shared_cache: Path
) -> None:
    shutil.rmtree(tmp_path / "lib/rustlib/armv7-unknown-linux-ohos")
    with pytest.raises(HostToolMissing, match="no standard library for armv7-unknown-linux-ohos") as caught:
        build(session, project, "ohos", "arm32", str(standin_sdk(shared_cache, "5.0.0")))
    assert "`rustup target add armv7-unknown-linux-ohos`" in caught.value.remedy
    assert not list(session.settings.builds.rglob("told.json"))


@pytest.mark.usefixtures("stand_in")
def test_a_rustc_that_is_older_than_the_target_is_told_so(
    session: Session, project: Path, tmp_path: Path, shared_cache: Path
) -> None:
    (project / "unknown").touch()
    with pytest.raises(HostToolMissing, match="does not know the target aarch64-unknown-linux-ohos") as caught:
        build(session, project, "ohos", "arm64", str(standin_sdk(shared_cache, "5.0.0")))
    assert "cargo 1.0 (stand-in)" in caught.value.message
    assert "`rustup update stable`" in caught.value.remedy


@pytest.mark.usefixtures("stand_in")
def test_a_project_that_makes_its_own_standard_library_is_let_try(
    session: Session, project: Path, tmp_path: Path, shared_cache: Path
) -> None:
    shutil.rmtree(tmp_path / "lib")
    (project / ".cargo").mkdir()
    (project / ".cargo/config.toml").write_text('[unstable]\nbuild-std = ["std"]\n')
    assert printed_by(session, build(session, project, "zig", "arm64"), shared_cache) == "from C\n"


@pytest.mark.usefixtures("stand_in")
def test_what_cargo_says_of_a_missing_library_is_told_with_the_command_that_brings_it(
    session: Session, project: Path
) -> None:
    (project / "broken").touch()
    with pytest.raises(HostToolMissing, match="no standard library for aarch64-unknown-linux-musl") as caught:
        build(session, project, "zig", "arm64")
    assert "`rustup target add aarch64-unknown-linux-musl`" in caught.value.remedy


def test_an_error_of_rustcs_is_shown_with_its_place() -> None:
    text = (
        "   Compiling hello v0.1.0\nwarning: unused variable: `x`\n --> src/main.rs:1:2\n\n"
        "error[E0425]: cannot find value `y` in this scope\n --> src/main.rs:3:5\n  |\n3 |     y\n  |     ^\n\n"
        'error: could not compile `hello` (bin "hello") due to 1 previous error\n'
    )
    assert first_errors(text).split("\n")[:2] == [
        "    error[E0425]: cannot find value `y` in this scope",
        "     --> src/main.rs:3:5",
    ]


def test_without_cargo_that_is_said(
    session: Session, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(HostToolMissing, match="cargo, which is not on this machine") as caught:
        build(session, project, "zig", "arm64")
    assert "rustup" in caught.value.remedy


def test_the_real_rustc_is_asked_before_an_ordinary_program_is_compiled(
    session: Session, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its target is one of which no distribution has the library, and which rustup adds only by its name."""
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("rustc is not installed")
    monkeypatch.delenv("RUSTC_BOOTSTRAP", raising=False)
    words = [rustc, "--print", "target-libdir", "--target", TARGETS["zig", "arm32"]]
    folder = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout.strip()
    if Path(folder).is_dir():
        pytest.skip(f"rustc has the library of {TARGETS['zig', 'arm32']}")
    with pytest.raises(HostToolMissing, match="no standard library for armv7-unknown-linux-musleabihf"):
        build(session, project, "zig", "arm32")


@pytest.mark.parametrize(("toolchain", "arch"), [("zig", "arm64"), ("ohos", "arm64"), ("zig", "arm32")])
def test_the_real_cargo_builds_a_program_that_needs_no_library_of_rusts(
    session: Session, project: Path, shared_cache: Path, toolchain: str, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a one is built where rustc has no library for the target, as on the machines that these tests run on."""
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo/bin"))
    if cargo is None:
        pytest.skip("cargo is not installed")
    said = subprocess.run([cargo, "--version"], capture_output=True, text=True, timeout=120, check=True).stdout
    if tuple(map(int, said.split()[1].split(".")[:2])) < (1, 90):
        pytest.skip(f"{said.strip()} knows other names of what a program without libraries has to bring")
    monkeypatch.setenv("RUSTC_BOOTSTRAP", "1")
    (project / "src/main.rs").write_text(BARE)
    sdk = str(standin_sdk(shared_cache, "5.0.0")) if toolchain == "ohos" else ""
    assert printed_by(session, build(session, project, toolchain, arch, sdk), shared_cache) == "from rust\n"
