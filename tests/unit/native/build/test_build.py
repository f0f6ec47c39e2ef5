"""When something is built and when not, the reasons given, and what a build that goes wrong leaves behind."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import native.build.ensure as build_module
from core.deadline import Deadline
from core.errors import BuildError, Busy, NotEnoughSpace, ProductMissing, UnfitProduct, UnknownName, explain_exception
from core.locks import hold
from core.process import Result
from core.session import Session
from native.artifact.artifact import read_artifact
from native.build.cache import find_compiler_cache
from native.build.clean import find_builds, remove_builds, would_remove
from native.build.cmake import StatusReader, render_additions
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from native.build.job import BuildJob, explain_failure, first_errors
from native.build.plan import explain_difference
from native.recipe.recipe import load_recipe
from tests.support.build_parts import CopyingSystem, make_toolchain, small_recipe, write_recipe
from toolchains.arch import find_arch
from toolchains.host_toolchain import HostToolchain, ToolchainChoice


@dataclasses.dataclass
class Workshop:
    """A recipe, a toolchain and a build system that a test can change between builds."""

    session: Session
    folder: Path
    recipe: dict[str, Any]
    system: CopyingSystem
    toolchain: dict[str, Any]

    def build(self, *products: str, arch: str = "arm64") -> BuildOutcome:
        path = write_recipe(self.folder, self.recipe)
        return ensure_built(
            self.session, BuildRequest(target=str(path), products=products, choice=ToolchainChoice(arch=arch))
        )


@pytest.fixture
def workshop(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    system, changes = CopyingSystem(), dict[str, Any]()

    def choose(session: Session, choice: ToolchainChoice, selected: object) -> HostToolchain:
        return make_toolchain(find_arch(choice.arch), file=tmp_path / "toolchain.cmake", **changes)

    monkeypatch.setitem(build_module.SYSTEMS, "cmake", system)
    monkeypatch.setattr(build_module, "choose_toolchain", choose)
    monkeypatch.setattr(build_module, "check_compiler", lambda session, toolchain: 0.0)
    recipe = small_recipe()
    recipe["products"].append({"name": "other", "path": "bin/other", "kind": "program"})
    return Workshop(session=session, folder=tmp_path / "recipe", recipe=recipe, system=system, toolchain=changes)


def test_a_first_build_leaves_a_manifest_with_all_products(workshop: Workshop) -> None:
    outcome = workshop.build()
    assert (outcome.rebuilt, outcome.reason) == (True, "first build")
    artifact = read_artifact(outcome.artifact.folder)
    assert artifact == outcome.artifact
    assert [product.name for product in artifact.products] == ["hello", "other"]
    assert artifact.folder.parent == workshop.session.settings.builds / "hello"
    assert artifact.folder.name == f"arm64-{artifact.key}"
    assert artifact.products[0].machine == "EM_AARCH64"
    assert artifact.path_of(artifact.products[0]).stat().st_mode & 0o111


def test_a_second_build_with_nothing_changed_starts_nothing(workshop: Workshop) -> None:
    first = workshop.build()
    second = workshop.build()
    assert (second.rebuilt, second.reason) == (False, "nothing changed")
    assert second.artifact == first.artifact
    assert len(workshop.system.runs) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda w: w.toolchain.update(cpu="cortex-a55", id="2" * 64), "cpu: generic -> cortex-a55"),
        (
            lambda w: w.toolchain.update(title="a compiler 2.0", id="2" * 64),
            "toolchain: a compiler 1.0 -> a compiler 2.0",
        ),
        (lambda w: w.toolchain.update(id="2" * 64), "toolchain changed"),
        (lambda w: w.toolchain.update(name="ohos", id="2" * 64), "toolchain: zig -> ohos"),
        (lambda w: w.toolchain.update(static=False, id="2" * 64), "static: True -> False"),
        (lambda w: w.recipe["rules"][0]["options"].update(LOUD=True), "LOUD: OFF -> ON"),
        (lambda w: w.recipe["rules"].append({"compile_flags": ["-O1"]}), r"compile flags: \+-O1"),
        (lambda w: w.recipe.update(version="2"), "version: 1 -> 2"),
        (lambda w: w.recipe["products"].pop(), "list of products changed"),
    ],
)
def test_a_changed_input_goes_to_another_key_and_is_named(change: Any, reason: str, workshop: Workshop) -> None:
    first = workshop.build()
    change(workshop)
    second = workshop.build()
    assert second.rebuilt
    assert second.artifact.folder != first.artifact.folder
    assert re.fullmatch(reason, second.reason)
    assert read_artifact(first.artifact.folder) == first.artifact


def test_a_changed_source_goes_to_another_key(workshop: Workshop) -> None:
    first = workshop.build()
    (workshop.folder / "src" / "more.c").write_text("int more;\n")
    second = workshop.build()
    assert (second.rebuilt, second.reason) == (True, "source changed")
    assert second.artifact.key != first.artifact.key


def test_going_back_to_earlier_inputs_finds_the_earlier_artifact(workshop: Workshop) -> None:
    first = workshop.build()
    workshop.toolchain.update(cpu="cortex-a55", id="2" * 64)
    workshop.build()
    workshop.toolchain.clear()
    assert workshop.build() == dataclasses.replace(
        first, rebuilt=False, reason="nothing changed", seconds=pytest.approx(0, abs=60)
    )


def test_the_reason_looks_at_the_same_arch_only(workshop: Workshop) -> None:
    workshop.build()
    assert workshop.build(arch="arm32").reason == "first build"


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: path.unlink(), "product missing: hello"),
        (lambda path: path.write_bytes(b"x" * path.stat().st_size), "product altered since it was built: hello"),
        (lambda path: path.write_bytes(b""), "product altered since it was built: hello"),
    ],
)
def test_a_harmed_product_is_made_again(harm: Any, reason: str, workshop: Workshop) -> None:
    first = workshop.build()
    harm(first.artifact.path_of(first.artifact.product("hello")))
    second = workshop.build()
    assert (second.rebuilt, second.reason) == (True, reason)
    assert second.artifact == first.artifact
    assert workshop.build().reason == "nothing changed"


def test_products_are_added_to_the_same_artifact_when_they_are_asked_for(workshop: Workshop) -> None:
    first = workshop.build("hello")
    assert [product.name for product in first.artifact.products] == ["hello"]
    assert workshop.build("hello").reason == "nothing changed"
    second = workshop.build("other")
    assert (second.rebuilt, second.reason) == (True, "not built yet: other")
    assert second.artifact.folder == first.artifact.folder
    assert [product.name for product in second.artifact.products] == ["hello", "other"]
    assert workshop.build().reason == "nothing changed"
    assert workshop.system.runs == [["hello"], ["other"]]


def test_a_damaged_manifest_is_replaced(workshop: Workshop) -> None:
    first = workshop.build()
    (first.artifact.folder / "artifact.json").write_text("{")
    second = workshop.build()
    assert second.reason == "artifact.json is damaged"
    assert read_artifact(first.artifact.folder) == first.artifact


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BuildError("no")])
def test_an_interrupted_build_leaves_no_manifest_and_goes_on_later(error: BaseException, workshop: Workshop) -> None:
    def fail(job: BuildJob) -> None:
        raise error

    workshop.system.before_products = fail
    with pytest.raises(type(error)):
        workshop.build()
    (folder,) = (path for path in (workshop.session.settings.builds / "hello").iterdir() if path.is_dir())
    assert not (folder / "artifact.json").exists()
    workshop.system.before_products = lambda job: None
    outcome = workshop.build()
    assert (outcome.rebuilt, outcome.reason) == (True, "an unfinished build goes on")
    assert outcome.artifact.folder == folder


def test_a_second_process_waits_and_finds_the_work_done(workshop: Workshop) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(job: BuildJob) -> None:
        begun.set()
        assert go_on.wait(30)

    workshop.system.before_products = wait
    # Not `workshop.build`, which writes the recipe anew: the first build may be reading it.
    request = BuildRequest(
        target=str(write_recipe(workshop.folder, workshop.recipe)), choice=ToolchainChoice(arch="arm64")
    )
    outcomes: list[BuildOutcome] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(ensure_built(workshop.session, request))) for _ in range(2)
    ]
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert sorted(outcome.rebuilt for outcome in outcomes) == [False, True]
    assert outcomes[0].artifact == outcomes[1].artifact
    assert len(workshop.system.runs) == 1


def test_the_lock_of_a_build_is_not_waited_for_for_ever(workshop: Workshop, tmp_path: Path) -> None:
    folder = workshop.build().artifact.folder
    (folder / "artifact.json").unlink()
    settings = workshop.session.settings
    short = dataclasses.replace(settings, timeouts=dataclasses.replace(settings.timeouts, lock=0.2))
    workshop.session = dataclasses.replace(workshop.session, settings=short)
    program = (
        "import sys, time; from filelock import FileLock\n"
        "with FileLock(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    lock = folder.with_name(f".{folder.name}.lock")
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(Busy, match="the build of hello for arm64"):
            workshop.build()
    with hold(lock, Deadline.after(10, "the lock")):
        pass


def test_a_product_that_was_not_built_is_told_with_what_was(workshop: Workshop) -> None:
    def rename(job: BuildJob) -> None:
        (job.tree / "bin").mkdir(exist_ok=True)
        (job.tree / "bin" / "helo").write_bytes(b"\x7fELF and more")

    workshop.system.before_products = rename
    workshop.recipe["products"][0]["path"] = "bin/hello"
    original = workshop.system.run
    workshop.system.run = lambda session, job, log, deadline: original(  # type: ignore[method-assign]
        session, dataclasses.replace(job, wanted=[]), log, deadline
    )
    with pytest.raises(ProductMissing, match=r"no bin/hello in .*; there are: bin/helo"):
        workshop.build()


def test_a_product_for_another_arch_never_gets_into_an_artifact(workshop: Workshop) -> None:
    workshop.system.arch_of_products = "arm32"
    with pytest.raises(UnfitProduct, match="EM_ARM"):
        workshop.build()
    assert not list(workshop.session.settings.builds.rglob("artifact.json"))
    assert not list(workshop.session.settings.builds.rglob("out/*"))


def test_an_unknown_arch_or_product_is_told_before_anything_begins(workshop: Workshop) -> None:
    with pytest.raises(UnknownName, match="no arch 'arm46'; did you mean 'arm64'"):
        workshop.build(arch="arm46")
    with pytest.raises(UnknownName, match="no product of hello 'othr'; did you mean 'other'"):
        workshop.build("othr")
    assert workshop.system.runs == []


def test_ninjas_lines_become_progress_however_they_are_cut() -> None:
    reached: list[tuple[float, float | None]] = []
    said: list[str] = []

    class Bar:
        def advance(self, count: float) -> None: ...

        def reach(self, done: float, total: float | None = None) -> None:
            reached.append((done, total))

        def say(self, text: str) -> None:
            said.append(text)

    reader = StatusReader(Bar())
    text = (
        b"[1/3] Building C object ggml/src/CMakeFiles/ggml-base.dir/ggml.c.o\nwarning: [9/9] no\n"
        b"[2/3] Linking CXX static library src/libllama.a\n[3/3] Linking CXX executable bin/llama-cli\n"
    )
    for index in range(len(text)):
        reader.feed(text[index : index + 1])
    assert reached == [(1, 3), (2, 3), (3, 3)]
    assert said == ["ggml.c", "libllama.a", "llama-cli"]


def test_the_first_error_is_shown_and_not_the_last_lines() -> None:
    text = (
        "[1/9] Building C object a.o\n/src/a.c:3:5: warning: unused\n"
        "/src/a.c:7:1: error: unknown type name 'cpu_set_t'\n    7 | cpu_set_t x;\n      | ^\n"
        "[2/9] Building C object b.o\n" + "noise\n" * 50 + "ninja: build stopped: subcommand failed.\n"
    )
    shown = first_errors(text)
    assert shown.splitlines()[0].strip() == "/src/a.c:7:1: error: unknown type name 'cpu_set_t'"
    assert "cpu_set_t x;" in shown
    assert "ninja: build stopped" not in shown
    assert len(shown.splitlines()) <= 8


def test_without_an_error_line_the_last_lines_are_shown() -> None:
    assert first_errors("one\n\ntwo\nthree\n").split() == ["one", "two", "three"]


def _job(tmp_path: Path, **changes: Any) -> BuildJob:
    recipe = load_recipe(str(write_recipe(tmp_path, small_recipe())))
    values: dict[str, Any] = {
        "title": "hello for arm64",
        "source": tmp_path / "src",
        "tree": tmp_path / "tree",
        "toolchain": make_toolchain(),
        "build_type": "Release",
        "options": {},
        "compile_flags": [],
        "link_flags": [],
        "products": recipe.products,
        "wanted": recipe.products,
        "jobs": 1,
        "launcher": "",
        "environment": {},
        "log_path": tmp_path / "build.log",
        **changes,
    }
    return BuildJob(**values)


@pytest.mark.parametrize(
    ("output", "error", "words"),
    [
        ("fatal error: error in backend: No space left on device", NotEnoughSpace, "ran full"),
        ("zig: error: unable to execute command: Killed", BuildError, "--jobs 1"),
        ("a.c:1:1: error: no", BuildError, "a.c:1:1"),
    ],
)
def test_a_failure_is_told_by_its_cause(output: str, error: type[BuildError], words: str, tmp_path: Path) -> None:
    result = Result(argv=("ninja",), exit_code=1, stdout=output.encode(), stderr=b"", seconds=1.0)
    made = explain_failure(result, "Compiling", _job(tmp_path))
    assert type(made) is error
    assert words in made.message + made.remedy
    assert made.details["log"] == str(tmp_path / "build.log")


def test_flags_with_special_characters_reach_cmake_unharmed(tmp_path: Path) -> None:
    text = render_additions(_job(tmp_path, compile_flags=['-DTEXT="a;b ]] $x"', "-DMORE=1>0"]))
    assert '[=[$<$<COMPILE_LANGUAGE:C,CXX>:-DTEXT="a$<SEMICOLON>b ]] $x">]=]' in text
    assert "-DMORE=1$<ANGLE-R>0>" in text


def test_inputs_of_another_builder_are_told_apart_without_a_crash() -> None:
    assert explain_difference({"builder": 0, "cpu": "a"}, {"builder": 1, "cpu": "a"}) == "ohforge builds in another way"
    assert explain_difference({"cpu": "a"}, {"cpu": "a", "stl": "none"}) == "stl: unset -> none"
    assert explain_difference({"link_flags": ["-a", "-b"]}, {"link_flags": ["-b", "-a"]}) == "link flags: another order"
    assert explain_difference({"options": {"A": "1"}}, {"options": {"B": "1"}}) == "A: 1 -> unset, B: unset -> 1"


@pytest.mark.parametrize("name", ["ccache", "sccache"])
def test_a_compiler_cache_keeps_to_our_folder(
    name: str, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CCACHE_DIR", "SCCACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / name).write_text("#!/bin/sh\n")
    (bin_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(bin_folder))
    cache = find_compiler_cache(session, tree=tmp_path / "tree", log=tmp_path / "log")
    assert cache is not None
    assert cache.program == str(bin_folder / name)
    assert cache.environment[f"{name.upper()}_DIR"] == str(session.settings.cache / name)
    assert cache.hits() is None


def test_without_a_compiler_cache_there_is_none(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler_cache(session, tree=tmp_path / "tree", log=tmp_path / "log") is None


def test_the_users_own_cache_folder_is_kept(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ccache").write_text("#!/bin/sh\n")
    (tmp_path / "ccache").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CCACHE_DIR", "/mine")
    cache = find_compiler_cache(session, tree=tmp_path / "tree", log=tmp_path / "log")
    assert cache is not None
    assert "CCACHE_DIR" not in cache.environment


def test_hits_are_counted_from_ccaches_own_record(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ccache").write_text("#!/bin/sh\n")
    (tmp_path / "ccache").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    log = tmp_path / "log"
    cache = find_compiler_cache(session, tree=tmp_path / "tree", log=log)
    assert cache is not None
    log.write_text("# a.c\ndirect_cache_hit\nlocal_storage_hit\n# b.c\ncache_miss\n# c.c\npreprocessed_cache_hit\n")
    assert cache.hits() == (2, 3)


def test_builds_are_removed_by_program_and_arch_and_nothing_else(workshop: Workshop) -> None:
    kept, gone = workshop.build(arch="arm64").artifact.folder, workshop.build(arch="arm32").artifact.folder
    notes = workshop.session.settings.builds / "hello" / "my notes"
    notes.mkdir()
    removed = remove_builds(find_builds(workshop.session, program="hello", arch="arm32"))
    assert removed.folders == (gone,)
    assert removed.size > 0
    assert (kept.is_dir(), gone.exists(), notes.is_dir()) == (True, False, True)
    assert workshop.build(arch="arm64").reason == "nothing changed"
    with pytest.raises(UnknownName, match="no program that was built 'helo'; did you mean 'hello'"):
        remove_builds(find_builds(workshop.session, program="helo"))


def test_the_newest_builds_can_be_kept(workshop: Workshop) -> None:
    old = workshop.build().artifact
    workshop.toolchain.update(cpu="cortex-a55", id="2" * 64)
    new = workshop.build().artifact
    os.utime(old.folder / "artifact.json", (1, 1))
    assert remove_builds(find_builds(workshop.session, keep_newest=True)).folders == (old.folder,)
    assert read_artifact(new.folder) == new


def test_without_its_tree_an_artifact_stays_usable(workshop: Workshop) -> None:
    artifact = workshop.build().artifact
    assert remove_builds(find_builds(workshop.session, trees_only=True)).folders == (artifact.folder / "tree",)
    assert workshop.build().reason == "nothing changed"
    assert remove_builds(find_builds(workshop.session, trees_only=True)).folders == ()


def test_a_build_that_goes_on_is_not_removed(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("native.build.clean.PATIENCE", 0.1)
    refused: list[bool] = []

    def remove(job: BuildJob) -> None:
        with pytest.raises(Busy, match="the end of the build"):
            remove_builds(find_builds(workshop.session))
        refused.append(True)

    workshop.system.before_products = remove
    workshop.build()
    assert refused == [True]


def test_a_disk_that_becomes_full_under_the_log_is_no_defect(workshop: Workshop) -> None:
    folder = workshop.build().artifact.folder
    (folder / "artifact.json").unlink()
    for log in folder.glob("*.log"):
        log.unlink()
        log.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        workshop.build()
    assert explain_exception(caught.value).code == "OHF7501"


def test_four_that_remove_at_once_remove_every_build_once(workshop: Workshop) -> None:
    built = {workshop.build(arch=arch).artifact.folder for arch in ("arm32", "arm64")}
    found = find_builds(workshop.session)
    with ThreadPoolExecutor(4) as pool:
        removed = list(pool.map(remove_builds, [found] * 4))
    assert sorted(folder for each in removed for folder in each.folders) == sorted(built)
    assert [each.size for each in removed if not each.folders] == [0] * sum(not each.folders for each in removed)
    assert find_builds(workshop.session) == []


def test_what_vanishes_while_its_size_is_asked_for_takes_no_room(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workshop.build().artifact.folder
    monkeypatch.setattr(os, "walk", lambda _: [(str(folder), [], ["gone", "artifact.json"])])
    assert would_remove([folder])[0].size == (folder / "artifact.json").stat().st_size


def test_there_is_nothing_to_remove_on_a_fresh_machine(session: Session) -> None:
    assert remove_builds(find_builds(session)).folders == ()
