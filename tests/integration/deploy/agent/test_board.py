"""The agent on emulated boards, through the hdc stand-in: put there once, used for programs and hashes."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import LostConnection, TransferStalled
from core.patience import Patience
from core.session import Session
from deploy.agent import agent as agent_module
from deploy.agent.agent import (
    AgentHandle,
    AgentRun,
    BuiltAgents,
    NoAgent,
    agents_to_ask_for,
    find_agent,
)
from deploy.agent.frames import Sample
from deploy.board.protocol import Board
from deploy.board.survey import Question, survey_board
from deploy.emulator.board.faults import FaultFile
from deploy.hdc import board as hdc
from deploy.hdc import choose
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from deploy.transfer import chunks, followed, stall, store
from deploy.transfer.pull import as_name, list_remote
from deploy.transfer.push import place_program, push_files
from tests.support.agents import build_agent, run_on_board

TMP = "/data/local/tmp"
BOARDS = {"dayu200": "arm32", "dayu200-arm64": "arm64"}


@pytest.fixture(autouse=True)
def own_boards(home: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    built: BuiltAgents = {}
    for arch in BOARDS.values():
        agent = build_agent(shared_cache, arch)
        built[arch] = agent.path, hashlib.sha256(agent.path.read_bytes()).hexdigest()
    monkeypatch.setenv("OHFORGE_EMULATOR_HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(choose, "_hdc_of_sdk", lambda session: None)
    monkeypatch.setattr(hdc, "RETRIES", Patience(pause=0.05, times=3))
    monkeypatch.setattr(agent_module, "_built", lambda session: built)
    yield
    for folder in home.glob("emulated-*"):
        FaultFile(folder=folder).clear()


@pytest.fixture(params=sorted(BOARDS))
def board(request: pytest.FixtureRequest, session: Session) -> Board:
    return choose_board(session, request.param)


@pytest.fixture
def handle(session: Session, board: Board) -> AgentHandle:
    found = ask(session, board)
    assert isinstance(found, AgentHandle)
    return found


def ask(session: Session, board: Board) -> AgentHandle | NoAgent:
    question = Question(agents=agents_to_ask_for(session, board))
    return find_agent(session, board, survey_board(session, board, question), place=place_program)


def soon(seconds: float = 60.0) -> Deadline:
    return Deadline.after(seconds, "the test")


def test_the_agent_is_put_on_a_board_once_and_found_again_by_one_command(
    session: Session, board: Board, handle: AgentHandle, commands: list[str]
) -> None:
    assert handle.arch == BOARDS[board.profile.name]
    assert handle.path.startswith(f"{TMP}/ohforge/agent/ohforge-agent-")
    commands.clear()
    assert ask(session, board) == handle
    assert len(commands) == 1


def test_an_agent_that_is_there_verifies_what_is_pushed(
    session: Session, board: Board, handle: AgentHandle, tmp_path: Path
) -> None:
    def push(run_engine: str) -> str:
        settings = dataclasses.replace(session.settings, run_engine=run_engine)
        (tmp_path / "file").write_bytes(os.urandom(100_000))
        summary = push_files(dataclasses.replace(session, settings=settings), board, [tmp_path / "file"], f"{TMP}/new")
        return summary.hash_tool

    assert push("auto") == "agent"
    arrived = board.shell(f"sha256sum {TMP}/new", deadline=soon()).text.split()[0]
    assert arrived == hashlib.sha256((tmp_path / "file").read_bytes()).hexdigest()
    assert push("shell") == "sha256sum"


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is large by these tests' measure."""
    monkeypatch.setattr(chunks, "CHUNKED_FROM", 1_000_000)
    monkeypatch.setattr(chunks, "SMALLEST_CHUNK", 500_000)
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", 500_000)
    monkeypatch.setattr(store, "STEP", 500_000)
    for module in (chunks, followed):
        monkeypatch.setattr(module, "LAG", 1_000_000)  # two blocks of hdc and more
    path = tmp_path / "large"
    path.write_bytes(random.Random(9).randbytes(3_000_000))
    return path


@pytest.mark.parametrize(
    ("fault", "at", "most_bytes", "calls"),
    [
        ("", 0, 3_000_000, 4),  # asked, followed, sent, taken into the store and put into place
        ("no agent", 0, 3_000_000, 0),
        ("corrupt", 1_600_000, 4_500_000, 0),
        ("cut-transfer", 2_700_000, 4_000_000, 0),
    ],
)
def test_a_large_file_is_hashed_by_the_agent_while_it_arrives(
    session: Session,
    board: Board,
    handle: AgentHandle,
    home: Path,
    large: Path,
    commands: list[str],
    fault: str,
    at: int,
    most_bytes: int,
    calls: int,
) -> None:
    board.shell(f"rm -rf {TMP}/ohforge/store", deadline=soon())
    commands.clear()
    if fault == "no agent":  # it is built, and put there for such a file
        board.shell(f"rm {handle.path}", deadline=soon())
    elif fault:
        FaultFile(folder=home / board.serial).set(fault, at=at, count=1)
    settings = dataclasses.replace(session.settings, run_engine="auto")
    summary = push_files(dataclasses.replace(session, settings=settings), board, [large], f"{TMP}/there/")
    assert summary.hash_tool == "agent"
    assert not calls or len(commands) == calls
    assert 3_000_000 <= summary.bytes_sent <= most_bytes
    FaultFile(folder=home / board.serial).clear()
    there = list_remote(board, [as_name("large")], folder=f"{TMP}/there", deadline=soon(), agents=[handle.path]).files
    expected = hashlib.sha256(large.read_bytes()).hexdigest()
    mode = large.stat().st_mode & 0o777
    assert [(file.hash, file.tool, file.mode) for file in there] == [(expected, "sha256sum", mode)]
    assert board.shell(f"sha256sum {TMP}/there/large", deadline=soon()).text.split()[0] == expected
    left = board.shell(f"ls {TMP}/ohforge/store", deadline=soon()).text.split()
    assert {expected, f"{expected}.ok"} <= set(left)
    assert not any("part" in name for name in left)


def test_a_board_that_freezes_in_a_push_is_given_up_soon_and_the_next_push_is_whole(
    session: Session,
    board: Board,
    handle: AgentHandle,
    home: Path,
    large: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    board.shell(f"rm -rf {TMP}/ohforge/store {TMP}/there", deadline=soon())
    FaultFile(folder=home / board.serial).set("freeze-transfer", at=1_600_000)
    session = dataclasses.replace(session, settings=dataclasses.replace(session.settings, run_engine="auto"))
    with monkeypatch.context() as impatient:
        impatient.setattr(stall, "TOLD_AFTER", 1.0)
        impatient.setattr(stall, "GIVEN_UP_AFTER", 3.0)
        with pytest.raises(TransferStalled, match=r"Nothing more of large has reached board .* of 3\.0 MB are there"):
            push_files(session, board, [large], f"{TMP}/there/")
    assert "it is given up after 3 s" in capsys.readouterr().err
    FaultFile(folder=home / board.serial).clear()
    assert isinstance(board, HdcBoard)
    board.hdc.call(session, ("kill",), deadline=soon())  # it is stuck on the board
    push_files(session, board, [large], f"{TMP}/there/")
    expected = hashlib.sha256(large.read_bytes()).hexdigest()
    assert board.shell(f"sha256sum {TMP}/there/large", deadline=soon()).text.split()[0] == expected


def test_a_program_on_the_board_is_run_with_its_streams_apart(board: Board, handle: AgentHandle) -> None:
    out, err = bytearray(), bytearray()
    samples: list[Sample] = []
    script = "echo out $NAME; echo err >&2; cat; pwd; sleep 0.5; exit 3"
    run = AgentRun(folder=TMP, environment={"NAME": "it's"}, sample_seconds=0.1)
    report = run_on_board(
        board,
        handle,
        ("sh", "-c", script),
        run,
        deadline=soon(),
        on_stdout=out.extend,
        on_stderr=err.extend,
        on_sample=samples.append,
    )
    assert (bytes(out), bytes(err)) == (f"out it's\n{TMP}\n".encode(), b"err\n")
    assert (report.exit_code, report.signal, report.left, report.noise) == (3, 0, 0, b"")
    # The profile of both boards: two thermal zones, four CPUs with a frequency each.
    assert set(samples[0].temperatures) == {"soc-thermal", "gpu-thermal"}
    assert all(30 < (value or 0) < 60 for value in samples[0].temperatures.values())
    assert sorted(samples[0].cpu_frequencies) == ["cpu0", "cpu1", "cpu2", "cpu3"]
    assert 0 < samples[0].available_bytes <= board.profile.memory_bytes


def test_a_flood_of_binary_output_passes_the_link_unchanged(board: Board, handle: AgentHandle) -> None:
    out = hashlib.sha256()
    words = ("sh", "-c", "seq 1 300000; seq 1 300000 >&2")
    err = hashlib.sha256()
    report = run_on_board(board, handle, words, deadline=soon(), on_stdout=out.update, on_stderr=err.update)
    expected = hashlib.sha256(b"".join(b"%d\n" % number for number in range(1, 300_001))).hexdigest()
    assert (out.hexdigest(), err.hexdigest(), report.exit_code) == (expected, expected, 0)


def test_on_the_boards_deadline_nothing_is_left(board: Board, handle: AgentHandle) -> None:
    mark = "98765.4"
    script = f"trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep {mark}' &); sleep {mark}"
    run = AgentRun(grace_seconds=0.2)
    report = run_on_board(board, handle, ("sh", "-c", script), run, deadline=soon(), seconds=1.5)
    assert (report.reason, report.survivors) == ("deadline", 0)
    assert board.shell("pgrep -f 'sleep 98765[.]4'", deadline=soon()).exit_code == 1


def test_hashes_from_the_board_are_those_of_hashlib(board: Board, handle: AgentHandle, tmp_path: Path) -> None:
    content = random.Random(7).randbytes(3_000_001)
    (tmp_path / "file").write_bytes(content)
    board.send(tmp_path / "file", f"{TMP}/some file", deadline=soon())
    asked = f"{handle.path} hash -- '{TMP}/some file' {TMP}/none"
    assert board.shell(asked, deadline=soon()).text.splitlines() == [
        f"{hashlib.sha256(content).hexdigest()} {len(content)} {TMP}/some file",
        f"- {errno.ENOENT} {TMP}/none",
    ]


def test_a_program_that_is_not_there_is_told_by_the_agent(board: Board, handle: AgentHandle) -> None:
    report = run_on_board(board, handle, ("./none",), AgentRun(folder=TMP), deadline=soon())
    assert report.failure is not None
    assert (report.failure.stage, report.status) == ("exec", 127)


def test_a_link_that_is_cut_is_no_success(board: Board, handle: AgentHandle, home: Path) -> None:
    FaultFile(folder=home / board.serial).set("cut-output", at=700)
    with pytest.raises(LostConnection):
        run_on_board(board, handle, ("seq", "1", "100000"), deadline=soon())
