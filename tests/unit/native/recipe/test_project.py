"""A project of the user's: what builds it, what of its folder is source, and which of the built files are products."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import native.build.ensure as build_module
from core.errors import NothingToBuild, OhforgeError, ProductMissing, SourceError, UnfitProduct, UnknownName, UsageError
from core.files import sha256_folder
from core.session import Session
from native.artifact.artifact import read_artifact
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.build.found import needed_libraries
from native.build.job import BuildJob
from native.recipe.project import name_of, read_options, read_project
from native.source.tree import SOURCE_TIME, copy_sources, hash_sources, list_sources
from tests.support.build_parts import CopyingSystem, make_toolchain, small_recipe, write_recipe
from tests.support.tiny_elf import write_arm32, write_arm64
from toolchains.arch import find_arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice


def write_files(folder: Path, *names: str, text: str = "int x;\n") -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


# what builds it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "system", "taken"),
    [
        (["CMakeLists.txt"], "", "cmake"),
        (["meson.build"], "", "meson"),
        (["configure"], "", "make"),
        (["Makefile"], "", "make"),
        (["GNUmakefile"], "", "make"),
        (["Makefile", "meson.build", "CMakeLists.txt"], "", "cmake"),
        (["Makefile", "meson.build", "CMakeLists.txt"], "make", "make"),
        (["Makefile", "meson.build"], "meson", "meson"),
    ],
)
def test_what_builds_a_project_is_seen_from_its_files(
    files: list[str], system: str, taken: str, session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = read_project(session, str(write_files(tmp_path / "app", *files)), system)
    assert recipe.build.system == taken
    said = capsys.readouterr().out
    assert f"build system: {taken} (" in said
    for file, name in (("CMakeLists.txt", "cmake"), ("meson.build", "meson"), ("Makefile", "make")):
        if file in files and name != taken:
            assert f"{file} is there as well: --system {name} takes it" in said


def test_the_main_file_itself_may_be_named(session: Session, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "app", "meson.build", "CMakeLists.txt")
    assert read_project(session, str(folder / "CMakeLists.txt")).folder == folder


def test_a_recipe_in_the_source_is_taken(session: Session, tmp_path: Path) -> None:
    file = write_recipe(tmp_path / "carried", {**small_recipe(), "version": "7"})
    write_files(file.parent, "Makefile")
    recipe = read_project(session, str(file.parent))
    assert (recipe.version, [product.name for product in recipe.products]) == ("7", ["hello"])
    assert read_project(session, str(file.parent), "make").finds_products


@pytest.mark.parametrize(
    ("files", "system", "message", "remedy"),
    [
        ([], "", "is empty", "Name the folder"),
        (
            ["main.c"],
            "",
            "has none of recipe.yaml, CMakeLists.txt, meson.build, Cargo.toml, configure, .*Makefile",
            "Name the folder",
        ),
        (["main.c", "code/meson.build"], "", "has none of", "Did you mean --source '.*/app/code'"),
        (["configure.ac", "main.c"], "", "configure.ac, but not the configure", "autoreconf -i"),
        (["CMakeLists.txt"], "make", "none of configure, .*; there is CMakeLists.txt", "Leave --system away"),
    ],
)
def test_a_folder_that_cannot_be_built_is_told_with_what_was_looked_for(
    files: list[str], system: str, message: str, remedy: str, session: Session, tmp_path: Path
) -> None:
    (tmp_path / "app").mkdir()
    with pytest.raises(NothingToBuild, match=message) as caught:
        read_project(session, str(write_files(tmp_path / "app", *files)), system)
    assert re.search(remedy, caught.value.remedy or "")


@pytest.mark.parametrize(("name", "message"), [("nowhere", "does not exist"), ("file.txt", "is a file")])
def test_a_source_that_is_no_folder_is_refused(name: str, message: str, session: Session, tmp_path: Path) -> None:
    (tmp_path / "file.txt").touch()
    with pytest.raises(NothingToBuild, match=message):
        read_project(session, str(tmp_path / name))


def test_a_build_system_that_nobody_knows_is_refused_with_the_nearest(session: Session, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'cmake'"):
        read_project(session, str(write_files(tmp_path, "CMakeLists.txt")), "cmke")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("Hello World", "hello-world"),
        ("zlib-1.3.1", "zlib-1-3-1"),
        ("7zip", "project-7zip"),
        ("приложение", "project"),
        ("llama", "llama-project"),
        ("tool/src", "tool"),
    ],
)
def test_the_name_comes_from_the_folder(folder: str, name: str) -> None:
    assert name_of(Path("/home/me") / folder) == name


def test_options_are_names_with_values_and_the_later_one_counts() -> None:
    words = ["A=1", "-DB:STRING=x=y", "A=2", "C=", "--enable-fast", "with-lib=no"]
    assert read_options(words) == {"A": "2", "B:STRING": "x=y", "C": "", "enable-fast": "", "with-lib": "no"}
    for wrong in ("A", "=1", "--", ""):
        with pytest.raises(UsageError, match="NAME=VALUE"):
            read_options([wrong])


# what is source ------------------------------------------------------------------------------------


def test_version_control_and_builds_are_no_source(tmp_path: Path) -> None:
    write_files(tmp_path, "main.c", "lib/part.c", "build.ninja.in")
    before = hash_sources(tmp_path)
    write_files(
        tmp_path, ".git/HEAD", "out/CMakeCache.txt", "out/x", "b/meson-private/c", "t/CACHEDIR.TAG", ".vscode/a"
    )
    write_files(tmp_path, "mine/artifact.json")
    (tmp_path / "empty").mkdir()
    assert hash_sources(tmp_path, [tmp_path / "mine"]) == before
    assert hash_sources(tmp_path) != before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "main.c").write_text("int y;\n"),
        lambda folder: (folder / "main.c").rename(folder / "other.c"),
        lambda folder: (folder / "main.c").chmod(0o755),
        lambda folder: (folder / "new.c").touch(),
        lambda folder: (folder / "link").symlink_to("main.c"),
        lambda folder: (folder / "lib/part.c").unlink(),
    ],
)
def test_every_change_of_a_source_changes_the_hash(change: Callable[[Path], Any], tmp_path: Path) -> None:
    write_files(tmp_path, "main.c", "lib/part.c")
    before = hash_sources(tmp_path)
    assert before == sha256_folder(tmp_path)
    change(tmp_path)
    assert hash_sources(tmp_path) != before


def test_what_an_earlier_configure_has_left_is_no_source(tmp_path: Path) -> None:
    names = ["configure", "configure.in", "Makefile.in", "sub/Makefile.in", "config.h.in", "main.c", "plain/Makefile"]
    write_files(tmp_path, *names)
    before = list_sources(tmp_path)
    left = [
        "config.status",
        "config.log",
        "Makefile",
        "sub/Makefile",
        "config.h",
        ".deps/main.Po",
        "sub/.libs/a.so",
        "a.la",
    ]
    write_files(tmp_path, *left)
    assert list_sources(tmp_path) == before


def test_in_a_copy_make_takes_every_source_for_newer_than_what_was_built_before(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "a b", "main.c", "sub/read only.h")
    (folder / "sub/read only.h").chmod(0o444)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("main.c")
    write_arm64(folder / "main", b"old\n")
    (folder / "libx.a").write_bytes(b"!<arch>\n")
    copy_sources(folder, tmp_path / "copy")
    times = {path.name: int(path.lstat().st_mtime) for path in list_sources(tmp_path / "copy")}
    assert times["main.c"] == times["read only.h"] == times["run.sh"] == SOURCE_TIME
    assert times["main"] == times["libx.a"] < SOURCE_TIME
    assert (tmp_path / "copy/link").readlink() == Path("main.c")
    assert os.access(tmp_path / "copy/run.sh", os.X_OK)
    assert hash_sources(tmp_path / "copy") == hash_sources(folder)


def test_a_source_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    write_files(tmp_path, "secret.c")
    monkeypatch.setattr("native.source.tree.sha256_file", refuse)
    with pytest.raises(SourceError, match=r"secret\.c belongs to the source but cannot be read: Permission denied"):
        hash_sources(tmp_path)


# which of the built files are products ---------------------------------------------------------------


@dataclasses.dataclass
class Project:
    """A project whose build leaves what a test says."""

    session: Session
    folder: Path
    system: CopyingSystem

    def build(self, *products: str, **changes: Any) -> BuildOutcome:
        return ensure_built(
            self.session,
            BuildRequest(source=str(self.folder), products=products, **changes, choice=ToolchainChoice(arch="arm64")),
        )

    def leaves(self, *names: str, arch: str = "arm64") -> None:
        def write(job: BuildJob) -> None:
            for name in names:
                (job.tree / name).parent.mkdir(parents=True, exist_ok=True)
                {"arm64": write_arm64, "arm32": write_arm32}[arch](job.tree / name, name.encode())
            job = dataclasses.replace(job, wanted=())

        self.system.before_products = write


class FindingSystem(CopyingSystem):
    """Leaves only what a test says; installs what lies in the tree's folder ``installed``."""

    def run(self, session: Session, job: BuildJob, *rest: Any) -> None:
        super().run(session, dataclasses.replace(job, wanted=()), *rest)
        self.runs[-1] = [product.name for product in job.wanted]

    def install(self, session: Session, job: BuildJob, *rest: Any) -> str:
        if (job.tree / "installed").is_dir():
            shutil.copytree(job.tree / "installed", job.staging / "usr")
            return ""
        return "there is none"


@pytest.fixture
def project(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    def choose(session: Session, choice: ToolchainChoice, selected: object) -> HostToolchain:
        return make_toolchain(find_arch(choice.arch), file=tmp_path / "toolchain.cmake")

    project = Project(session, write_files(tmp_path / "app", "CMakeLists.txt", "main.c"), FindingSystem())
    monkeypatch.setitem(build_module.SYSTEMS, "cmake", project.system)
    monkeypatch.setattr(build_module, "choose_toolchain", choose)
    monkeypatch.setattr("native.build.perform.check_compiler", lambda session, toolchain: 0.0)
    return project


def names_of(outcome: BuildOutcome) -> list[str]:
    return [product.name for product in outcome.artifact.products]


def test_all_programs_of_the_tree_are_products_and_nothing_is_done_twice(project: Project) -> None:
    project.leaves("bin/app", "tests/check", "CMakeFiles/3.0/a.out", "main.c.o")
    first = project.build()
    assert (names_of(first), first.reason) == (["app", "check"], "first build")
    assert read_artifact(first.artifact.folder) == first.artifact
    assert project.build().reason == "nothing changed"
    (project.folder / "main.c").write_text("int y;\n")
    assert project.build().reason == "source changed"


def test_what_a_project_installs_are_its_products(project: Project) -> None:
    project.leaves("bin/app", "bin/check", "installed/bin/app")
    assert names_of(project.build()) == ["app"]
    outcome = project.build("check")
    assert (names_of(outcome), outcome.reason) == (["app", "check"], "not built yet: check")
    assert project.build().reason == "nothing changed"


def test_a_product_by_name_does_not_stand_for_all(project: Project) -> None:
    project.leaves("app", "check")
    assert names_of(project.build("check")) == ["check"]
    assert project.build("check").reason == "nothing changed"
    outcome = project.build()
    assert (names_of(outcome), outcome.reason) == (["app", "check"], "not built yet: the other products")
    assert project.system.runs == [["check"], []]
    with pytest.raises(UnknownName, match="did you mean 'app'"):
        project.build("ap")


def test_programs_of_one_name_are_told_apart_by_their_folders(project: Project) -> None:
    project.leaves("app", "one/test", "two/test")
    assert names_of(project.build()) == ["app", "test", "two-test"]


def test_a_tool_for_the_building_machine_is_no_product(project: Project) -> None:
    def write(job: BuildJob) -> None:
        write_arm64(job.tree / "app", b"app")
        write_arm32(job.tree / "generator", b"made with the other compiler")

    project.system.before_products = write
    assert names_of(project.build()) == ["app"]
    with pytest.raises(UnfitProduct, match="generator is for EM_ARM"):
        project.build("generator")


@pytest.mark.parametrize(
    ("names", "arch", "error", "message"),
    [
        ((), "arm64", ProductMissing, "no program and no shared library"),
        (("app",), "arm32", UnfitProduct, r"nothing that it has left is for arm64 .*: app \(EM_ARM, 32 bits\)"),
    ],
)
def test_a_build_that_leaves_nothing_for_the_board_is_an_error(
    names: tuple[str, ...], arch: str, error: type[OhforgeError], message: str, project: Project
) -> None:
    project.leaves(*names, arch=arch)
    with pytest.raises(error, match=message):
        project.build()
    assert not list(project.session.settings.builds.rglob("artifact.json"))


def test_a_source_that_changes_while_it_is_built_leaves_no_artifact(project: Project) -> None:
    def change(job: BuildJob) -> None:
        write_arm64(job.tree / "app", b"app")
        (project.folder / "main.c").write_text("int changed;\n")

    project.system.before_products = change
    with pytest.raises(SourceError, match="changed while it was being built"):
        project.build()
    assert not list(project.session.settings.builds.rglob("artifact.json"))
    assert names_of(project.build()) == ["app"]


def test_builds_and_runs_below_the_project_are_no_part_of_it(project: Project) -> None:
    settings = project.session.settings
    inside = dataclasses.replace(
        settings, build_dir=str(project.folder / "build"), runs_dir=str(project.folder / "runs")
    )
    project.session = dataclasses.replace(project.session, settings=inside)
    project.leaves("app")
    project.build()
    write_files(project.folder, "runs/one/record.json")
    assert project.build().reason == "nothing changed"


def test_options_and_the_build_type_are_part_of_the_key(project: Project) -> None:
    project.leaves("app")
    project.build(options={"LOUD": "ON"})
    assert project.build(options={"LOUD": "OFF"}).reason == "LOUD: ON -> OFF"
    assert project.build(options={"LOUD": "OFF"}, build_type="debug").reason == "build type: Release -> Debug"
    with pytest.raises(UnknownName, match="'Release'"):
        project.build(build_type="Relese")
    with pytest.raises(UsageError, match="enable-fast"):
        project.build(options={"enable-fast": ""})


def test_an_option_of_the_users_wins_over_the_recipes(project: Project, tmp_path: Path) -> None:
    file = write_recipe(tmp_path / "carried", small_recipe())
    with pytest.raises(ProductMissing):
        ensure_built(
            project.session,
            BuildRequest(source=str(file.parent), options={"GREETING": "x{y}"}, choice=ToolchainChoice(arch="arm64")),
        )
    project.system.before_products = lambda job: (
        (job.tree / "bin").mkdir(exist_ok=True),  # type: ignore[func-returns-value]
        write_arm64(job.tree / "bin/hello", b"hello"),
    )[0]
    request = BuildRequest(source=str(file.parent), options={"GREETING": "x{y}"}, choice=ToolchainChoice(arch="arm64"))
    assert ensure_built(project.session, request).artifact.inputs["options"] == {"GREETING": "x{y}", "LOUD": "OFF"}


def test_libraries_are_needed_directly_or_through_others() -> None:
    files = {"liba.so": ["libb.so", "libc.so"], "libb.so": ["liba.so"], "libz.so": []}
    assert needed_libraries({**files, "app": ["liba.so"]}, ["app"]) == ["liba.so", "libb.so"]
    assert needed_libraries({**files, "app": ["libc.so"]}, ["app"]) == []
