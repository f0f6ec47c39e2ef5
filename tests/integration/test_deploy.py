"""Commands, files and runs on the emulated board, through the hdc stand-in, faults of the board and the link included."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.deadline import Deadline
from core.errors import (
    BoardOffline,
    BoardUnauthorised,
    Busy,
    ContentDiffers,
    DeadlineExpired,
    HdcServerError,
    LostConnection,
    MissingLibrary,
    NoSpaceOnBoard,
    OhforgeError,
    PermissionOnBoard,
    RemoteFolderMissing,
    SeveralBoards,
)
from core.session import PROJECT, Session
from deploy import choose, hdc, inspect
from deploy.board import Board
from deploy.choose import choose_board
from deploy.emulator.disk import create_board, list_emulated, stop_board
from deploy.emulator.faults import FaultFile
from deploy.fit import describe_board
from deploy.inspect import survey_board
from deploy.launch import LaunchRequest, run_model, run_program, run_shell
from deploy.pull import pull_files
from deploy.record import validate_record
from deploy.run import RunOutcome
from deploy.transfer import FileToPlace, place_files
from tests.support.tiny_elf import write_arm32, write_arm64, write_dynamic

SERIAL = "emulated-dayu200"
TMP = "/data/local/tmp"


@pytest.fixture(autouse=True)
def own_boards(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(choose, "_hdc_of_sdk", lambda session: None)
    monkeypatch.setattr(hdc, "RETRY_PAUSES", (0.05, 0.05, 0.05))
    monkeypatch.setattr(hdc, "STOP_SECONDS", 8.0)
    yield
    for folder in home.glob("emulated-*"):
        FaultFile(folder=folder).clear()


@pytest.fixture
def fault(home: Path) -> Callable[..., None]:
    create_board(SERIAL, home=home)
    return FaultFile(folder=home / SERIAL).set


def soon(seconds: float = 60.0) -> Deadline:
    return Deadline.after(seconds, "the test")


def read_record(where: RunOutcome | OhforgeError) -> dict[str, Any]:
    folder = where.record if isinstance(where, RunOutcome) else Path(where.details["record"])
    content = json.loads((folder / "record.json").read_text())
    validate_record(content)
    return dict(content)


def running(board: Board, text: str) -> list[str]:
    """Command lines on the board that contain `text`, zombies and the question itself left out."""
    script = (
        "for p in /proc/[0-9]*; do read -r l <$p/stat || continue; set -- ${l##*) }; "
        '[ "$1" = Z ] || { cat $p/cmdline; echo; }; done 2>/dev/null'
    )
    lines = board.shell(script, deadline=soon()).output.replace(b"\0", b" ").decode().splitlines()
    assert any("for p in" in line for line in lines), "the question sees itself, so it sees others"
    return [line for line in lines if text in line and "for p in" not in line]


# commands ------------------------------------------------------------------------------------------


def test_a_command_says_its_status_and_output(session: Session, board: Board, commands: list[str]) -> None:
    result = run_shell(session, board, 'echo "it\'s $((6*7))"; exit 3')
    assert (result.exit_code, result.output) == (3, b"it's 42\n")
    assert len(commands) == 1


@pytest.mark.parametrize(("command", "status"), [("kill -SEGV $$", 139), ("no-such-program", 127), ("exit 255", 255)])
def test_every_way_to_end_has_its_status(board: Board, command: str, status: int) -> None:
    assert board.shell(command, deadline=soon()).exit_code == status


def test_a_missing_folder_is_told(board: Board) -> None:
    with pytest.raises(RemoteFolderMissing, match="/no/where"):
        board.shell("pwd", deadline=soon(), folder="/no/where")


def test_input_is_closed_and_binary_output_unchanged(board: Board) -> None:
    result = board.shell("cat; head -c 300000 /dev/zero; printf '\\377\\0\\r\\n'", deadline=soon())
    assert result.output == bytes(300000) + b"\xff\0\r\n"


def test_a_script_longer_than_hdc_takes_runs_all_the_same(board: Board) -> None:
    text = "x'\"" * 30_000
    from deploy.script import quote

    result = board.shell(f"printf %s {quote(text)}; exit 9", deadline=soon())
    assert (result.output.decode(), result.exit_code) == (text, 9)
    assert "ohforge-" not in board.shell(f"ls {TMP}", deadline=soon()).text


def test_a_flood_is_handed_on_whole_and_kept_in_part(board: Board) -> None:
    count = [0]

    def add(chunk: bytes) -> None:
        count[0] += len(chunk)

    result = board.shell("head -c 30000000 /dev/zero; echo end", deadline=soon(), on_output=add)
    assert count[0] == 30_000_004
    assert result.truncated
    assert result.output.endswith(b"end\n")


@pytest.mark.parametrize(
    "command", ["sleep 600", "sleep 600 & sleep 601", "trap '' TERM; sleep 600; sleep 601", "while :; do echo y; done"]
)
def test_on_the_deadline_nothing_goes_on_running(board: Board, command: str) -> None:
    with pytest.raises(DeadlineExpired, match="Nothing of it runs"):
        board.shell(command, deadline=soon(1.0))
    assert running(board, "sleep 60") == []
    assert running(board, "echo y") == []


def test_a_background_program_does_not_hold_up_its_command(board: Board) -> None:
    started = time.monotonic()
    assert board.shell("sleep 20 & exit 4", deadline=soon(60)).exit_code == 4
    assert time.monotonic() - started < 15


# faults of the link, with a command ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters", "error"),
    [
        ("no-marker", {}, LostConnection),
        ("cut-output", {"at": 60}, LostConnection),
        ("cut-output", {"at": 0}, LostConnection),
        ("restart", {"at": 60}, LostConnection),
        ("drop-command", {}, LostConnection),
        ("freeze-output", {"at": 60}, DeadlineExpired),
        ("freeze", {}, DeadlineExpired),
        ("offline", {}, BoardOffline),
        ("broken-link", {}, BoardOffline),
        ("starting", {}, BoardOffline),
        ("unauthorised", {}, BoardUnauthorised),
        ("refused", {}, BoardUnauthorised),
        ("server-down", {"seconds": 1}, HdcServerError),
    ],
)
def test_no_fault_of_the_link_lets_a_command_succeed(
    board: Board, fault: Callable[..., None], name: str, parameters: dict[str, float], error: type[OhforgeError]
) -> None:
    assert board.shell("true", deadline=soon()).exit_code == 0
    fault(name, **parameters)
    seconds = 4.0 if error is DeadlineExpired else 60.0
    with pytest.raises(error, match=SERIAL):
        board.shell("for i in 1 2 3 4 5 6 7 8 9; do echo some output; done; sleep 1", deadline=soon(seconds))


@pytest.mark.parametrize("name", ["starting", "broken-link"])
def test_a_fault_that_passes_is_waited_for(board: Board, fault: Callable[..., None], name: str) -> None:
    fault(name, count=2)
    assert board.shell("echo on", deadline=soon()).output == b"on\n"


def test_a_log_line_of_the_client_is_no_output(board: Board, fault: Callable[..., None]) -> None:
    fault("log-lines")
    assert board.shell("echo on", deadline=soon()).output == b"on\n"


def test_a_survey_is_asked_again_when_the_first_command_is_swallowed(
    session: Session, board: Board, fault: Callable[..., None]
) -> None:
    fault("drop-command", count=1)
    assert survey_board(session, board).machine == "aarch64"


# files ---------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(os.urandom(3_000_000))
    return path


def place(session: Session, board: Board, file: Path) -> Any:
    return place_files(session, board, [FileToPlace(local=file, name=file.name)], f"{TMP}/test")


def test_a_file_is_sent_once_and_comes_back_the_same(
    session: Session, board: Board, file: Path, tmp_path: Path, commands: list[str]
) -> None:
    assert place(session, board, file).bytes_sent == 3_000_000
    assert len(commands) == 4  # asked, sent, verified, put into place
    commands.clear()
    assert place(session, board, file).bytes_sent == 0
    assert len(commands) == 2
    pull_files(session, board, [f"{TMP}/test/model.bin"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("name", "parameters", "error"),
    [
        ("cut-transfer", {"at": 1_000_000}, LostConnection),
        ("corrupt", {"at": 1_500_000}, ContentDiffers),
        ("full-disk", {"at": 1_000_000}, NoSpaceOnBoard),
        ("permission", {}, PermissionOnBoard),
        ("hang-send", {}, DeadlineExpired),
        ("freeze-transfer", {"at": 1_000_000}, DeadlineExpired),
    ],
)
def test_a_fault_in_a_transfer_is_told_and_leaves_nothing_under_a_final_name(
    session: Session,
    board: Board,
    fault: Callable[..., None],
    file: Path,
    name: str,
    parameters: dict[str, float],
    error: type[OhforgeError],
) -> None:
    timeouts = dataclasses.replace(session.settings.timeouts, transfer=4.0)
    hurried = dataclasses.replace(session, settings=dataclasses.replace(session.settings, timeouts=timeouts))
    board.shell(f"rm -rf {TMP}/test", deadline=soon())
    fault(name, **parameters)
    with pytest.raises(error):
        place(hurried, board, file)
    for known in list_emulated():
        FaultFile(folder=known.folder).clear()
    if name == "freeze-transfer":
        assert isinstance(board, hdc.HdcBoard)
        board.hdc.call(session, ("kill",), deadline=soon())
    from core.files import sha256_file

    left = board.shell(f"ls {TMP}/test {TMP}/ohforge/store", deadline=soon()).text.split()
    assert "model.bin" not in left
    assert sha256_file(file) not in left
    assert place(session, board, file).bytes_sent == 3_000_000


def test_a_byte_that_changes_once_costs_one_more_transfer(
    session: Session, board: Board, fault: Callable[..., None], file: Path
) -> None:
    fault("corrupt", at=1_500_000, count=1)
    assert place(session, board, file).bytes_sent == 6_000_000


def test_a_pull_that_is_corrupted_once_is_repeated(
    session: Session, board: Board, fault: Callable[..., None], file: Path, tmp_path: Path
) -> None:
    place(session, board, file)
    fault("corrupt", at=1_500_000, count=1)
    pull_files(session, board, [f"{TMP}/test/model.bin"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == file.read_bytes()


def test_a_pull_that_is_cut_leaves_no_file(
    session: Session, board: Board, fault: Callable[..., None], file: Path, tmp_path: Path
) -> None:
    place(session, board, file)
    fault("cut-transfer", at=1_000_000)
    with pytest.raises(LostConnection):
        pull_files(session, board, [f"{TMP}/test/model.bin"], tmp_path / "back")
    assert [path.name for path in tmp_path.glob("*back*")] == []


def test_a_busy_file_is_named(board: Board, fault: Callable[..., None], file: Path) -> None:
    board.send(file, f"{TMP}/x", deadline=soon())
    fault("busy")
    with pytest.raises(Busy, match="running"):
        board.send(file, f"{TMP}/x", deadline=soon())


# runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_arm64, write_arm32])
def test_a_program_of_either_arch_hands_its_status_on(
    session: Session, tmp_path: Path, write: Callable[..., Path], commands: list[str]
) -> None:
    program = write(tmp_path / "program", b"hello\n", status=3)
    outcome = run_program(session, LaunchRequest(program=str(program), board="dayu200"))
    assert (outcome.exit_code, outcome.output, outcome.emulated) == (3, b"hello\n", True)
    record = read_record(outcome)
    assert record["board"]["facts"]["parameters"]["const.product.model"] == "DAYU200"
    commands.clear()
    assert run_program(session, LaunchRequest(program=str(program), board="dayu200")).exit_code == 3
    assert len(commands) == 3  # asked, run, and the log read because of the status


@pytest.mark.parametrize("write", [write_arm64, write_arm32])
def test_a_program_that_crashes_ends_with_its_signal(
    session: Session, tmp_path: Path, write: Callable[..., Path]
) -> None:
    program = write(tmp_path / "program", b"before\n", crash=True)
    outcome = run_program(session, LaunchRequest(program=str(program), board="dayu200"))
    assert outcome.exit_code == 128 + signal.SIGSEGV
    assert read_record(outcome)["result"]["signal"] == "SIGSEGV"


def test_a_program_that_needs_a_loader_is_refused_before_it_is_sent(
    session: Session, tmp_path: Path, commands: list[str]
) -> None:
    program = write_dynamic(tmp_path / "program", "/lib/ld-musl-aarch64.so.1")
    with pytest.raises(MissingLibrary, match="ld-musl-aarch64"):
        run_program(session, LaunchRequest(program=str(program), board="dayu200"))
    assert len(commands) == 1


def test_a_program_that_never_ends_is_ended(session: Session, board: Board, tmp_path: Path) -> None:
    program = write_arm64(tmp_path / "spinner", b"spinning\n", spin=True)
    with pytest.raises(DeadlineExpired, match="Nothing of it runs") as caught:
        run_program(session, LaunchRequest(program=str(program), board="dayu200", timeout=2.0))
    record = read_record(caught.value)
    assert record["state"] == "timeout"
    assert (Path(caught.value.details["record"]) / "output.log").read_bytes() == b"spinning\n"
    assert running(board, "spinner") == []
    assert board.shell(f"ls {TMP}/ohforge/runs", deadline=soon()).text == ""


CHILD = """
import sys
from core.session import Session
from core.settings import Settings
from core.errors import OhforgeError
from deploy.launch import LaunchRequest, run_program
from deploy import choose
choose._hdc_of_sdk = lambda session: None
try:
    settings = Settings(runs_dir=sys.argv[1], run_engine="shell")
    run_program(Session(settings=settings), LaunchRequest(program=sys.argv[2], board="dayu200"))
except OhforgeError as error:
    print(error.code, error.message)
    sys.exit(error.exit_status)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_nothing_running_and_a_record_that_says_so(
    session: Session, board: Board, tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "sleeper.sh"
    script.write_text("#!/bin/sh\necho begun\nsleep 654 & sleep 655; echo on\n")
    runs = tmp_path / "runs"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(runs), str(script)], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )
    with child:
        try:
            assert child.stdout is not None
            assert any(line == "begun\n" for line in child.stdout)
            assert running(board, "sleep 65")
            child.send_signal(number)
            rest, _ = child.communicate(timeout=120)
        finally:
            child.kill()
    assert child.returncode == 79
    assert "OHF7901 Interrupted. Nothing of it runs" in rest
    assert running(board, "sleep 65") == []
    (file,) = runs.glob("*/record.json")
    record = json.loads(file.read_text())
    validate_record(record)
    assert record["state"] == "interrupted"
    assert (file.parent / "output.log").read_text() == "begun\n"
    assert board.shell(f"ls {TMP}/ohforge/runs", deadline=soon()).text == ""


def test_a_board_that_dies_in_the_middle_of_a_run_is_lost(session: Session, home: Path, tmp_path: Path) -> None:
    program = write_arm64(tmp_path / "spinner", b"spinning\n", spin=True)
    mortal = create_board("emulated-generic", home=home)

    def end_board() -> None:
        while not list(session.settings.runs.glob("*/output.log")):
            time.sleep(0.05)
        log = next(session.settings.runs.glob("*/output.log"))
        while log.read_bytes() != b"spinning\n":
            time.sleep(0.05)
        stop_board(mortal)

    killer = threading.Thread(target=end_board)
    killer.start()
    with pytest.raises(LostConnection, match="how it ended is not known") as caught:
        run_program(session, LaunchRequest(program=str(program), board="generic", timeout=60))
    killer.join()
    record = read_record(caught.value)
    assert (record["state"], record["result"]) == ("lost", None)


@pytest.mark.parametrize(
    ("name", "parameters", "state", "error"),
    [
        ("cut-output", {"at": 100}, "lost", LostConnection),
        ("no-marker", {}, "lost", LostConnection),
        ("freeze-output", {"at": 100}, "timeout", DeadlineExpired),
    ],
)
def test_a_link_that_fails_in_a_run_is_recorded_as_that(
    session: Session,
    board: Board,
    fault: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    parameters: dict[str, float],
    state: str,
    error: type[OhforgeError],
) -> None:
    monkeypatch.setattr(inspect, "ATTEMPTS", 1)
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9; do echo some output; done; sleep 3; exit 0\n")
    request = LaunchRequest(program=str(script), board="dayu200", timeout=4.0)
    assert run_program(session, request).exit_code == 0
    survey = survey_board(session, board)
    monkeypatch.setattr(
        "deploy.run.survey_board", lambda *_: survey_with(survey, session, board, script, fault, name, parameters)
    )
    with pytest.raises(error) as caught:
        run_program(session, request)
    assert read_record(caught.value)["state"] == state


def survey_with(
    survey: Any, session: Session, board: Board, script: Path, fault: Any, name: str, parameters: Any
) -> Any:
    """The survey of before, as if it were made now, and the fault begins after it."""
    from core.files import sha256_file

    known = sha256_file(script)
    fault(name, **parameters)
    return dataclasses.replace(survey, stored={known: script.stat().st_size}, proven=frozenset({known}))


# a real hdc, as far as its command line goes -----------------------------------------------------------


@pytest.fixture
def hdc_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "hdc"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nPYTHONPATH='{PROJECT}' exec '{sys.executable}' -m deploy.emulator.cli \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("OHFORGE_HDC", str(program))
    return program


def test_a_warm_run_with_an_hdc_takes_three_processes_and_is_still_called_emulated(
    session: Session, hdc_program: Path, tmp_path: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(tmp_path / "one"))
    create_board(SERIAL, home=tmp_path / "one")
    try:
        program = write_arm64(tmp_path / "program", b"hello\n")
        run_program(session, LaunchRequest(program=str(program)))
        commands.clear()
        outcome = run_program(session, LaunchRequest(program=str(program)))
        assert [line.split()[2 if "-t" not in line else 4] for line in commands] == ["list", "shell", "shell"]
        assert outcome.emulated
        assert read_record(outcome)["link"] == {"kind": "hdc", "program": str(hdc_program), "version": "3.2.0f"}
    finally:
        for board in list_emulated(tmp_path / "one"):
            stop_board(board)


def test_two_connected_boards_are_listed_and_none_is_taken(session: Session, hdc_program: Path, home: Path) -> None:
    create_board(SERIAL, home=home)
    create_board("emulated-dayu200-arm64", home=home)
    with pytest.raises(SeveralBoards, match="emulated-dayu200, emulated-dayu200-arm64"):
        choose_board(session)


# models --------------------------------------------------------------------------------------------

PRINTED = b"""Once upon a time there was a small board
0.00.100.000 I system_info: n_threads = 2 | CPU : NEON = 1 | ARM_FMA = 1 |
0.21.129.918 I common_perf_print:        load time =    1400.12 ms
0.21.129.918 I common_perf_print: prompt eval time =    1724.21 ms /     8 tokens (  215.53 ms per token,     4.64 tokens per second)
0.21.130.037 I common_perf_print:        eval time =   15079.74 ms /    31 runs   (  486.44 ms per token,     2.06 tokens per second)
0.21.130.037 I common_perf_print:       total time =   16910.00 ms /    39 tokens
0.21.130.037 I common_perf_print:    graphs reused =         30
"""


def test_a_model_is_run_by_the_program_of_its_kind(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from native.artifact import Artifact, Product
    from native.build import BuildOutcome, BuildRequest
    from native.recipe import load_recipe
    from tests.support.tiny_gguf import write_tiny_gguf

    model = write_tiny_gguf(tmp_path / "tiny model.gguf")
    asked: list[BuildRequest] = []

    def build(session: Session, request: BuildRequest) -> BuildOutcome:
        from core.files import sha256_file

        asked.append(request)
        program = write_arm64(tmp_path / "llama-completion", PRINTED)
        product = Product(
            name="llama-completion",
            path="llama-completion",
            sha256=sha256_file(program),
            size=program.stat().st_size,
            kind="program",
            machine="EM_AARCH64",
            interpreter="",
        )
        artifact = Artifact(
            program="llama",
            version=load_recipe("llama").version,
            arch="arm64",
            key="k",
            toolchain="zig",
            toolchain_id="t",
            cpu=request.cpu or "generic",
            inputs={},
            products=(product,),
            folder=tmp_path,
        )
        return BuildOutcome(artifact=artifact, rebuilt=False, reason="test", seconds=0.0)

    monkeypatch.setattr("native.build.ensure_built", build)
    monkeypatch.setattr("deploy.launch._links_statically", lambda session, request: True)
    outcome = run_model(session, LaunchRequest(model=str(model), prompt="It's", tokens=5))
    (request,) = asked
    assert (request.target, request.arch, request.products, request.cpu) == (
        "llama",
        "arm64",
        ("llama-completion",),
        "cortex-a55",
    )
    assert outcome.metrics["generation_tokens_per_second"] == {"value": 2.06, "unit": "tokens/s"}
    record = read_record(outcome)
    words = record["command"]["words"]
    assert words[:3] == ["./llama-completion", "-m", "tiny model.gguf"]
    assert (words[words.index("-p") + 1], words[words.index("-n") + 1]) == ("It's", "5")
    assert record["model"]["kind"] == "gguf"
    assert record["program"]["artifact"]["cpu"] == "cortex-a55"
    assert (record["result"]["complete"], record["board"]["emulated"]) == (True, True)


def test_a_board_is_described(session: Session, board: Board) -> None:
    facts = describe_board(session, board)
    assert facts["emulated"] is True
    assert facts["arches"] == ["arm64", "arm32"] or facts["arches"] == ["arm32", "arm64"]
    assert facts["cores"] == 4
    assert facts["hash_tool"] == "sha256sum"
