"""Builds on another computer: what goes there, what comes back, and what a lost link does to it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import (
    BuildError,
    ContentDiffers,
    HostKeyNotTrusted,
    HostToolMissing,
    LostConnection,
    NotEnoughSpace,
)
from core.patience import Patience
from core.session import PROJECT, Session
from deploy.build_host import host as host_module
from deploy.build_host.build import build_on, stop_on, would_build_on
from native.artifact.artifact import Artifact, read_artifact
from native.build.ensure import BuildOutcome, BuildRequest, ensure_built
from tests.integration.deploy.build_host.conftest import Host
from tests.support.typed import type_commands
from tests.support.waiting import is_alive, wait_until
from toolchains.host_toolchain import ToolchainChoice

ON = "ssh://arm-server"
SECONDS = 300
HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
MAKEFILE = "hello: hello.c\n\t$(CC) -o $@ hello.c\n"
WAITS = """\
hello: hello.c
\techo at $(GATE) && touch $(GATE).reached && while [ ! -e $(GATE) ]; do sleep 0.1; done
\t$(CC) -o $@ hello.c
"""
"""A build that waits until the file GATE is there, and says by another one that it does."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Project:
    """A project of the caller's, whose build may wait for `gate`."""

    session: Session
    folder: Path
    gate: Path

    @property
    def request(self) -> BuildRequest:
        choice = ToolchainChoice(arch="arm64", toolchain="zig")
        return BuildRequest(source=str(self.folder), options={"GATE": str(self.gate)}, choice=choice)

    @property
    def words(self) -> list[str]:
        """The same as a command."""
        words = f"build --on {ON} --toolchain zig --arch arm64 --json".split()
        return [sys.executable, "-m", "invoke", *words, "--source", str(self.folder), "--option", f"GATE={self.gate}"]

    def build(self) -> BuildOutcome:
        return build_on(self.session, ON, self.request)

    def open(self) -> None:
        self.gate.touch()

    def wait_for_compiling(self) -> None:
        wait_until("the build's first command", self.gate.with_name("gate.reached").exists)


@pytest.fixture
def project(session: Session, tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("INVOKE_OHFORGE_BUILD_DIR", session.settings.build_dir)
    folder = tmp_path / "hello-project"
    folder.mkdir()
    (folder / "hello.c").write_text(HELLO)
    (folder / "Makefile").write_text(MAKEFILE)
    return Project(session=session, folder=folder, gate=tmp_path / "gate")


@pytest.fixture
def waiting(project: Project, tmp_path: Path) -> Project:
    """One whose build waits for its gate. Its sources are of this test only."""
    (project.folder / "hello.c").write_text(f"/* {tmp_path} */\n{HELLO}")
    (project.folder / "Makefile").write_text(WAITS)
    return project


def test_what_is_built_there_is_what_would_be_built_here(
    project: Project, host: Host, shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = project.build()
    assert outcome.rebuilt
    assert outcome.artifact.folder.parent == project.session.settings.builds / "hello-project"
    assert outcome.artifact.built_on["arch"] == platform.machine()
    assert outcome.artifact.built_on["kernel"] == platform.release()
    assert "ziglang" in outcome.artifact.built_on["compiler"]
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))
    here = ensure_built(project.session.with_settings(build_dir=str(tmp_path / "here")), project.request).artifact
    assert dataclasses.replace(here, folder=outcome.artifact.folder) == outcome.artifact
    # It counts as built here, too.
    assert ensure_built(project.session, project.request).reason == "nothing changed"


def test_only_what_changed_goes_there_and_what_is_here_does_not_come_again(
    project: Project, host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    first = project.build()
    capsys.readouterr()
    again = project.build()
    said = capsys.readouterr().out
    assert "0 of " in said
    assert (again.rebuilt, again.reason, again.artifact) == (False, "nothing changed", first.artifact)
    (project.folder / "hello.c").write_text(HELLO.replace("hello", "goodbye"))
    changed = project.build()
    assert changed.artifact.key != first.artifact.key
    assert "1 of " in capsys.readouterr().out
    assert b"goodbye" in _program(changed.artifact).read_bytes()
    # One that was damaged here is fetched again, and nothing else.
    _program(changed.artifact).write_bytes(b"damaged")
    mended = project.build()
    assert (mended.rebuilt, mended.reason) == (False, f"{ON} had built it before")
    assert b"goodbye" in _program(mended.artifact).read_bytes()


def test_a_build_outlives_its_caller_and_the_same_command_takes_its_result(
    waiting: Project, host: Host, tmp_path: Path
) -> None:
    with (tmp_path / "said").open("wb") as said:
        killed = subprocess.Popen(waiting.words, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=said)
    try:
        waiting.wait_for_compiling()
        [attempt] = _attempts(host, waiting)
        wait_until("the end of what is to be shown", lambda: _seen(waiting) == (attempt / "events").stat().st_size)
    finally:
        killed.kill()
        killed.wait(timeout=60)
    assert "Building hello-project" in (tmp_path / "said").read_text()
    [attempt] = _attempts(host, waiting)
    waiting.open()
    wait_until("the end of the build", (attempt / "result.json").exists)
    done = subprocess.run(waiting.words, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=SECONDS)
    answer = json.loads(done.stdout)
    assert (answer["ok"], answer["rebuilt"]) == (True, True)
    assert answer["built_on"]["arch"] == platform.machine()
    assert _attempts(host, waiting) == [attempt]
    # What the first one has shown is not shown again.
    assert "going on where that was left" in done.stderr
    assert "Building hello-project" not in done.stderr


def test_a_lost_link_is_made_anew_and_the_build_does_not_notice(
    waiting: Project, host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut() -> None:
        waiting.wait_for_compiling()
        host.sshd.cut()
        waiting.open()

    outcome = _with(cut, waiting.build)
    assert outcome.rebuilt
    assert len(_attempts(host, waiting)) == 1
    said = capsys.readouterr().out
    assert "trying again" in said
    assert said.count("Building hello-project for arm64") == 1


def test_a_host_that_stays_away_is_told_and_the_same_command_takes_what_it_has_built(
    waiting: Project, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("build", "host"):
        monkeypatch.setattr(f"deploy.build_host.{module}.ATTEMPTS", Patience(pause=0.1, times=2))

    def cut() -> None:
        waiting.wait_for_compiling()
        host.sshd.refuses = True
        host.sshd.cut()

    try:
        with pytest.raises(LostConnection, match="hello-project for arm64 goes on") as caught:
            _with(cut, waiting.build)
    finally:
        host.sshd.refuses = False
        waiting.open()
    assert caught.value.remedy.startswith("Run the same command when the host answers")
    assert waiting.build().rebuilt
    assert len(_attempts(host, waiting)) == 1


def test_two_callers_build_once_and_both_see_it(waiting: Project, host: Host, tmp_path: Path) -> None:
    callers = []
    try:
        for number in range(2):
            words = [*waiting.words, "--verbose"]
            with (tmp_path / f"said-{number}").open("wb") as said:
                environment = {**os.environ, "INVOKE_OHFORGE_BUILD_DIR": str(tmp_path / f"builds-{number}")}
                callers.append(
                    subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, stderr=said, env=environment)
                )
            waiting.wait_for_compiling()
        second = tmp_path / "said-1"
        wait_until("the second caller", lambda: "Building hello-project for arm64" in second.read_text())
        waiting.open()
        answers = [json.loads(caller.communicate(timeout=SECONDS)[0]) for caller in callers]
    finally:
        for caller in callers:
            caller.kill()
            caller.wait(timeout=60)
    assert [answer["rebuilt"] for answer in answers] == [True, True]
    assert len(_attempts(host, waiting)) == 1
    assert "is at the same build already: following it" in second.read_text()
    assert answers[0]["products"] != answers[1]["products"]
    files = [Path(answer["products"]["hello"]).read_bytes() for answer in answers]
    assert files[0] == files[1]


def test_ctrl_c_leaves_the_build_and_says_how_it_is_ended(waiting: Project, host: Host) -> None:
    process = subprocess.Popen(waiting.words, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        waiting.wait_for_compiling()
        wait_until("the first words of the build", lambda: _seen(waiting) > 0)
        process.send_signal(signal.SIGINT)
        error = json.loads(process.communicate(timeout=SECONDS)[0])["error"]
    finally:
        process.kill()
        process.wait(timeout=60)
    assert error["category"] == "interrupted"
    assert "goes on on ssh://arm-server" in error["message"]
    assert "--stop" in error["message"]
    [attempt] = _attempts(host, waiting)
    number = int((attempt / "running").read_text())
    assert is_alive(number)
    # Whatever its sources are now: whose build it is counts.
    built = (waiting.folder / "hello.c").read_text()
    (waiting.folder / "hello.c").write_text(HELLO)
    stopped = subprocess.run([*waiting.words, "--stop"], cwd=PROJECT, capture_output=True, check=True, timeout=SECONDS)
    assert "was ended" in json.loads(stopped.stdout)["stopped"]
    assert not is_alive(number)
    assert "stopped" in json.loads((attempt / "result.json").read_text())["error"]["message"]
    assert "does not run" in stop_on(waiting.session, ON, waiting.request)
    # Of that end its caller has not heard; who wants the same now wants it built.
    (waiting.folder / "hello.c").write_text(built)
    waiting.open()
    assert waiting.build().rebuilt


def test_a_build_that_fails_there_fails_as_one_here_and_its_log_is_here(
    project: Project, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "hello.c").write_text("int main(void) { return nonsense; }\n")
    with pytest.raises(BuildError, match="use of undeclared identifier 'nonsense'") as there:
        project.build()
    log = Path(there.value.details["log"])
    assert log.is_relative_to(project.session.settings.builds)
    assert "nonsense" in log.read_text()
    assert f"The whole log: {log}" in there.value.message
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(shared_cache / "zig"))
    with pytest.raises(BuildError) as here:
        ensure_built(project.session, project.request)
    assert there.value.message == f"{here.value.message}\n(on the build host {ON})"
    assert (type(there.value), there.value.remedy) == (type(here.value), here.value.remedy)


def test_a_host_whose_build_was_killed_is_told_so_and_builds_again(waiting: Project, host: Host) -> None:
    def kill() -> None:
        waiting.wait_for_compiling()
        [attempt] = _attempts(host, waiting)
        number = int((attempt / "running").read_text())
        # As a restart of the computer does, which leaves nothing of it; each program has a group of its own.
        for process in [number, *map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split())]:
            with contextlib.suppress(ProcessLookupError):  # It may end with the one before.
                os.killpg(process, signal.SIGKILL)

    with pytest.raises(BuildError, match="without a result"):
        _with(kill, waiting.build)
    waiting.open()
    assert waiting.build().rebuilt


def test_a_file_that_was_changed_after_the_build_is_not_taken(waiting: Project, host: Host) -> None:
    waiting.open()
    outcome = waiting.build()
    [attempt] = _attempts(host, waiting)
    _program(outcome.artifact).unlink()
    folder = Path(json.loads((attempt / "result.json").read_text())["folder"])
    build = _tampering(lambda: _program(read_artifact(folder)).write_bytes(b"something else"))
    with pytest.raises(ContentDiffers, match="did not arrive"):
        build(waiting)
    assert not _program(outcome.artifact).exists()


def test_a_host_that_is_not_known_is_shown_with_its_key_and_the_way_to_accept_it(project: Project, here: Path) -> None:
    known = (here / ".ssh/known_hosts").read_text().split()[:3]
    (here / ".ssh/known_hosts").unlink()
    with pytest.raises(HostKeyNotTrusted, match="SHA256:") as caught:
        project.build()
    type_commands(caught.value.remedy)
    assert (here / ".ssh/known_hosts").read_text().split() == known


def test_a_host_without_a_python_is_told_with_what_to_install(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "FIND_PYTHON", host_module.FIND_PYTHON.replace("python3", "no-python"))
    with pytest.raises(HostToolMissing, match=r"ssh://arm-server has no Python 3\.11 or newer") as caught:
        project.build()
    assert "apt-get install python3" in caught.value.remedy


def test_a_host_whose_disk_is_full_is_told_so(project: Project, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.folder / "new.txt").write_text(str(project.folder))
    write, full = "shutil.copyfileobj(source, file, CHUNK)", "raise OSError(errno.ENOSPC, 'No space left on device')"
    text = host_module.HELPER(encoding="utf-8")
    assert write in text
    monkeypatch.setattr(host_module, "HELPER", lambda encoding: text.replace(write, full))
    with pytest.raises(NotEnoughSpace, match="disk of the build host is full") as caught:
        project.build()
    assert str(host.base) in caught.value.remedy


def test_dry_tells_what_would_go_there_and_asks_nobody(project: Project, host: Host) -> None:
    host.sshd.refuses = True
    try:
        sent, built = would_build_on(project.session, ON, project.request)
    finally:
        host.sshd.refuses = False
    assert (sent.action, sent.where, built.action) == ("send", ON, "build")
    assert sent.size is not None
    assert sent.size > len(HELLO)


def _with(during: Callable[[], None], do: Callable[[], BuildOutcome]) -> BuildOutcome:
    thread = threading.Thread(target=during)
    thread.start()
    try:
        return do()
    finally:
        thread.join()


def _tampering(tamper: Callable[[], object]) -> Callable[[Project], BuildOutcome]:
    """A build by which the files change there after they were hashed and before they are sent."""

    def build(project: Project) -> BuildOutcome:
        with pytest.MonkeyPatch.context() as patch:
            from deploy.build_host import build as module

            take = module.take_artifact

            def taken(*args: object) -> object:
                tamper()
                return take(*args)  # type: ignore[arg-type]

            patch.setattr(module, "take_artifact", taken)
            return project.build()

    return build


def _seen(project: Project) -> int:
    """How many bytes of the events of a build this computer has noted as shown."""
    notes = [json.loads(path.read_text()) for path in (project.session.settings.cache / "build-hosts").glob("*.json")]
    return sum(note["seen"] for note in notes)


def _attempts(host: Host, project: Project) -> list[Path]:
    """Those of the builds that wait for the project's gate."""
    return [path for path in host.attempts if str(project.gate) in (path / "request.json").read_text()]


def _program(artifact: Artifact) -> Path:
    return artifact.path_of(artifact.product("hello"))
