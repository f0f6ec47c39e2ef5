"""Runs on a board that is a folder with a real shell: what comes back, what is recorded, what is left behind."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from core.deadline import Deadline
from core.errors import (
    DeadlineExpired,
    Interrupted,
    LostConnection,
    MissingLibrary,
    NoSpaceOnBoard,
    NotEnoughMemory,
    OhforgeError,
    PermissionOnBoard,
    ProgramCrashed,
    ProgramFailed,
    RemoteFileMissing,
    RunError,
    WrongArch,
)
from core.files import sha256_file
from core.session import Session
from deploy.inspect import Survey
from deploy.preflight import Binary, check_binaries, check_tuning, question_for
from deploy.record import signal_name, validate_record
from deploy.run import RunOutcome, RunRequest, execute
from deploy.transfer import FileToPlace
from native.models import Model
from native.runspec import MetricPattern, RunSpec
from tests.support.local_board import LocalBoard

SPEC = RunSpec(
    model="gguf",
    product="program",
    arguments=(),
    metrics=(MetricPattern(pattern=re.compile(r"speed = (?P<speed>[\w.]+)"), units={"speed": "tokens/s"}),),
    facts=(re.compile(r"cpu: (?P<cpu>.*)"),),
    complete=(re.compile(r"^the end$", re.MULTILINE),),
)


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def request_for(tmp_path: Path) -> Any:
    def make(script: str, **changes: Any) -> RunRequest:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        file = FileToPlace(local=program, name="program", executable=True)
        values: dict[str, Any] = {
            "program": "demo",
            "engine": "demo 1.0",
            "executable": "program",
            "files": (file, *changes.pop("further", ())),
            "timeout": 20.0,
        }
        return RunRequest(**{**values, **changes})

    return make


def read_record(where: RunOutcome | OhforgeError) -> dict[str, Any]:
    folder = where.record if isinstance(where, RunOutcome) else Path(where.details["record"])
    content = json.loads((folder / "record.json").read_text())
    validate_record(content)
    return dict(content)


def folders_left(board: LocalBoard) -> list[str]:
    return [path.name for path in (board.folder / "ohforge/runs").glob("*")]


# how a program ends --------------------------------------------------------------------------------


def test_a_run_leaves_a_record_and_nothing_on_the_board_but_the_store(
    session: Session, board: LocalBoard, request_for: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    outcome = execute(session, board, request_for("printf 'a\\nb'", arguments=("x y",), environment={"A": "it's"}))
    assert (outcome.exit_code, outcome.output) == (0, b"a\nb")
    record = read_record(outcome)
    assert (record["state"], record["result"]["exit_code"], record["result"]["attempts"]) == ("done", 0, 1)
    assert record["command"]["words"] == ["./program", "x y"]
    assert record["command"]["environment"] == {"A": "it's"}
    assert record["board"]["facts"]["machine"] == os.uname().machine
    assert record["transfer"]["files_sent"] == 1
    assert record["times"]["started"] <= record["times"]["ended"]
    assert (outcome.record / "output.log").read_bytes() == b"a\nb"
    assert b"a\nb" in capfdbinary.readouterr().out
    assert folders_left(board) == []


def test_arguments_and_environment_arrive_as_they_are(session: Session, board: LocalBoard, request_for: Any) -> None:
    words = ("", "a b", "it's", '"', "$HOME", "*", "`id`", "\\", "模", "-n")
    request = request_for('printf "<%s>" "$@" "$A"', arguments=words, environment={"A": "1\n'2'"})
    assert execute(session, board, request).output.decode() == "".join(f"<{word}>" for word in (*words, "1\n'2'"))


def test_a_warm_run_takes_two_commands_on_the_board(session: Session, board: LocalBoard, request_for: Any) -> None:
    execute(session, board, request_for("true"))
    board.calls.clear()
    assert read_record(execute(session, board, request_for("true")))["transfer"]["bytes_sent"] == 0
    assert board.calls == ["shell", "shell"]


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("exit 125", 125), ("kill -SEGV $$", 139)])
def test_the_status_of_a_users_program_is_handed_on(
    session: Session, board: LocalBoard, request_for: Any, script: str, status: int
) -> None:
    outcome = execute(session, board, request_for(script, pass_status=True))
    assert outcome.exit_code == status
    assert read_record(outcome)["state"] == "failed"


def test_a_models_program_that_fails_is_an_error_with_its_last_words(
    session: Session, board: LocalBoard, request_for: Any
) -> None:
    with pytest.raises(ProgramFailed, match=r"status 3\.\ncannot load") as caught:
        execute(session, board, request_for("echo cannot load; exit 3"))
    record = read_record(caught.value)
    assert (record["state"], record["result"]["exit_code"]) == ("failed", 3)
    assert record["error"]["code"] == "OHF7202"


def test_a_status_that_is_known_is_told_in_a_sentence_with_a_remedy(
    session: Session, board: LocalBoard, request_for: Any
) -> None:
    with pytest.raises(ProgramFailed, match="status 127: The program, its loader or one of its libraries") as caught:
        execute(session, board, request_for("exit 127"))
    assert "Compare what it needs with what the board has" in caught.value.remedy
    handed_on = execute(session, board, request_for("kill -KILL $$", pass_status=True)).as_json()
    assert "most often because memory ran out" in handed_on["explanation"]["sentence"]
    assert execute(session, board, request_for("exit 3", pass_status=True)).as_json()["explanation"] is None
    assert execute(session, board, request_for("true")).as_json()["explanation"] is None


def test_a_models_program_that_crashes_is_an_error_with_the_signals_name(
    session: Session, board: LocalBoard, request_for: Any
) -> None:
    with pytest.raises(ProgramCrashed, match=r"SIGILL \(status 132\)") as caught:
        execute(session, board, request_for("kill -ILL $$"))
    assert read_record(caught.value)["result"]["signal"] == "SIGILL"
    assert "generic" in caught.value.remedy


@pytest.mark.parametrize(
    ("status", "name"), [(139, "SIGSEGV"), (132, "SIGILL"), (137, "SIGKILL"), (3, ""), (128, ""), (255, "")]
)
def test_signals_are_named(status: int, name: str) -> None:
    assert signal_name(status) == name


# what a program prints -----------------------------------------------------------------------------


def test_numbers_and_facts_are_read_from_the_output(session: Session, board: LocalBoard, request_for: Any) -> None:
    script = "echo cpu: NEON; echo speed = nan; echo speed = 2.5; echo the end"
    outcome = execute(session, board, request_for(script, spec=SPEC))
    assert outcome.metrics == {"speed": {"value": 2.5, "unit": "tokens/s"}}
    assert read_record(outcome)["facts"] == {"cpu": "NEON"}


def test_output_that_is_cut_short_is_run_again_once(
    session: Session, board: LocalBoard, request_for: Any, tmp_path: Path
) -> None:
    script = f"echo speed = 1; [ -e {tmp_path}/again ] && echo the end; : >{tmp_path}/again"
    outcome = execute(session, board, request_for(script, spec=SPEC))
    record = read_record(outcome)
    assert (outcome.complete, record["result"]["attempts"]) == (True, 2)
    assert (outcome.record / "output-1.log").read_bytes() == b"speed = 1\n"
    assert (outcome.record / "output.log").read_bytes() == b"speed = 1\nthe end\n"


def test_output_that_is_cut_short_twice_is_no_success(session: Session, board: LocalBoard, request_for: Any) -> None:
    with pytest.raises(RunError, match="twice") as caught:
        execute(session, board, request_for("echo speed = 1", spec=SPEC))
    record = read_record(caught.value)
    assert (record["state"], record["result"]["complete"], record["result"]["missing"]) == (
        "failed",
        False,
        ["^the end$"],
    )


def test_a_program_that_failed_is_not_run_again(session: Session, board: LocalBoard, request_for: Any) -> None:
    with pytest.raises(ProgramFailed) as caught:
        execute(session, board, request_for("exit 1", spec=SPEC))
    assert read_record(caught.value)["result"]["attempts"] == 1


# files ---------------------------------------------------------------------------------------------


def test_outputs_are_fetched_and_the_folder_removed(session: Session, board: LocalBoard, request_for: Any) -> None:
    script = "mkdir out; echo 1 >out/a.npy; echo 2 >out/b.npy; echo 3 >other"
    outcome = execute(session, board, request_for(script, outputs=("out/*.npy",)))
    record = read_record(outcome)
    assert [entry["path"] for entry in record["outputs"]] == ["outputs/out/a.npy", "outputs/out/b.npy"]
    assert (outcome.record / "outputs/out/b.npy").read_text() == "2\n"
    assert folders_left(board) == []


def test_a_missing_output_of_a_good_run_is_an_error(session: Session, board: LocalBoard, request_for: Any) -> None:
    with pytest.raises(RemoteFileMissing, match=r"x\.npy") as caught:
        execute(session, board, request_for("true", outputs=("x.npy",)))
    assert read_record(caught.value)["result"]["exit_code"] == 0


def test_a_missing_output_does_not_hide_that_the_program_failed(
    session: Session, board: LocalBoard, request_for: Any
) -> None:
    with pytest.raises(ProgramFailed):
        execute(session, board, request_for("exit 1", outputs=("x.npy",)))


def test_libraries_that_travel_are_found_by_the_program(
    session: Session, board: LocalBoard, request_for: Any, tmp_path: Path
) -> None:
    (tmp_path / "libx.so").write_bytes(b"x")
    further = (FileToPlace(local=tmp_path / "libx.so", name="lib/libx.so"),)
    request = request_for('cat "${LD_LIBRARY_PATH%%:*}/libx.so"', further=further, library_folder="lib")
    assert execute(session, board, request).output == b"x"


def test_a_file_that_vanishes_from_the_store_is_not_taken_for_a_failed_program(
    session: Session, board: LocalBoard, request_for: Any
) -> None:
    def remove(script: str) -> None:
        if "export" in script or "./program" in script:
            for path in board.store.glob("*"):
                path.unlink()

    board.on_shell = remove
    with pytest.raises(PermissionOnBoard, match="program cannot be put into"):
        execute(session, board, request_for("exit 125", pass_status=True))


# what goes wrong on the way ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (LostConnection("the link ended"), "lost"),
        (DeadlineExpired("No end of demo after 1 s."), "timeout"),
        (Interrupted("Interrupted."), "interrupted"),
        (KeyboardInterrupt(), "interrupted"),
        (PermissionOnBoard("no"), "failed"),
    ],
)
def test_the_record_says_how_a_run_was_broken_off(
    session: Session, board: LocalBoard, request_for: Any, error: BaseException, state: str
) -> None:
    def break_off(script: str) -> None:
        if "./program" in script:
            raise error

    board.on_shell = break_off
    with pytest.raises(OhforgeError) as caught:
        execute(session, board, request_for("true"))
    record = read_record(caught.value)
    assert (record["state"], record["result"]) == (state, None)
    assert record["transfer"]["files_sent"] == 1
    assert record["error"]["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_terminated_is_being_interrupted(
    session: Session, board: LocalBoard, request_for: Any, number: signal.Signals
) -> None:
    before = signal.getsignal(number)

    def terminate(script: str) -> None:
        if "./program" in script:
            os.kill(os.getpid(), number)

    board.on_shell = terminate
    with pytest.raises(Interrupted) as caught:
        execute(session, board, request_for("true"))
    assert read_record(caught.value)["state"] == "interrupted"
    assert signal.getsignal(number) == before


def test_a_defect_of_ours_closes_the_record_too(session: Session, board: LocalBoard, request_for: Any) -> None:
    def fail(script: str) -> None:
        raise ZeroDivisionError("oops")

    board.on_shell = fail
    with pytest.raises(ZeroDivisionError):
        execute(session, board, request_for("true"))
    (file,) = session.settings.runs.glob("*/record.json")
    record = json.loads(file.read_text())
    validate_record(record)
    assert (record["state"], record["error"]["code"]) == ("failed", "OHF9901")


def test_while_a_program_runs_the_record_says_running(session: Session, board: LocalBoard, request_for: Any) -> None:
    seen = []

    def look(script: str) -> None:
        if "./program" in script:
            (file,) = session.settings.runs.glob("*/record.json")
            seen.append(json.loads(file.read_text()))

    board.on_shell = look
    execute(session, board, request_for("true"))
    (record,) = seen
    validate_record(record)
    assert (record["state"], record["times"]["ended"], record["transfer"]["files_sent"]) == ("running", None, 1)


def test_nothing_is_sent_to_a_board_that_cannot_run_it(session: Session, board: LocalBoard, request_for: Any) -> None:
    binary = Binary(name="program", machine="EM_ARM", interpreter="", needed=())
    if os.uname().machine == "aarch64":
        binary = dataclasses.replace(binary, machine="EM_X86_64")
    with pytest.raises(WrongArch) as caught:
        execute(session, board, request_for("true", binaries=(binary,)))
    assert "send" not in board.calls
    assert read_record(caught.value)["board"]["facts"] is not None


def test_a_full_board_is_recorded(session: Session, board: LocalBoard, request_for: Any) -> None:
    board.replies = {r"^(\S+ +\d+ +\d+) +\d+( +\d+%)": r"\1 9\2"}
    with pytest.raises(NoSpaceOnBoard) as caught:
        execute(session, board, request_for("true"))
    assert read_record(caught.value)["error"]["details"]["free_bytes"] == 9 * 1024


def with_memory(board: LocalBoard, total: int, available: int) -> None:
    board.replies = {
        r"^MemTotal: +\d+": f"MemTotal: {total // 1024}",
        r"^MemAvailable: +\d+": f"MemAvailable: {available // 1024}",
    }


@pytest.fixture
def model(tmp_path: Path) -> Model:
    path = tmp_path / "model.bin"
    path.write_bytes(b"m" * 3_000_000)
    return Model(name="model", kind="gguf", path=path, sha256=sha256_file(path), size=3_000_000, summary={})


def test_a_model_that_is_larger_than_the_memory_is_refused_before_it_is_sent(
    session: Session, board: LocalBoard, request_for: Any, model: Model
) -> None:
    with_memory(board, 2_000_000, 1_000_000)
    with pytest.raises(NotEnoughMemory, match=r"3\.0 MB, but board local-board has 2\.0 MB") as caught:
        execute(session, board, request_for("true", model=model))
    assert caught.value.exit_status == 75
    assert "model.inspect" in caught.value.remedy
    assert "send" not in board.calls
    assert read_record(caught.value)["error"]["details"]["memory_bytes"] == 1953 * 1024


def test_a_model_as_large_as_the_memory_is_tried_when_that_is_asked_for(
    session: Session, board: LocalBoard, request_for: Any, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 2_000_000, 1_000_000)
    willing = dataclasses.replace(session, settings=dataclasses.replace(session.settings, require_memory=False))
    assert execute(willing, board, request_for("true", model=model)).exit_code == 0
    assert "2.0 MB of memory in all" in capsys.readouterr().err


def test_a_model_that_is_larger_than_what_is_free_is_warned_of(
    session: Session, board: LocalBoard, request_for: Any, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 4_000_000, 1_000_000)
    assert execute(session, board, request_for("true", model=model)).exit_code == 0
    assert "only 999.4 kB of memory are available" in capsys.readouterr().err


def test_a_model_that_fits_is_not_talked_about(
    session: Session, board: LocalBoard, request_for: Any, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 8_000_000, 4_000_000)
    assert execute(session, board, request_for("true", model=model)).exit_code == 0
    assert "memory" not in capsys.readouterr().err


# the check before anything is sent -----------------------------------------------------------------

DAYU200 = Survey(
    machine="aarch64",
    kernel="5.10",
    hash_tool="sha256sum",
    writable=True,
    free_bytes=10**9,
    storage_bytes=10**10,
    loaders=frozenset({"/lib/ld-musl-arm.so.1"}),
    libraries=frozenset({("libace_napi.z.so", 32), ("libodd.so", 64)}),
    memory={"MemTotal": 2 * 10**9},
    cpu="processor : 0\nFeatures : fp asimd crc32\n",
)
ARM64 = Binary(name="p", machine="EM_AARCH64", interpreter="", needed=())
DYNAMIC64 = dataclasses.replace(ARM64, interpreter="/lib/ld-musl-aarch64.so.1", needed=("libc.so",))
DYNAMIC32 = Binary(name="p", machine="EM_ARM", interpreter="/lib/ld-musl-arm.so.1", needed=("libc.so",))


def test_a_static_64_bit_program_runs_on_a_32_bit_system_with_a_64_bit_kernel(board: LocalBoard) -> None:
    check_binaries(board, DAYU200, [ARM64], ())


def test_a_dynamic_64_bit_program_does_not_and_what_to_do_is_said(board: LocalBoard) -> None:
    with pytest.raises(MissingLibrary, match=r"ld-musl-aarch64.*arm32") as caught:
        check_binaries(board, DAYU200, [DYNAMIC64], ())
    assert "--static" in caught.value.remedy
    assert "--arch arm32" in caught.value.remedy


def test_a_32_bit_kernel_runs_no_64_bit_program(board: LocalBoard) -> None:
    with pytest.raises(WrongArch, match="armv7l") as caught:
        check_binaries(board, dataclasses.replace(DAYU200, machine="armv7l"), [ARM64], ())
    assert "--arch arm32" in caught.value.remedy


def test_libraries_of_the_system_those_that_travel_and_those_in_the_loader_count(board: LocalBoard) -> None:
    needed = ("libc.so", "libm.so", "libace_napi.z.so", "libc++_shared.so")
    check_binaries(board, DAYU200, [dataclasses.replace(DYNAMIC32, needed=needed)], {"libc++_shared.so"})


@pytest.mark.parametrize("needed", ["libc++_shared.so", "libodd.so"])
def test_a_library_that_is_missing_or_of_the_wrong_width_is_named(board: LocalBoard, needed: str) -> None:
    with pytest.raises(MissingLibrary, match=re.escape(needed)):
        check_binaries(board, DAYU200, [dataclasses.replace(DYNAMIC32, needed=("libc.so", needed))], ())


def test_only_what_does_not_travel_is_looked_for() -> None:
    binary = dataclasses.replace(DYNAMIC32, needed=("libc.so", "libx.so", "libc++_shared.so"))
    question = question_for([binary], {"libc++_shared.so"}, ["b", "a", "a"])
    assert question.libraries == ["libx.so"]
    assert question.interpreters == ["/lib/ld-musl-arm.so.1"]
    assert question.stored == ["a", "b"]


def test_a_cpu_tuning_that_the_board_lacks_is_told_before_it_crashes(board: LocalBoard) -> None:
    with pytest.raises(WrongArch, match="asimddp") as caught:
        check_tuning(board, DAYU200, "arm64", "cortex-a55")
    assert "--cpu generic" in caught.value.remedy
    check_tuning(board, DAYU200, "arm64", "generic")
    check_tuning(board, dataclasses.replace(DAYU200, cpu=""), "arm64", "cortex-a55")


def test_a_deadline_is_for_the_program_alone(session: Session, board: LocalBoard, request_for: Any) -> None:
    seen: list[Deadline] = []
    real = board.shell

    def shell(script: str, *, deadline: Deadline, **kw: Any) -> Any:
        seen.append(deadline)
        return real(script, deadline=deadline, **kw)

    board.shell = shell  # type: ignore[method-assign]
    execute(session, board, request_for("true", timeout=77.0))
    assert seen[-1].seconds == 77.0
    assert "demo on board local-board" in seen[-1].waits_for
