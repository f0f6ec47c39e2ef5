"""``source.build`` in a folder that looks like an OpenHarmony source tree, with a build.sh that prints as the real one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from core.deadline import Deadline
from core.errors import (
    Busy,
    DeadlineExpired,
    NotEnoughSpace,
    ProductMissing,
    SourceBuildFailed,
    TreeNotReady,
    UnfitProduct,
)
from core.files import sha256_file
from core.locks import hold
from core.session import PROJECT, Session
from deploy.emulator.board.boards import list_emulated, stop_board
from native.openharmony.build import SourceBuildOutcome, SourceBuildRequest, build_component
from native.openharmony.record import SCHEMA_FILE
from tests.support.source_tree import make_fail, make_tree, write
from tests.support.waiting import LONG_ENOUGH, is_alive, wait_until

SCHEMA = json.loads(SCHEMA_FILE.read_text())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


def build(session: Session, root: Path, component: str = "neural_network_runtime", **fields: Any) -> SourceBuildOutcome:
    return build_component(session, SourceBuildRequest(component=component, tree=root, **fields))


def only_record(session: Session) -> dict[str, Any]:
    [folder] = session.settings.runs.iterdir()
    content: dict[str, Any] = json.loads((folder / "record.json").read_text())
    jsonschema.validate(content, SCHEMA)
    return content


def test_a_good_build_leaves_libraries_headers_log_and_record(session: Session, root: Path) -> None:
    outcome = build(session, root, jobs=3, ccache=True)
    names = ["libneural_network_core.so", "libneural_network_runtime.so"]
    assert sorted(path.name for path in outcome.libraries.iterdir()) == names
    assert (outcome.libraries / names[0]).read_bytes() == (root / "made" / "arm.so").read_bytes()
    header = outcome.record / "outputs" / "include" / "neural_network_runtime" / "neural_network_core.h"
    assert header.read_text() == "#pragma once\n"
    words = "--product-name rk3568 --target-cpu arm --build-target neural_network_runtime --ccache --jobs 3"
    assert (root / "called").read_text().strip() == words
    record = only_record(session)
    assert (record["state"], record["exit_status"], record["arch"]) == ("done", 0, "arm32")
    assert record["steps"] == {"done": 300, "total": 300}
    assert record["outputs"][0]["source"] == "out/rk3568/ai/neural_network_runtime/libneural_network_core.so"
    assert b"successful" in (outcome.record / "build.log").read_bytes()


def test_another_cpu_another_release_and_a_component_without_a_table(session: Session, tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree", level=12, release="5.0.0.71", no_prebuilt_sdk=True)
    outcome = build(session, root, "hilog", cpu="arm64", jobs=1)
    assert [path.name for path in outcome.libraries.iterdir()] == ["libhilog.z.so"]
    assert (outcome.record / "outputs" / "include" / "hilog" / "log.h").is_file()
    assert (root / "called").read_text().split()[-1] == "--no-prebuilt-sdk"
    assert only_record(session)["prerequisites"][-1]["name"] == "home folder"


def test_mindspore_is_built_under_the_name_that_the_release_gives_it(session: Session, root: Path) -> None:
    outcome = build(session, root, "mindspore_lib")
    assert outcome.target == "mindspore-lib"
    assert sorted(path.name for path in outcome.libraries.iterdir()) == [
        "libmindspore-lite.so",
        "libmindspore_lite_ndk.so",
    ]


FAILURES = {
    "unknown-target": "ninja: error: unknown target 'mindspore_lib', did you mean 'mindspore-lib'?",
    "killed": "clang: error: unable to execute command: Killed",
    "mtools": "build/scripts/build_image.sh: line 7: mcopy: command not found",
    "compile": "../../foundation/ai/a.cpp:3:10: fatal error: 'nnrt.h' file not found",
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_known_failure_has_its_sentence_its_remedy_and_its_line_in_the_record(
    session: Session, root: Path, name: str
) -> None:
    make_fail(root, "[301/400] CXX obj/x.o", FAILURES[name])
    with pytest.raises(SourceBuildFailed) as caught:
        build(session, root)
    assert FAILURES[name] in caught.value.message
    assert caught.value.exit_status == 69
    record = only_record(session)
    assert (record["state"], record["exit_status"]) == ("failed", 1)
    assert (record["failure"]["name"], record["failure"]["evidence"]) == (name, FAILURES[name])
    assert record["error"]["remedy"] == caught.value.remedy
    assert record["steps"] == {"done": 301, "total": 400}


def test_what_stands_only_in_the_trees_error_log_is_found_and_kept(session: Session, root: Path) -> None:
    old = write(root / "out" / "rk3568" / "error.log", "LLVM ERROR: out of memory")
    os.utime(old, (1, 1))
    make_fail(root, "[OHOS ERROR]  BUILD Failed! Please check build log for more information: out/rk3568/build.log")
    with pytest.raises(SourceBuildFailed) as caught:
        build(session, root)
    assert caught.value.details["failure"] == "unnamed"
    scenario = root / "scenario.sh"
    scenario.write_text(f"echo '/bin/sh: 1: ruby: not found' > {old}\n{scenario.read_text()}")
    with pytest.raises(SourceBuildFailed, match="ruby: not found") as caught:
        build(session, root)
    assert caught.value.details["failure"] == "command-missing"
    assert (Path(caught.value.details["log"]).parent / "error.log").read_text() == "/bin/sh: 1: ruby: not found\n"


def test_a_full_disk_is_an_error_of_space(session: Session, root: Path) -> None:
    make_fail(root, "OSError: [Errno 28] No space left on device: 'out/rk3568/obj/x.o'")
    with pytest.raises(NotEnoughSpace):
        build(session, root)
    assert only_record(session)["failure"]["name"] == "disk-full"


def test_a_build_that_is_killed_says_by_which_signal(session: Session, root: Path) -> None:
    make_fail(root, "[301/400] CXX obj/x.o", status="kill -KILL $$")
    with pytest.raises(SourceBuildFailed, match="ended with signal 9"):
        build(session, root)
    assert only_record(session)["exit_status"] == 137


def test_status_0_without_the_line_of_success_is_a_failure(session: Session, root: Path) -> None:
    make_fail(root, "[OHOS ERROR] something new", status="exit 0")
    with pytest.raises(SourceBuildFailed, match="status 0, but without the line"):
        build(session, root)
    assert only_record(session)["failure"]["name"] == "unknown"


def test_a_build_that_leaves_no_library_or_one_of_another_arch_is_a_failure(session: Session, root: Path) -> None:
    with pytest.raises(ProductMissing, match="there is no a library of webview"):
        make_fail(root, status="echo '=====build  successful====='; exit 0")
        build(session, root, "webview")
    (root / "scenario.sh").unlink()
    (root / "made" / "arm.so").write_bytes((root / "made" / "arm64.so").read_bytes())
    with pytest.raises(UnfitProduct, match="not for arm32"):
        build(session, root)


def test_what_is_missing_is_said_before_anything_is_started(session: Session, root: Path) -> None:
    write(
        root / "third_party" / "mindspore" / "mindspore-v2.1.0.zip",
        "version https://git-lfs.github.com/spec/v1\n" + "x" * 90,
    )
    with pytest.raises(TreeNotReady, match="pointer of git-lfs"):
        build(session, root, "mindspore_lib")
    assert not (root / "called").exists()
    assert not session.settings.runs.exists()
    build(session, root, "mindspore_lib", ignore_checks=True)
    assert (root / "called").exists()


def test_a_build_that_takes_too_long_is_ended_with_all_that_it_started(session: Session, root: Path) -> None:
    make_fail(root, status=f"echo $$ > {root}/pid; sleep 300 & echo $! > {root}/child; wait")
    for seconds in LONG_ENOUGH:
        shutil.rmtree(session.settings.runs, ignore_errors=True)
        with pytest.raises(DeadlineExpired, match="No end of the build of neural_network_runtime"):
            build(session, root, timeout=seconds)
        record = only_record(session)
        assert (record["state"], record["exit_status"], record["failure"]) == ("timeout", None, None)
        assert record["seconds"] >= seconds
        if (root / "child").is_file() and (root / "child").read_text():
            break
    for name in ("pid", "child"):
        process = int((root / name).read_text())
        wait_until(f"the end of {name}", lambda process=process: not is_alive(process))  # type: ignore[misc]


def test_two_builds_in_one_tree_take_turns(session: Session, root: Path, tmp_path: Path) -> None:
    make_fail(
        root, status=f"touch {root}/begun; while [ ! -f {root}/go ]; do sleep 0.05; done; rm -f {root}/scenario.sh"
    )
    first = threading.Thread(target=build, args=(session, root))
    first.start()
    wait_until("the beginning of the build", (root / "begun").exists)
    [lock] = (session.settings.cache / "locks").iterdir()
    with pytest.raises(Busy), hold(lock, Deadline.after(0.2, "the test")):
        pass
    write(root / "go", "")
    first.join(30)
    assert only_record(session)["state"] == "done"


def invoke(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "invoke", "--search-root", str(PROJECT), *words]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=120)


def test_the_commands_answer_in_json_and_with_a_status_for_each_kind_of_failure(root: Path, tmp_path: Path) -> None:
    folder = root / "foundation"
    good = invoke("source.build", "--jobs", "1", "--json", folder=folder)
    assert good.returncode == 0, good.stderr
    answer = json.loads(good.stdout)
    assert answer["ok"] is True
    assert Path(answer["libraries"]).is_dir()
    checked = invoke("source.check", "--component", "mindspore_lib", "--json", folder=folder)
    assert (checked.returncode, json.loads(checked.stdout)["products"]) == (0, ["broken", "ohos-sdk", "rk3568"])
    unknown = invoke("source.build", "--product", "rk3658", "--json", folder=folder)
    assert (unknown.returncode, json.loads(unknown.stdout)["error"]["code"]) == (64, "OHF6402")
    nowhere = invoke("source.build", "--tree", str(tmp_path), "--json", folder=folder)
    assert (nowhere.returncode, json.loads(nowhere.stdout)["error"]["code"]) == (64, "OHF6405")
    make_fail(root, "LLVM ERROR: out of memory")
    failed = invoke("source.build", "--json", folder=folder)
    error = json.loads(failed.stdout)["error"]
    assert (failed.returncode, error["code"], error["details"]["failure"]) == (69, "OHF6906", "killed")
    explained = invoke("source.explain", error["details"]["log"], "--json", folder=folder)
    assert json.loads(explained.stdout)["failure"] == "killed"


def test_the_built_libraries_are_pushed_to_a_board(root: Path) -> None:
    """Both ways: with the build, and afterwards from the record, as the command's last line says."""
    target = "/data/local/tmp/nnrt"
    try:
        built = invoke(
            *("source.build", "--jobs", "1", "--push-to", f"{target}/", "--board", "dayu200", "--json"), folder=root
        )
        assert built.returncode == 0, built.stderr
        answer = json.loads(built.stdout)
        local = {path.name: sha256_file(path) for path in Path(answer["libraries"]).iterdir()}
        assert sorted(local) == ["libneural_network_core.so", "libneural_network_runtime.so"]
        assert (answer["pushed"]["target"], answer["pushed"]["bytes_sent"] > 0) == (f"{target}/", True)
        words = ("board.push", answer["libraries"], "/data/local/tmp/later/", "--board", "dayu200", "--json")
        assert invoke(*words, folder=root).returncode == 0
        for place in (target, "/data/local/tmp/later"):
            listed = invoke(
                "board.shell", "--board", "dayu200", "--json", "--", f"sha256sum {place}/lib/*", folder=root
            )
            lines = json.loads(listed.stdout)["output"].splitlines()
            assert {Path(line.split()[1]).name: line.split()[0] for line in lines} == local
    finally:
        for board in list_emulated(Path(os.environ["OHFORGE_DATA_DIR"]) / "boards"):
            stop_board(board)


def test_ctrl_c_ends_the_build_and_the_record_says_so(root: Path) -> None:
    make_fail(root, status=f"echo $$ > {root}/pid.new; mv {root}/pid.new {root}/pid; sleep 300")
    words = [sys.executable, "-m", "invoke", "--search-root", str(PROJECT), "source.build"]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            wait_until("the beginning of the build", (root / "pid").exists)
            os.kill(process.pid, signal.SIGINT)
            said = process.communicate(timeout=60)[0]
        finally:
            process.kill()
    assert process.returncode == 79, said
    assert "what it had started were ended" in said
    wait_until("its end", lambda: not is_alive(int((root / "pid").read_text())))
    [folder] = (root / "runs").iterdir()
    record = json.loads((folder / "record.json").read_text())
    jsonschema.validate(record, SCHEMA)
    assert record["state"] == "interrupted"
