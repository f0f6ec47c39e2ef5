"""``ohforge`` from any folder: version, help, completion, settings, and ``--dry``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from invoke import Collection

from commands.collection import ns
from commands.command import Answer, command
from commands.program import OhforgeProgram
from core.session import PROJECT, Session

OHFORGE = Path(sys.executable).with_name("ohforge")
CHANGING = {
    *("bench.export", "bench.llama", "bench.mslite"),
    *("board.clean", "board.lock", "board.pull", "board.push", "board.reboot", "board.run", "board.shell"),
    *("board.unlock", "build.build", "build.clean", "data.fetch", "demo", "eval.gsm8k", "eval.regrade"),
    *("board.info", "model.fetch", "model.fit", "model.inspect", "model.quantize", "report"),
    *("sdk.fetch", "sdk.remove", "source.build", "toolchain.env", "toolchain.presets", "toolchain.render"),
    *("study.report", "study.run"),
}
READING = {
    *("bench.compare", "bench.list", "bench.verify"),
    *("board.list", "board.logs", "board.wait", "build.list", "data.list", "doctor", "eval.grade", "model.list"),
    *("sdk.info", "sdk.list", "sdk.verify", "source.check", "source.explain"),
    *("study.plan", "study.status"),
}


@command(help={}, changes=True)
def write(session: Session) -> Answer:
    """Changes something, and knows nothing of --dry."""
    return Answer({"wrote": True})


@command(help={}, changes=True, dry=True)
def plan(session: Session) -> Answer:
    """Changes something, or says what it would change."""
    return Answer({"dry": session.dry})


@command(help={})
def read(session: Session) -> Answer:
    """Changes nothing."""
    return Answer({"dry": session.dry})


def call(words: str, capsys: pytest.CaptureFixture[str], namespace: Collection = ns) -> tuple[int, str]:
    """Status and standard output of a call in this process."""
    try:
        OhforgeProgram(namespace=namespace).run(f"ohforge {words}")
    except SystemExit as end:
        return int(end.code or 0), capsys.readouterr().out
    return 0, capsys.readouterr().out


def ohforge(*words: str, folder: Path, **environment: str) -> str:
    """What the installed program prints when it is called in `folder`."""
    environment = {**os.environ, "HOME": str(folder), **environment}
    done = subprocess.run([OHFORGE, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_says_its_version(tmp_path: Path) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert ohforge("--version", folder=tmp_path) == f"ohforge {project['version']}\n"


def test_invoke_in_the_clone_and_ohforge_anywhere_have_the_same_tasks(tmp_path: Path) -> None:
    theirs = subprocess.run(
        [sys.executable, "-m", "invoke", "--list"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    assert ohforge("--list", folder=tmp_path) == theirs
    assert len(re.findall(r"^  [a-z]", theirs, re.MULTILINE)) == len(CHANGING | READING)


def test_the_nearest_projects_settings_hold_and_variables_win_over_them(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "src" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "invoke.yaml").write_text("ohforge: {board: outer, toolchain: zig}\n")
    (tmp_path / "project" / "invoke.yaml").write_text("ohforge: {boards: {bench: {profile: nosuch}}}\n")
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [OHFORGE, "board.list", "--json"]
    done = subprocess.run(command, cwd=inner, env=environment, capture_output=True, text=True, check=False)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["category"]) == (65, "configuration")
    assert str(tmp_path / "project" / "invoke.yaml") in error["message"]
    environment["INVOKE_OHFORGE_JOBS"] = "many"
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    message = json.loads(done.stdout)["error"]["message"]
    assert message.startswith("INVOKE_OHFORGE_JOBS: ohforge.jobs must be a whole number")


def test_a_settings_file_that_is_no_yaml_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "invoke.yaml").write_text("ohforge: [\n")
    status, out = call("sdk.list --json", capsys)
    assert (status, json.loads(out)["error"]["code"]) == (65, "OHF6501")


@pytest.mark.parametrize(
    ("words", "full", "status"),
    [
        (("model.list",), ("stdout",), 75),
        (("model.list", "--json"), ("stdout",), 75),
        (("model.list", "--verbose"), ("stdout",), 75),
        (("--list",), ("stdout",), 75),
        (("--version",), ("stdout", "stderr"), 75),
        (("nosuch",), ("stderr",), 64),
    ],
)
def test_a_full_disk_behind_the_output_is_no_defect(
    tmp_path: Path, words: tuple[str, ...], full: tuple[str, ...], status: int
) -> None:
    with Path("/dev/full").open("w") as device:
        streams = {name: device if name in full else subprocess.PIPE for name in ("stdout", "stderr")}
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run([OHFORGE, *words], cwd=tmp_path, env=environment, text=True, check=False, **streams)
    assert done.returncode == status
    if "stderr" not in full:
        assert "error OHF7501 (space)" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_disk_that_becomes_full_under_a_task_is_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    @command(help={})
    def fill(session: Session) -> Answer:
        """Writes where there is no room."""
        Path("/dev/full").write_text("x")
        return Answer()

    namespace = Collection(fill)
    namespace.configure({"ohforge": {}})
    status, out = call("fill --json --verbose", capsys, namespace)
    assert (status, json.loads(out)["error"]["code"]) == (75, "OHF7501")


def test_a_module_of_the_users_that_is_called_invoke_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "invoke.py").write_text("raise SystemExit('run')\n")
    assert json.loads(ohforge("model.list", "--json", folder=tmp_path))["ok"] is True


def test_builds_are_looked_for_below_the_folder_in_which_ohforge_is_called(tmp_path: Path) -> None:
    (tmp_path / "invoke.yaml").write_text("ohforge: {build_dir: out}\n")
    inner = tmp_path / "inner"
    artifact = inner / "out" / "hello" / "arm64-0123456789ab"
    artifact.mkdir(parents=True)
    (artifact / "artifact.json").write_text("{}")
    done = subprocess.run([OHFORGE, "build.clean", "--json"], cwd=inner, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["folders"] == [str(artifact)], done.stderr


def test_words_are_read_without_what_only_their_tasks_need() -> None:
    """Each of these floors takes longer to be imported than a short command takes on a board."""
    floors = ("bench", "deploy", "native")
    code = f"import sys, commands.program; print([name for name in sys.modules if name.split('.')[0] in {floors}])"
    read = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert read.stdout == "[]\n"


def test_help_of_a_task_is_shown_however_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {call(words, capsys) for words in ("board.run --help", "--help board.run", "--help=board.run")}
    ((status, text),) = shown
    assert status == 0
    assert "--prompt" in text


def test_completion_knows_tasks_and_their_flags(tmp_path: Path) -> None:
    assert "complete -F _complete_ohforge" in ohforge("--print-completion-script", "bash", folder=tmp_path)
    assert "board.run" in ohforge("--complete", "--", "ohforge", "boa", folder=tmp_path).split()
    for typed in ("--", "--b"):
        flags = ohforge("--complete", "--", "ohforge", "board.push", "a", typed, folder=tmp_path).split()
        assert {"--board", "--wait", "--json"} <= set(flags)


def test_help_shows_a_value_for_every_flag_that_takes_one(capsys: pytest.CaptureFixture[str]) -> None:
    switches = {"--json", "--verbose", "--static", "--fp16"}
    status, text = call("board.run --help", capsys)
    assert status == 0
    specs = re.findall(r"^  (--[a-z0-9-]+)(=[A-Z]+)?", text.partition("Options:")[2], re.MULTILINE)
    assert {flag for flag, value in specs if not value} == switches
    assert {"--timeout": "=FLOAT", "--env": "=STRING", "--tokens": "=INT"}.items() <= dict(specs).items()
    assert call("board.run --help", capsys) == (0, text)


def test_every_task_says_whether_it_changes_something() -> None:
    assert {name for name in ns.task_names if ns[name].changes} == CHANGING
    assert {name for name in ns.task_names if ns[name].dry} == CHANGING
    assert {name for name in ns.task_names if not ns[name].changes} == READING


@pytest.mark.parametrize("words", ["--dry {}", "{} --dry", "{} -R"])
def test_dry_reaches_the_tasks_that_know_it_and_refuses_those_that_know_nothing_of_it(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = Collection(write, plan, read)
    namespace.configure({"ohforge": {}})
    assert call("plan --json", capsys, namespace) == (0, '{\n  "ok": true,\n  "dry": false\n}\n')
    for task, dry in (("plan", True), ("read", False)):
        status, out = call(words.format(task) + " --json", capsys, namespace)
        assert (status, json.loads(out)) == (0, {"ok": True, "dry": dry})
    status, out = call(words.format("write") + " --json", capsys, namespace)
    assert (status, json.loads(out)["error"]["code"]) == (64, "OHF6401")
    assert json.loads(call("write --json", capsys, namespace)[1])["wrote"] is True
