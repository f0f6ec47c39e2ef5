"""A prefix: taken from what a project installs, found by name, and fit to be moved."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import native.build.ensure as build_module
from core.errors import ProductMissing, UsageError
from core.session import Session
from native.artifact.artifact import read_artifact
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.build.job import INSTALLED_TO, BuildJob
from native.build.prefix import Wanted, find_prefix
from tests.support.build_parts import CopyingSystem, make_toolchain
from tests.support.tiny_elf import write_arm64
from toolchains.host_toolchain import ToolchainChoice

PC = """\
prefix=/usr/local
exec_prefix=${prefix}
libdir=/usr/local/lib
includedir=${prefix}/include

Name: low
Description: a library
Version: 1.2
Requires.private: lower >= 1
Libs: -L${libdir} -llow
Libs.private: -lm
Cflags: -I${includedir}
"""
CMAKE = 'set(LOW_INCLUDE "/usr/local/include")\nset(LOW_DATA /usr/local/share)\nset(OTHER /usr/localised)\n'
INSTALLED = {
    "include/low.h": "int low(void);\n",
    "lib/liblow.a": "!<arch>\n",
    "lib/liblow.la": "libdir='/usr/local/lib'\n",
    "lib/pkgconfig/low.pc": PC,
    "lib/cmake/low/low-config.cmake": CMAKE,
    "share/man/man3/low.3": "a page\n",
}


@dataclasses.dataclass
class Installing(CopyingSystem):
    """A build system whose install step writes what it is told to."""

    files: dict[str, str] = dataclasses.field(default_factory=lambda: dict(INSTALLED))
    shared: bool = False

    def run(self, session: Session, job: BuildJob, log: Any, deadline: Any) -> None:
        job.tree.mkdir(parents=True, exist_ok=True)
        self.runs.append([])

    def install(self, session: Session, job: BuildJob, log: Any, deadline: Any) -> str:
        root = job.staging / INSTALLED_TO.lstrip("/")
        for name, text in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        if self.shared:
            write_arm64(root / "lib/liblow.so.1", b"x")
            (root / "lib/liblow.so").symlink_to("liblow.so.1")
        return ""


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Installing:
    system = Installing()
    monkeypatch.setitem(build_module.SYSTEMS, "cmake", system)
    monkeypatch.setattr(build_module, "choose_toolchain", lambda *_: make_toolchain())
    monkeypatch.setattr("native.build.perform.check_compiler", lambda *_: 0.0)
    return system


def build(session: Session, tmp_path: Path) -> BuildOutcome:
    (tmp_path / "low").mkdir(exist_ok=True)
    (tmp_path / "low/CMakeLists.txt").touch()
    return ensure_built(session, BuildRequest(source=str(tmp_path / "low"), choice=ToolchainChoice(arch="arm64")))


def prefix_of(outcome: BuildOutcome) -> Path:
    return outcome.artifact.folder / outcome.artifact.prefix


def test_a_project_that_makes_libraries_only_leaves_them_with_a_manifest(
    session: Session, tmp_path: Path, system: Installing
) -> None:
    outcome = build(session, tmp_path)
    prefix = prefix_of(outcome)
    assert outcome.artifact.products == ()
    names = {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()}
    wanted = set(INSTALLED) - {"lib/liblow.la", "share/man/man3/low.3"}
    assert names == wanted | {"prefix.json"}
    made = json.loads((prefix / "prefix.json").read_text())
    assert (made["program"], made["arch"], made["toolchain"], set(made["files"])) == ("low", "arm64", "zig", wanted)
    assert read_artifact(outcome.artifact.folder).prefix == "prefix"
    assert not build(session, tmp_path).rebuilt


def test_a_prefix_that_was_altered_is_made_again(session: Session, tmp_path: Path, system: Installing) -> None:
    first = build(session, tmp_path)
    (prefix_of(first) / "include/low.h").write_text("edited\n")
    second = build(session, tmp_path)
    assert second.rebuilt
    assert second.reason == "prefix altered since it was built: include/low.h"
    assert (prefix_of(second) / "include/low.h").read_text() == INSTALLED["include/low.h"]


def test_what_a_moved_prefix_says_of_itself_is_where_it_lies(
    session: Session, tmp_path: Path, system: Installing
) -> None:
    moved = prefix_of(build(session, tmp_path)).rename(tmp_path / "moved")
    assert (moved / "lib/cmake/low/low-config.cmake").read_text().splitlines() == [
        'set(LOW_INCLUDE "${CMAKE_CURRENT_LIST_DIR}/../../../include")',
        "set(LOW_DATA ${CMAKE_CURRENT_LIST_DIR}/../../../share)",
        "set(OTHER /usr/localised)",
    ]
    lines = (moved / "lib/pkgconfig/low.pc").read_text().splitlines()
    assert "prefix=${pcfiledir}/../.." in lines
    assert "libdir=${pcfiledir}/../../lib" in lines


def test_a_static_library_names_all_that_it_needs_and_a_shared_one_does_not(
    session: Session, tmp_path: Path, system: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (prefix_of(build(session, tmp_path)) / "lib/pkgconfig/low.pc").read_text().splitlines()
    assert "Requires:  lower >= 1" in lines
    assert "Libs: -L${libdir} -llow -lm" in lines
    assert not [line for line in lines if "private" in line]
    system.shared = True
    monkeypatch.setattr(
        build_module, "choose_toolchain", lambda *_: make_toolchain(name="ohos", static=False, id="2" * 64)
    )
    lines = (prefix_of(build(session, tmp_path)) / "lib/pkgconfig/low.pc").read_text().splitlines()
    assert "Libs.private: -lm" in lines


def test_shared_libraries_of_zig_get_into_no_prefix(session: Session, tmp_path: Path, system: Installing) -> None:
    system.shared = True
    prefix = prefix_of(build(session, tmp_path))
    assert sorted(path.name for path in (prefix / "lib").iterdir()) == ["cmake", "liblow.a", "pkgconfig"]


def test_headers_of_shared_libraries_that_are_left_out_are_no_prefix(
    session: Session, tmp_path: Path, system: Installing
) -> None:
    system.shared = True
    del system.files["lib/liblow.a"]
    assert build(session, tmp_path).artifact.prefix == ""


def test_a_prefix_has_what_cmake_reads_below_any_name_in_share(
    session: Session, tmp_path: Path, system: Installing
) -> None:
    system.files = {
        "include/low.h": "int low(void);\n",
        "share/low3/cmake/Low3Config.cmake": CMAKE,
        "share/low3/cmake/example.txt": "not read\n",
    }
    prefix = prefix_of(build(session, tmp_path))
    assert sorted(path.name for path in (prefix / "share").rglob("*.*")) == ["Low3Config.cmake"]
    assert '"${CMAKE_CURRENT_LIST_DIR}/../../../include"' in (prefix / "share/low3/cmake/Low3Config.cmake").read_text()


def test_nothing_but_a_page_is_no_prefix(session: Session, tmp_path: Path, system: Installing) -> None:
    system.files = {"share/man/man3/low.3": "a page\n"}
    with pytest.raises(ProductMissing, match="no program and no shared library"):
        build(session, tmp_path)


@pytest.mark.parametrize("how", ["name", "source", "artifact", "prefix"])
def test_a_prefix_is_found_by_name_and_by_every_folder_that_leads_to_it(
    how: str, session: Session, tmp_path: Path, system: Installing
) -> None:
    outcome = build(session, tmp_path)
    named = {
        "name": "low",
        "source": str(tmp_path / "low"),
        "artifact": str(outcome.artifact.folder),
        "prefix": str(prefix_of(outcome)),
    }
    found = find_prefix(session, named[how], Wanted(arch="arm64", toolchain="zig"))
    assert found == prefix_of(outcome)


@pytest.mark.parametrize("own", ["include/low.h", "lib/low.c"])
@pytest.mark.parametrize("main", ["configure", "Makefile", "meson.build"])
def test_a_projects_own_folder_of_headers_or_sources_is_not_taken_for_its_prefix(
    main: str, own: str, session: Session, tmp_path: Path, system: Installing
) -> None:
    outcome = build(session, tmp_path)
    for name in (main, own):
        (tmp_path / "low" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "low" / name).touch()
    (tmp_path / "low/CMakeLists.txt").unlink()
    found = find_prefix(session, str(tmp_path / "low"), Wanted(arch="arm64", toolchain="zig"))
    assert found == prefix_of(outcome)


def test_a_prefix_of_another_toolchain_is_not_taken_by_name_and_refused_by_folder(
    session: Session, tmp_path: Path, system: Installing
) -> None:
    outcome = build(session, tmp_path)
    wanted = Wanted(arch="arm64", toolchain="ohos")
    with pytest.raises(UsageError, match="has left a prefix for arm64 with ohos"):
        find_prefix(session, "low", wanted)
    with pytest.raises(UsageError, match="is for arm64 with zig, not for arm64 with ohos"):
        find_prefix(session, str(prefix_of(outcome)), wanted)


def test_a_folder_of_somebodys_with_headers_is_taken_as_it_is(session: Session, tmp_path: Path) -> None:
    (tmp_path / "theirs/include").mkdir(parents=True)
    assert find_prefix(session, str(tmp_path / "theirs"), Wanted(arch="arm32", toolchain="zig")) == tmp_path / "theirs"


def test_a_whole_system_is_no_prefix(session: Session, tmp_path: Path) -> None:
    (tmp_path / "usr/include").mkdir(parents=True)
    (tmp_path / "usr/include/stdio.h").touch()
    with pytest.raises(UsageError, match="has the headers of a C library"):
        find_prefix(session, str(tmp_path / "usr"), Wanted(arch="arm32", toolchain="zig"))


def test_pkg_config_reads_what_was_written_for_a_moved_prefix(
    session: Session, tmp_path: Path, system: Installing
) -> None:
    import shutil

    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    system.files["lib/pkgconfig/lower.pc"] = "Name: lower\nDescription: x\nVersion: 1\nLibs: -llower\n"
    moved = prefix_of(build(session, tmp_path)).rename(tmp_path / "moved")
    asked = subprocess.run(
        ["pkg-config", "--libs", "low"],
        env={"PKG_CONFIG_LIBDIR": str(moved / "lib/pkgconfig"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    words = asked.stdout.split()
    assert Path(words[0].removeprefix("-L")).resolve() == moved / "lib"
    assert {"-llow", "-lm", "-llower"} <= set(words)
