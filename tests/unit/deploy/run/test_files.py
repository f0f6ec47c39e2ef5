"""Files that go with a run and come back from it; what goes wrong on the way."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    DeadlineExpired,
    Interrupted,
    LostConnection,
    NoSpaceOnBoard,
    NotEnoughSpace,
    OhforgeError,
    PermissionOnBoard,
    ProgramFailed,
    RemoteFileMissing,
    WrongArch,
)
from core.files import write_json
from core.session import Session
from deploy.run.execute import execute
from deploy.run.preflight import Binary
from deploy.run.record import RunRecord, start_record, validate_record
from deploy.transfer.placement import FileToPlace
from tests.support.board_runs import read_record
from tests.support.local_board import LocalBoard
from tests.support.run_requests import folders_left

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


def test_a_disk_that_becomes_full_under_the_output_is_no_defect(
    session: Session, board: LocalBoard, request_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_on_a_full_disk(*arguments: Any, **named: Any) -> RunRecord:
        record = start_record(*arguments, **named)
        record.log.symlink_to("/dev/full")
        return record

    monkeypatch.setattr("deploy.run.execute.start_record", start_on_a_full_disk)
    with pytest.raises(NotEnoughSpace, match="No space left") as caught:
        execute(session, board, request_for("echo hello"))
    assert read_record(caught.value)["error"]["code"] == "OHF7501"
    assert folders_left(board) == []


def test_a_disk_that_is_too_full_for_the_record_hides_nothing(
    session: Session, board: LocalBoard, request_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(path: Path, value: dict[str, Any]) -> None:
        if value["state"] != "running":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_json(path, value)

    monkeypatch.setattr("core.record_folder.write_json", save)
    with pytest.raises(ProgramFailed):
        execute(session, board, request_for("exit 1"))
    with pytest.raises(NotEnoughSpace, match=r"record\.json"):
        execute(session, board, request_for("true"))


def test_a_full_board_is_recorded(session: Session, board: LocalBoard, request_for: Any) -> None:
    board.replies = {r"^(\S+ +\d+ +\d+) +\d+( +\d+%)": r"\1 9\2"}
    with pytest.raises(NoSpaceOnBoard) as caught:
        execute(session, board, request_for("true"))
    assert read_record(caught.value)["error"]["details"]["free_bytes"] == 9 * 1024
