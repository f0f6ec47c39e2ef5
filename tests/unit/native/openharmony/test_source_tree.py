"""OpenHarmony source trees: recognised, their products and components found, what is missing named before a build."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from core.check import Check
from core.errors import InvalidData, NotASourceTree, TreeNotReady, UnknownName
from native.openharmony import failures
from native.openharmony.failures import diagnose, load_failures, plain_text, succeeded
from native.openharmony.prerequisites import (
    Machine,
    check_prerequisites,
    load_table,
    require_prerequisites,
    safe_jobs,
)
from native.openharmony.tree import find_component, find_product, find_tree, list_products, load_components
from tests.support.source_tree import make_tree, write

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 242892406\n"
MACHINE = Machine(
    kernel="Linux",
    processor="x86_64",
    system="Ubuntu 20.04",
    shell="bash",
    memory=33_000_000_000,
    free_disk=200_000_000_000,
    path="/usr/bin:/bin",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


def states(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.state for check in checks}


@pytest.mark.parametrize(("release", "level"), [("3.2.11.9", 9), ("5.0.0.71", 12)])
def test_a_tree_is_found_from_below_with_its_release(tmp_path: Path, release: str, level: int) -> None:
    root = make_tree(tmp_path / "tree", release=release, level=level)
    tree = find_tree(root / "foundation" / "ai")
    assert (tree.root, tree.release, tree.api_level) == (root, release, level)
    assert tree.title == f"OpenHarmony {release} (API {level})"


def test_a_tree_without_its_links_is_told_from_no_tree(root: Path, tmp_path: Path) -> None:
    with pytest.raises(NotASourceTree, match="There is no folder"):
        find_tree(tmp_path / "nowhere")
    with pytest.raises(NotASourceTree, match=r"no file \.gn in it or above it"):
        find_tree(tmp_path)
    (root / "build.sh").unlink()
    assert find_tree(root).script == root / "build" / "build_scripts" / "build.sh"
    (root / "build" / "build_scripts" / "build.sh").unlink()
    with pytest.raises(NotASourceTree, match="not synced whole"):
        find_tree(root)
    write(root / "build" / "build_scripts" / "build.sh", "")
    (root / ".gn").unlink()
    with pytest.raises(NotASourceTree, match=r"has build\.sh but no \.gn"):
        find_tree(root)


def test_a_tree_that_does_not_say_its_version_is_one_all_the_same(root: Path) -> None:
    (root / "build" / "version.gni").unlink()
    assert (find_tree(root).api_level, find_tree(root).title) == (0, "OpenHarmony of unknown release")


def test_products_have_the_components_of_the_files_that_they_inherit(root: Path) -> None:
    tree = find_tree(root)
    assert [product.name for product in list_products(tree)] == ["broken", "ohos-sdk", "rk3568"]
    product = find_product(tree, "rk3568")
    assert (product.cpu, product.board) == ("arm", "rk3568")
    assert product.components == ("hilog", "mindspore", "neural_network_runtime", "webview")


def test_an_unknown_product_or_component_is_answered_with_the_nearest(root: Path) -> None:
    tree = find_tree(root)
    with pytest.raises(UnknownName, match="did you mean 'rk3568'"):
        find_product(tree, "rk3658")
    for wrong, near in (
        ("neural_network_runtimes", "neural_network_runtime"),
        ("hilogg", "hilog"),
        ("webviw", "webview"),
    ):
        with pytest.raises(UnknownName, match=f"did you mean '{near}'"):
            find_component(tree, find_product(tree, "rk3568"), wrong)


def test_a_component_is_known_by_table_bundle_product_or_label(root: Path) -> None:
    tree = find_tree(root)
    product = find_product(tree, "rk3568")
    nnrt = find_component(tree, product, "neural_network_runtime")
    assert nnrt.folder == root / "foundation" / "ai" / "neural_network_runtime"
    assert nnrt.headers == (nnrt.folder / "interfaces" / "kits" / "c",)
    assert find_component(tree, product, "hilog").folder == root / "base" / "hiviewdfx" / "hilog"
    assert find_component(tree, product, "webview").folder is None
    label = find_component(tree, product, "//base/hiviewdfx/hilog:libhilog")
    assert (label.target, label.folder) == ("//base/hiviewdfx/hilog:libhilog", root / "base" / "hiviewdfx" / "hilog")


def test_the_build_target_is_spelled_as_the_release_spells_it(root: Path) -> None:
    tree = find_tree(root)
    product = find_product(tree, "rk3568")
    assert find_component(tree, product, "mindspore_lib").target == "mindspore-lib"
    write(root / "third_party" / "mindspore" / "BUILD.gn", 'ohos_group("mindspore_lib") {}\n')
    assert find_component(tree, product, "mindspore_lib").target == "mindspore_lib"


def test_a_good_machine_and_a_whole_tree_have_nothing_missing(root: Path) -> None:
    tree = find_tree(root)
    component = find_component(tree, find_product(tree, "rk3568"), "mindspore_lib")
    checks = check_prerequisites(tree, component, MACHINE)
    assert {state for name, state in states(checks).items() if name != "programs"} == {"ok"}
    require_prerequisites(checks)


@pytest.mark.parametrize(
    ("change", "name", "state"),
    [
        ({"kernel": "Darwin"}, "system", "missing"),
        ({"processor": "aarch64"}, "system", "doubtful"),
        ({"system": "Ubuntu 22.04"}, "system", "doubtful"),
        ({"shell": "dash"}, "/bin/sh", "doubtful"),
        ({"memory": 8_000_000_000}, "memory", "doubtful"),
        ({"free_disk": 50_000_000_000}, "disk space", "doubtful"),
        ({"free_disk": 1_000_000_000}, "disk space", "missing"),
        ({"path": "/nowhere"}, "programs", "doubtful"),
    ],
)
def test_what_a_machine_lacks_is_named_with_what_to_type(
    root: Path, change: dict[str, str | int], name: str, state: str
) -> None:
    checks = check_prerequisites(find_tree(root), None, replace(MACHINE, **change))  # type: ignore[arg-type]
    found = [check for check in checks if (check.name, check.state) == (name, state)]
    assert found
    assert found[0].remedy


def test_without_bash_and_git_nothing_is_built(root: Path) -> None:
    checks = check_prerequisites(find_tree(root), None, replace(MACHINE, path="/nowhere"))
    with pytest.raises(TreeNotReady, match="without bash, git, python3") as caught:
        require_prerequisites(checks)
    assert caught.value.remedy == "sudo apt-get install bash git python3"
    assert caught.value.exit_status == 77


def test_prebuilts_that_were_never_downloaded_are_named(root: Path) -> None:
    (root / "prebuilts" / "build-tools" / "linux-x86" / "bin" / "gn").unlink()
    [check] = [check for check in check_prerequisites(find_tree(root), None, MACHINE) if check.name == "prebuilts"]
    assert (check.state, check.found) == ("missing", "the tree's own gn were not downloaded")
    assert "build/prebuilts_download.sh" in check.remedy


def test_a_pointer_of_git_lfs_in_place_of_the_archive_is_found_before_the_build(root: Path) -> None:
    archive = write(root / "third_party" / "mindspore" / "mindspore-v2.1.0.zip", POINTER)
    assert 120 <= archive.stat().st_size <= 140
    tree = find_tree(root)
    checks = check_prerequisites(tree, find_component(tree, find_product(tree, "rk3568"), "mindspore_lib"), MACHINE)
    [check] = [check for check in checks if check.name == "git-lfs"]
    assert check.found == "third_party/mindspore/mindspore-v2.1.0.zip is a pointer of git-lfs, not the file"
    assert check.remedy.endswith("git lfs install && git lfs pull")


def test_a_component_that_was_not_synced_is_found_before_the_build(root: Path) -> None:
    tree = find_tree(root)
    component = find_component(tree, find_product(tree, "rk3568"), "drivers_interface_nnrt")
    [check] = [check for check in check_prerequisites(tree, component, MACHINE) if check.name == "sources"]
    assert check.state == "missing"
    assert check.remedy.endswith("repo sync -c drivers/interface/nnrt")


def test_a_release_whose_build_changes_the_home_folder_is_told(tmp_path: Path) -> None:
    tree = find_tree(make_tree(tmp_path / "tree", level=12, release="5.0.0.71"))
    assert states(check_prerequisites(tree, None, MACHINE))["home folder"] == "doubtful"


def test_jobs_follow_memory_unless_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(64))
    assert safe_jobs(replace(MACHINE, memory=16_000_000_000), 0) == 8
    assert safe_jobs(replace(MACHINE, memory=500_000_000), 0) == 1
    assert safe_jobs(MACHINE, 5) == 5


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("prebuilts-missing", "\x1b[33m Please execute the build/prebuilts_download.sh \x1b[0m"),
        (
            "prebuilts-missing",
            "[OHOS ERROR]  There is no gn executable file at /t/prebuilts/build-tools/linux-x86/bin/ninja",
        ),
        ("no-source-tree", "\x1b[31m[OHOS ERROR] Cannot find source tree containing /home/me\x1b[0m"),
        ("node-version", "\x1b[31m[OHOS ERROR] Node.js version mismatch. Expected 14.21.1 but found v18.1.0\x1b[0m"),
        ("ohpm", "\x1b[31m[OHOS ERROR] ohpm initialization failed!\x1b[0m"),
        ("sdk-build", "[OHOS ERROR] ohos-sdk build failed! You can try to use '--no-prebuilt-sdk' to skip it"),
        ("unsupported-host", "Unsupported host platform: FreeBSD"),
        ("unknown-product", "Exception: product rk3658@None not found"),
        ("unknown-target", "ninja: error: unknown target 'mindspore_lib', did you mean 'mindspore-lib'?"),
        ("unpacked-pointer", "zipfile.BadZipFile: File is not a zip file"),
        ("disk-full", "OSError: [Errno 28] No space left on device: 'out/rk3568/obj/x.o'"),
        ("killed", "clang: error: unable to execute command: Killed"),
        ("killed", "c++: fatal error: Killed signal terminated program cc1plus"),
        ("killed", "LLVM ERROR: out of memory"),
        ("old-ninja", "ninja: invalid option -- w"),
        ("ncurses", "/usr/bin/ld: cannot find -lncurses"),
        ("mtools", "./build.sh: line 12: mcopy: command not found"),
        ("python-crypto", "ModuleNotFoundError: No module named 'Crypto'"),
        ("python-module", "ModuleNotFoundError: No module named 'jinja2'"),
        ("dash", "./build.sh: 40: [: Linux: unexpected operator"),
        ("command-missing", "/bin/sh: 1: ruby: not found"),
        ("patch-failed", "error: patch failed: mindspore/lite/BUILD.gn:93"),
        ("gn", "ERROR at //foundation/ai/neural_network_runtime/BUILD.gn:17:1: Unable to load file."),
        ("network", "curl: (6) Could not resolve host: repo.example.org"),
        ("compile", "../../foundation/ai/a.cpp:3:10: fatal error: 'nnrt.h' file not found"),
        ("compile", "ld.lld: error: undefined symbol: OH_NNModel_Construct"),
        ("ninja", "ninja: build stopped: subcommand failed."),
        ("unnamed", "[OHOS ERROR]  BUILD Failed! Please check build log for more information: out/build.log"),
    ],
)
def test_every_known_failure_has_its_name_from_the_line_that_the_build_prints(name: str, line: str) -> None:
    log = f"[1/300] CXX a.o\n{line}\n\x1b[31m=====build  error=====\x1b[0m\n".encode()
    found = diagnose(plain_text(log))
    assert found.name == name
    assert found.evidence in plain_text(log)
    assert found.remedy


def test_every_entry_of_the_table_is_in_the_test_above() -> None:
    [mark] = test_every_known_failure_has_its_name_from_the_line_that_the_build_prints.pytestmark  # type: ignore[attr-defined]
    assert {row[0] for row in mark.args[1]} == {failure.name for failure in load_failures()}


def test_a_log_without_a_known_line_is_said_to_be_so() -> None:
    found = diagnose("one\ntwo\n")
    assert (found.name, found.evidence) == ("", "two")
    assert diagnose("").name == ""


def test_the_advice_to_use_bash_is_no_failure() -> None:
    advice = "Your system shell isn't bash, we recommend you to use bash, because pushd: not found"
    assert diagnose(f"{advice}\n").name == ""


def test_success_is_seen_through_colours_and_with_and_without_a_product_name() -> None:
    for name in ("", "rk3568"):
        assert succeeded(plain_text(f"\x1b[32m=====build {name} successful=====\x1b[0m\n".encode()))
    assert not succeeded("=====build  error=====")


def test_the_tables_say_what_is_wrong_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, complaint in (
        ("- name: x\n", "must have name, pattern"),
        ("- {", "is not YAML: line"),
        ("- 3\n", "not a table"),
    ):
        monkeypatch.setattr(failures, "FILE", write(tmp_path / "failures.yaml", text))
        with pytest.raises(InvalidData, match=complaint):
            load_failures.__wrapped__()


def test_components_and_prerequisites_are_tables_of_their_form() -> None:
    assert {"neural_network_runtime", "mindspore_lib"} <= set(load_components())
    assert all(
        re.fullmatch(r"lib[\w.+-]+\.so", name) for row in load_components().values() for name in row["libraries"]
    )
    assert load_table()["memory"] == 16_000_000_000
