"""Places of a lab as boards: named, listed, and used like any other."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("labgrid", reason="labgrid is not installed: make test-setup")

from commands.board import held_board
from core.errors import LabUnreached, NoBoard, OhforgeError, UsageError
from core.session import Session
from deploy.hdc.choose import choose_board, locate_board, name_board
from deploy.hdc.listed import list_boards
from deploy.lab import choose
from deploy.launch.launch import run_program
from deploy.launch.request import LaunchRequest
from deploy.run.record import validate_record
from tests.support.command_line import said_by
from tests.support.lab import ANNA, Lab
from tests.support.tiny_elf import write_arm64
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def own_boards(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(home))


def test_a_program_runs_on_the_board_of_a_place_which_is_acquired_meanwhile(
    session: Session, lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holders: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            holders.append(lab.holder("bench"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    wait_until("the first look", lambda: holders)
    try:
        program = write_arm64(tmp_path / "program", b"hello from the lab\n", status=3)
        outcome = run_program(session, LaunchRequest(program=str(program), board="lab:bench"))
    finally:
        over.set()
        watcher.join(timeout=60)
    assert outcome.exit_code == 3
    record = json.loads((outcome.record / "record.json").read_text())
    assert record["board"]["serial"] == "emulated-dayu200"
    assert record["link"]["lab"] == {"place": "bench", "coordinator": lab.address}
    validate_record(record)
    assert {holder.partition(".")[0] for holder in holders} == {"", socket.gethostname().partition(".")[0]}
    assert lab.holder("bench") == ""
    assert f"place bench of the lab at {lab.address}" in capsys.readouterr().out


def test_the_list_shows_which_places_are_free_and_who_has_the_others(session: Session, lab: Lab) -> None:
    lab.client("acquire", place="far", who=ANNA)
    rows = {row["serial"]: row for row in list_boards(session) if row["connection"] == "lab"}
    assert "lab:empty" not in rows
    assert {key: rows["lab:bench"][key] for key in ("state", "profile", "lease", "key", "emulated")} == {
        "state": "free",
        "profile": "dayu200",
        "lease": None,
        "key": "emulated-dayu200",
        "emulated": True,
    }
    far = rows["lab:far"]
    assert (far["state"], far["lease"]["user"], far["lease"]["host"]) == ("acquired", "anna", "desk")
    assert far["note"] == "7001005458323933328a01bce16d3800 at lab9.example"
    assert not far["emulated"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("lab:benhc", "has no place 'benhc'.*bench"),
        ("lab:empty", "Place empty has 0 resources of the class NetworkHDCDevice"),
        ("lab:+ABCDEFGHIJ", "The reservation ABCDEFGHIJ is not known, or has expired"),
    ],
)
def test_a_place_without_a_board_is_an_error_that_says_why(session: Session, name: str, sentence: str) -> None:
    with pytest.raises(NoBoard, match=sentence):
        choose_board(session, name)


def test_a_place_whose_exporter_is_away_is_told(session: Session, lab: Lab) -> None:
    lab.client("add-match", "gone/away/NetworkHDCDevice", place="empty")
    try:
        with pytest.raises(OhforgeError, match=r"No exporter offers .* gone/away/NetworkHDCDevice") as away:
            choose_board(session, "lab:empty")
        assert away.value.code == "OHF7006"
        [row] = [row for row in list_boards(session) if row["serial"] == "lab:empty"]
        assert row["state"] == "away"
    finally:
        lab.client("del-match", "gone/away/NetworkHDCDevice", place="empty")


def test_keeping_and_restarting_a_labs_board_is_done_by_who_can(session: Session) -> None:
    with pytest.raises(UsageError, match="labgrid's own client") as refused:
        locate_board(session, "lab:bench")
    assert "labgrid-client -p bench acquire" in refused.value.remedy
    assert name_board(session, "lab:bench").serial == "emulated-dayu200"


@pytest.fixture
def nobody(tmp_path: Path) -> Any:
    """The address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"127.0.0.1:{silent.getsockname()[1]}"


@pytest.fixture
def refusing(nobody: str) -> Any:
    """An address that refuses connections, and stays taken meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["nobody", "refusing"])
def test_a_coordinator_that_is_away_is_one_warning_in_the_list(
    session: Session,
    kind: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(choose, "LIST_SECONDS", 0.3)
    address = request.getfixturevalue(kind)
    rows = list_boards(session.with_settings(lab=address))
    assert {row["connection"] for row in rows} == {""}
    [warning] = capsys.readouterr().err.splitlines()
    assert f"The labgrid coordinator at {address} does not answer" in warning


def test_a_coordinator_that_is_away_is_an_error_when_its_board_is_named(
    session: Session, refusing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(LabUnreached, match=f"at {refusing} does not answer") as away:
        held_board(session.with_settings(lab=refusing), "lab:bench", "a test").__enter__()
    assert away.value.exit_status == 66
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INVOKE_OHFORGE_LAB", refusing)
    status, out, _ = said_by(["board.info", "--board", "lab:bench", "--json"])
    assert (status, json.loads(out)["error"]["code"]) == (66, "OHF6630")
    assert "labgrid-client -x HOST:PORT places" in json.loads(out)["error"]["remedy"]
