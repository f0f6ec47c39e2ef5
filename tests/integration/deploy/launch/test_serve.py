"""A model that is served on the emulated board, with a script in place of llama-server; and on this computer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import DeadlineExpired, ForwardLost, LostConnection, ProgramCrashed, ProgramFailed
from core.record_folder import check_record
from core.session import PROJECT, Session
from deploy.board.protocol import Board
from deploy.emulator.board.boards import create_board, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.forward.forward import list_forwards
from deploy.hdc.board import HdcBoard
from deploy.launch.model_server import ServeOptions
from deploy.launch.serve import serve_on_board
from deploy.lease.lease import LeasePlace, find_holder
from native.models.models import Model, find_model
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.board_runs import SERIAL, TMP, read_record, running, soon, use_boards
from tests.support.served import kill_server, run_of_server, write_server
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def own_boards(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_boards(home, tmp_path, monkeypatch)
    create_board(SERIAL, home=home)
    yield
    FaultFile(folder=home / SERIAL).clear()


@pytest.fixture
def model(session: Session, tmp_path: Path) -> Model:
    return find_model(session, str(write_tiny_gguf(tmp_path / "tiny.gguf")))


def ask(url: str, tokens: int) -> list[dict[str, object]]:
    """The events of a completion."""
    body = json.dumps({"prompt": "x", "n_predict": tokens, "stream": True}, separators=(",", ":")).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/completion", body), timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


def serving(board: Board) -> list[str]:
    return running(board, "llama-server") + running(board, "handler")


def test_a_model_is_served_within_the_block_and_nothing_is_left_of_it(
    session: Session, board: HdcBoard, model: Model, tmp_path: Path
) -> None:
    run = run_of_server(write_server(tmp_path))
    options = ServeOptions(threads=3, context=100, slots=2, batch=64, arguments=("--metrics",))
    with serve_on_board(session, board, model, options, run=run) as server:
        assert [event["tokens_predicted"] for event in ask(server.url, 3)] == [1, 2, 3, 3]
        assert server.alive() and server.emulated
        server.check()
        use = server.use()
        assert use is not None and use.peak_bytes is not None and use.peak_bytes > 100_000
        assert server.load_seconds is not None and server.load_seconds > 0
        holder = find_holder(LeasePlace.of(session, board.serial, emulated=True))
        assert holder is not None and holder.purpose == "serve tiny"
        assert (server.record or Path()).parent == session.settings.runs
    assert not server.alive()
    assert server.log is not None
    words = "-m tiny.gguf --host 127.0.0.1 --port 0 --offline -c 200 -np 2 --cache-ram 0 -b 64 -ub 64 -t 3 --metrics"
    assert f"words: {words}\n" in server.log.read_text()
    record = json.loads((server.log.parent / "record.json").read_text())
    assert (record["state"], record["result"]["exit_code"], record["model"]["name"]) == ("done", 0, "tiny")
    assert check_record(server.log.parent).is_unchanged
    assert serving(board) == [] and list_forwards(session, board.hdc) == []
    assert board.shell(f"ls {TMP}/ohforge/runs", deadline=soon()).text == ""
    assert find_holder(LeasePlace.of(session, board.serial, emulated=True)) is None


def test_a_server_that_ends_before_it_is_ready_is_an_error_with_its_last_words(
    session: Session, board: Board, model: Model, tmp_path: Path
) -> None:
    run = run_of_server(write_server(tmp_path, before="echo 'error loading model: no tensors' >&2; exit 1"))
    with (
        pytest.raises(ProgramFailed, match=r"ended with status 1(.|\n)*no tensors") as caught,
        serve_on_board(session, board, model, ServeOptions(), run=run),
    ):
        pytest.fail("it is not ready")
    assert read_record(caught.value)["state"] == "failed"


def test_a_server_that_never_becomes_ready_is_ended_at_the_deadline(
    session: Session, board: Board, model: Model, tmp_path: Path
) -> None:
    run = run_of_server(write_server(tmp_path, before="sleep 987"))
    options = ServeOptions(load_seconds=1.0)
    with pytest.raises(DeadlineExpired, match="loading"), serve_on_board(session, board, model, options, run=run):
        pytest.fail("it is not ready")
    assert running(board, "sleep 987") == [] and serving(board) == []


def test_a_server_that_dies_says_so_when_it_is_asked_why(
    session: Session, board: Board, model: Model, tmp_path: Path
) -> None:
    kill = f"[ $i -lt 3 ] || {kill_server(TMP + '/server')}"
    program = write_server(tmp_path, before=f"echo $$ >{TMP}/server", during=kill)
    with serve_on_board(session, board, model, ServeOptions(), run=run_of_server(program)) as server:
        with pytest.raises((OSError, ValueError, AssertionError)):
            assert len(ask(server.url, 9)) == 10
        with pytest.raises(ProgramCrashed, match="SIGKILL"):
            server.check()
        assert not server.alive()
    assert serving(board) == []


def test_a_forwarding_that_is_lost_is_told_apart_from_a_server_that_died(
    session: Session, board: HdcBoard, model: Model, tmp_path: Path
) -> None:
    with serve_on_board(session, board, model, ServeOptions(), run=run_of_server(write_server(tmp_path))) as server:
        (rule,) = list_forwards(session, board.hdc)
        board.hdc.call(session, ("fport", "rm", rule.here, rule.there), deadline=soon())
        with pytest.raises(ForwardLost):
            server.check()
        assert server.alive()
    assert serving(board) == []


def test_a_board_that_dies_takes_the_server_along_and_nobody_waits_for_it(
    session: Session, home: Path, model: Model, board: Board, tmp_path: Path
) -> None:
    run = run_of_server(write_server(tmp_path))
    mortal = create_board(SERIAL, home=home)
    with serve_on_board(session, board, model, ServeOptions(), run=run) as server:
        stop_board(mortal)
        with pytest.raises(LostConnection):
            server.check()
    assert server.log is not None
    record = json.loads((server.log.parent / "record.json").read_text())
    assert record["state"] in ("lost", "timeout")


CHILD = """
import sys, time
from pathlib import Path
from core.errors import OhforgeError
from core.session import Session
from core.settings import Settings
from deploy.hdc import choose
from deploy.launch.model_server import ServeOptions
from deploy.launch.serve import serve_on_board
from native.models.models import find_model
from tests.support.served import run_of_server
choose._hdc_of_sdk = lambda session: None
session = Session(settings=Settings(runs_dir=sys.argv[1], run_engine="shell"))
board = choose.choose_board(session, "dayu200")
with serve_on_board(
    session, board, find_model(session, sys.argv[3]), ServeOptions(), run=run_of_server(Path(sys.argv[2]))
) as server:
    print("serving", server.url, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_server_outlives_the_process_that_has_started_it(
    session: Session, board: HdcBoard, model: Model, tmp_path: Path, number: signal.Signals
) -> None:
    words = [sys.executable, "-c", CHILD, str(tmp_path / "runs"), str(write_server(tmp_path)), str(model.path)]
    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert any(line.startswith("serving") for line in child.stdout)
            assert serving(board) and list_forwards(session, board.hdc)
            child.send_signal(number)
            child.wait(timeout=120)
        finally:
            child.kill()
    wait_until("the end of the server", lambda: not serving(board))
    wait_until("the end of the forwarding", lambda: not list_forwards(session, board.hdc))
    if number is not signal.SIGKILL:
        (file,) = (tmp_path / "runs").glob("*/record.json")
        assert json.loads(file.read_text())["state"] == "done"
