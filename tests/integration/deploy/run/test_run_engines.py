"""Runs by the agent and by the shell: both must tell the same of a program, and leave the same behind.

The board is a folder of this computer with its real shell, and the agent is compiled for this computer's CPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    AgentUnavailable,
    BuildError,
    ConditionsNotMet,
    ContentDiffers,
    MissingLibrary,
    OhforgeError,
    PermissionOnBoard,
    ProgramCrashed,
    ProgramFailed,
)
from core.session import Session
from deploy.agent import agent as agent_module
from deploy.agent.agent import BuiltAgents
from deploy.run.conditions import read_conditions
from deploy.run.execute import execute
from deploy.run.record import validate_record
from deploy.run.result import RunOutcome
from deploy.transfer.placement import FileToPlace
from native.recipe.runspec import MetricPattern, RunSpec
from tests.support.agents import build_agent
from tests.support.local_board import LocalBoard
from tests.support.run_requests import make_request
from tests.support.waiting import is_alive
from toolchains.arch import ARCHES

ARCH = next(arch.name for arch in ARCHES.values() if platform.machine() in arch.uname_machines)


@pytest.fixture
def built(shared_cache: Path) -> BuiltAgents:
    agent = build_agent(shared_cache, ARCH)
    return {ARCH: (agent.path, hashlib.sha256(agent.path.read_bytes()).hexdigest())}


@pytest.fixture(params=["agent", "shell"])
def engine(request: pytest.FixtureRequest, built: BuiltAgents, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(agent_module, "_built", lambda session: built)
    return str(request.param)


@pytest.fixture
def with_agent(built: BuiltAgents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "_built", lambda session: built)


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


Run = Callable[..., RunOutcome]


@pytest.fixture
def run(session: Session, board: LocalBoard, tmp_path: Path) -> Iterator[Run]:
    """Runs a shell script as the program; its status is handed on unless it is said otherwise."""

    def once(script: str | bytes, **changes: Any) -> RunOutcome:
        program = tmp_path / "program"
        program.write_bytes(script if isinstance(script, bytes) else f"#!/bin/sh\n{script}\n".encode())
        return execute(session, board, make_request(program, **{"pass_status": True, **changes}))

    yield once
    assert not list((board.folder / "ohforge/runs").glob("*")), "a run's folder is left"


def read_record(where: RunOutcome | OhforgeError) -> dict[str, Any]:
    folder = where.record if isinstance(where, RunOutcome) else Path(where.details["record"])
    content = json.loads((folder / "record.json").read_text())
    validate_record(content)
    return dict(content)


# what both tell ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 2, 124, 125, 126, 127, 128, 129, 137, 139, 255])
def test_every_exit_status_is_the_programs_own(run: Run, engine: str, status: int) -> None:
    outcome = run(f"exit {status}", run_engine=engine)
    assert (outcome.exit_code, outcome.run_engine) == (status, engine)
    record = read_record(outcome)
    assert record["run_engine"] == {"name": engine, "reason": "asked for"}
    assert record["state"] == ("done" if status == 0 else "failed")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGILL", "SIGABRT", "SIGTERM"])
def test_a_signal_is_named(run: Run, engine: str, name: str) -> None:
    number = signal.Signals[name]
    outcome = run(f"kill -{number.value} $$; sleep 5", run_engine=engine)
    assert outcome.exit_code == 128 + number
    assert read_record(outcome)["result"]["signal"] == name


def test_only_the_agent_tells_a_signal_from_a_status_that_looks_like_one(run: Run, engine: str) -> None:
    record = read_record(run("exit 139", run_engine=engine))
    assert record["result"]["signal"] == ("" if engine == "agent" else "SIGSEGV")


def test_the_errors_of_a_models_program_are_the_same(run: Run, engine: str) -> None:
    with pytest.raises(ProgramFailed, match=r"status 3\.\ncannot load"):
        run("echo cannot load >&2; exit 3", run_engine=engine, pass_status=False)
    with pytest.raises(ProgramCrashed, match=r"SIGILL \(status 132\)"):
        run("kill -ILL $$", run_engine=engine, pass_status=False)


def test_arguments_and_environment_arrive_as_they_are(run: Run, engine: str) -> None:
    words = ("", "a b", "it's", '"', "$HOME", "*", "`id`", "\\", "模", "-n", "--", "--env=X=1")
    environment = {"A": "1\n'2' \"$A\"\n", "EMPTY": "", "PATH": "/no/where", "LD_LIBRARY_PATH": "/a b"}
    script = 'printf "<%s>" "$@" "$A" "$EMPTY" "$PATH" "$LD_LIBRARY_PATH"'
    outcome = run(script, run_engine=engine, arguments=words, environment=environment)
    assert outcome.output.decode() == "".join(f"<{word}>" for word in (*words, *environment.values()))


def test_libraries_that_travel_come_before_what_was_there(run: Run, engine: str, tmp_path: Path) -> None:
    (tmp_path / "libx.so").write_bytes(b"x")
    files = (
        FileToPlace(local=tmp_path / "program", name="program", executable=True),
        FileToPlace(local=tmp_path / "libx.so", name="lib/libx.so"),
    )
    script = 'cat "${LD_LIBRARY_PATH%%:*}/libx.so"; echo "${LD_LIBRARY_PATH#*:}"'
    environment = {"LD_LIBRARY_PATH": "/mine"}
    outcome = run(script, run_engine=engine, files=files, library_folder="lib", environment=environment)
    assert outcome.output == b"x/mine\n"


def test_input_is_at_its_end(run: Run, engine: str) -> None:
    outcome = run("cat; read -r x; echo $?", run_engine=engine)
    assert (outcome.exit_code, outcome.output) == (0, b"1\n")


def test_output_is_kept_byte_for_byte(run: Run, engine: str) -> None:
    everything = bytes(range(256)) * 300 + b"no newline at the end"
    octal = "".join(f"\\{number:03o}" for number in range(256))
    script = f"i=0; while [ $i -lt 300 ]; do printf '{octal}'; i=$((i+1)); done; printf 'no newline at the end'"
    outcome = run(script, run_engine=engine)
    assert outcome.output == everything
    assert (outcome.record / "output.log").read_bytes() == everything


def test_a_flood_is_logged_whole_and_its_end_is_kept(run: Run, engine: str) -> None:
    outcome = run("head -c 20000000 /dev/zero; echo end", run_engine=engine)
    assert (outcome.record / "output.log").stat().st_size == 20_000_004
    assert outcome.output.endswith(b"\0end\n")
    assert len(outcome.output) <= 8 * 1024 * 1024 + 64 * 1024


def test_no_output_is_no_error(run: Run, engine: str) -> None:
    outcome = run(":", run_engine=engine)
    assert (outcome.output, (outcome.record / "output.log").read_bytes()) == (b"", b"")


def test_streams_are_apart_by_the_agent_and_merged_by_the_shell(run: Run, engine: str, session: Session) -> None:
    # The next line comes when the last has been read: of what both streams hold at once nobody knows the order.
    read = f'until grep -q "$1" {session.settings.runs}/*/output.log; do sleep 0.01; done'
    script = f"read_is() {{ {read}; }}\n"
    script += 'for i in 1 2 3; do echo out $i; read_is "out $i"; echo err $i >&2; read_is "err $i"; done; printf last'
    outcome = run(script, run_engine=engine)
    merged = b"".join(b"out %d\nerr %d\n" % (i, i) for i in (1, 2, 3)) + b"last"
    assert outcome.output == (outcome.record / "output.log").read_bytes() == merged
    files = {name: outcome.record / name for name in ("stdout.log", "stderr.log")}
    if engine == "agent":
        assert files["stdout.log"].read_bytes() == b"out 1\nout 2\nout 3\nlast"
        assert files["stderr.log"].read_bytes() == b"err 1\nerr 2\nerr 3\n"
    else:
        assert not any(file.exists() for file in files.values())


@pytest.mark.parametrize("detached", [True, False])
def test_what_a_program_leaves_running_is_ended(run: Run, engine: str, tmp_path: Path, detached: bool) -> None:
    note = tmp_path / "pid"
    start = "setsid" if detached else ""
    loop = f"trap '' TERM; echo $$ >{note}; while :; do sleep 0.1; done"
    script = f'{start} sh -c "{loop.replace("$", chr(92) + "$")}" >/dev/null 2>&1 </dev/null &'
    outcome = run(f"{script}\nwhile ! [ -s {note} ]; do sleep 0.05; done; exit 4", run_engine=engine)
    assert outcome.exit_code == 4
    assert not is_alive(int(note.read_text()))
    left = read_record(outcome)["result"]["left_running"]
    assert left is None if engine == "shell" else left >= 1


def test_patterns_read_whole_lines_of_either_stream(run: Run, engine: str) -> None:
    spec = RunSpec(
        model="gguf",
        product="program",
        arguments=(),
        metrics=(MetricPattern(pattern=re.compile(r"speed = (?P<speed>\d+) /s"), units={"speed": "1/s"}),),
        complete=(re.compile(r"^the end$", re.MULTILINE),),
    )
    script = "printf 'speed = '; echo noise >&2; sleep 0.05; echo '7 /s'; echo the end >&2"
    if engine == "shell":
        script = "echo noise >&2; echo 'speed = 7 /s'; echo the end >&2"
    assert run(script, run_engine=engine, spec=spec).metrics == {"speed": {"value": 7.0, "unit": "1/s"}}


def test_a_recipe_that_needs_the_order_of_writing_gets_it(run: Run, engine: str) -> None:
    spec = RunSpec(model="gguf", product="program", arguments=(), merged_output=True)
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done"
    outcome = run(script, run_engine=engine, spec=spec)
    assert outcome.output == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 10))
    assert not (outcome.record / "stdout.log").exists()


# conditions ----------------------------------------------------------------------------------------


def test_a_program_runs_under_the_conditions_that_were_asked_for(run: Run, engine: str) -> None:
    wanted = ["core=0", "files=100", "cpu=77", "memory=4G", "stack=1M", "file-size=512k"]
    conditions = read_conditions(limits=wanted, cpus="0", nice=5)
    script = (
        "cat /proc/self/limits; grep Cpus_allowed_list /proc/self/status; awk '{print \"nice\", $19}' /proc/self/stat"
    )
    outcome = run(script, run_engine=engine, conditions=conditions)
    rows = {line[:26].strip(): line[26:].split()[:2] for line in outcome.output.decode().splitlines()}
    assert rows["Max open files"] == ["100", "100"]
    assert rows["Max core file size"] == ["0", "0"]
    assert rows["Max cpu time"] == ["77", "77"]
    assert rows["Max address space"] == [str(4 * 1024**3)] * 2
    assert rows["Max stack size"] == [str(1024**2)] * 2
    assert rows["Max file size"] == [str(512 * 1024)] * 2
    assert b"Cpus_allowed_list:\t0\n" in outcome.output
    # The shell's nice adds to what it has, which on a board is 0; the tests may be run with less.
    niceness = 5 + (os.nice(0) if engine == "shell" else 0)
    assert f"nice {niceness}\n" in outcome.output.decode()
    assert read_record(outcome)["command"]["limits"]["nofile"] == 100


@pytest.mark.parametrize(
    "conditions",
    [{"limits": ["nofile=999999999999"]}, {"cpus": "1000"}],
    ids=["limit above the hard one", "no such CPU"],
)
def test_a_condition_that_the_board_refuses_keeps_the_program_from_being_started(
    run: Run, engine: str, conditions: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ConditionsNotMet) as caught:
        run(f": >{tmp_path}/started", run_engine=engine, conditions=read_conditions(**conditions))
    assert not (tmp_path / "started").exists()
    assert read_record(caught.value)["state"] == "failed"


# programs that the board does not start ------------------------------------------------------------


def test_an_interpreter_that_is_not_there_is_named(run: Run, engine: str) -> None:
    with pytest.raises(MissingLibrary, match="the interpreter /no/such/bash is not on board"):
        run(b"#!/no/such/bash\necho never\n", run_engine=engine)


def test_a_refusal_to_execute_is_told_from_a_programs_own_status(
    run: Run, engine: str, board: LocalBoard, tmp_path: Path
) -> None:
    assert run("echo ./program: permission denied >&2; exit 126", run_engine="agent").exit_code == 126
    board.replies = {"^@@xpm.*$": "@@xpm 1"}
    data = (FileToPlace(local=tmp_path / "program", name="program", executable=False),)
    with pytest.raises(PermissionOnBoard, match=r"refuses to execute program.*signed code \(xpm_mode 1\)"):
        run("# never placed as a program\nexit 0", run_engine=engine, files=data)


# what only the agent tells -------------------------------------------------------------------------


@pytest.mark.usefixtures("with_agent")
def test_what_the_program_used_is_in_the_record(run: Run) -> None:
    outcome = run("x=$(head -c 20000000 /dev/zero | tr '\\0' a); sleep 0.2; echo ${#x}", run_engine="agent")
    used = read_record(outcome)["usage"]
    assert used == outcome.usage
    # The text is in the shell's memory at least once, and nowhere near a gigabyte.
    assert 20_000_000 < used["max_rss_bytes"] < 10**9
    assert used["wall_seconds"] >= 0.2
    assert used["first_output_seconds"] >= 0.2
    assert used["user_seconds"] > 0


@pytest.mark.usefixtures("with_agent")
def test_samples_are_a_file_of_the_record(run: Run) -> None:
    outcome = run("sleep 1", run_engine="agent", conditions=read_conditions(sample_seconds=0.1))
    record = read_record(outcome)
    lines = (outcome.record / "samples.jsonl").read_text().splitlines()
    assert record["samples"] == {"file": "samples.jsonl", "count": len(lines), "lost": 0, "interval_seconds": 0.1}
    assert len(lines) >= 2
    assert all(json.loads(line)["available_bytes"] > 0 for line in lines)


@pytest.mark.usefixtures("with_agent")
def test_a_warm_run_by_the_agent_takes_two_commands_on_the_board(run: Run, board: LocalBoard) -> None:
    assert run("true", run_engine="auto").run_engine == "agent"
    board.calls.clear()
    assert run("true", run_engine="auto").run_engine == "agent"
    assert board.calls == ["shell", "shell"]


@pytest.mark.usefixtures("with_agent")
def test_the_agent_verifies_what_is_sent_and_refuses_what_was_damaged(run: Run, board: LocalBoard) -> None:
    assert read_record(run("true # first", run_engine="agent"))["transfer"]["hash_tool"] == "agent"

    def damage(remote: str) -> None:
        path = Path(remote)
        path.write_bytes(path.read_bytes().replace(b"other", b"0ther"))

    board.on_send = damage
    with pytest.raises(ContentDiffers, match="by agent"):
        run("true # other", run_engine="agent")


# boards without an agent ---------------------------------------------------------------------------


def test_what_cannot_be_built_is_done_by_the_shell_and_the_record_says_why(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(session: Session, arch: str) -> tuple[Path, str]:
        raise BuildError("there is no compiler")

    monkeypatch.setattr(agent_module, "build_agent", fail)
    outcome = run("exit 3", run_engine="auto")
    assert (outcome.exit_code, outcome.run_engine, outcome.usage) == (3, "shell", None)
    reason = f"no agent: it cannot be built for {ARCH}: there is no compiler"
    assert read_record(outcome)["run_engine"] == {"name": "shell", "reason": reason}
    assert f"run engine: shell ({reason})" in capsys.readouterr().out
    with pytest.raises(AgentUnavailable, match="there is no compiler"):
        run("exit 3", run_engine="agent")
    with pytest.raises(AgentUnavailable, match="sampled"):
        run("exit 3", run_engine="auto", conditions=read_conditions(sample_seconds=1))


def test_an_agent_that_does_not_run_is_sent_once_and_not_again(
    run: Run, board: LocalBoard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "ohforge-agent"
    broken.write_bytes(b"\x7fELF of no use at all")
    built = {ARCH: (broken, hashlib.sha256(broken.read_bytes()).hexdigest())}
    monkeypatch.setattr(agent_module, "_built", lambda session: built)
    for _ in range(2):
        outcome = run("exit 0", run_engine="auto")
        assert (outcome.exit_code, outcome.run_engine) == (0, "shell")
        assert "it does not run there" in read_record(outcome)["run_engine"]["reason"]
    board.calls.clear()
    run("exit 0", run_engine="auto")
    assert board.calls == ["shell", "shell"]


@pytest.mark.usefixtures("with_agent")
def test_an_agent_that_vanishes_before_the_run_is_an_error_that_names_it(run: Run, board: LocalBoard) -> None:
    run("true", run_engine="agent")

    def remove(script: str) -> None:
        if "--deadline" in script:
            for path in (board.folder / "ohforge/agent").glob("*"):
                path.unlink()

    board.on_shell = remove
    with pytest.raises(OhforgeError, match="agent"):
        run("true", run_engine="agent")
