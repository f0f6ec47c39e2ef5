"""What a run would do, told of a board that can be asked: agent, files, command; and what it would refuse."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from core.errors import WrongArch
from core.session import Session
from deploy.agent import agent
from deploy.run.dry import would_execute
from deploy.run.preflight import Binary
from tests.support.local_board import LocalBoard
from tests.support.run_requests import make_request
from tests.support.snapshot import everything_in


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def dry(session: Session) -> Session:
    return dataclasses.replace(session.with_settings(run_engine="auto"), dry=True)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\nexit 0\n")
    return path


def test_the_agent_that_is_built_would_be_sent_and_one_that_is_not_would_be_built(
    dry: Session, board: LocalBoard, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "agent"
    built.write_bytes(b"x" * 77)
    digest = hashlib.sha256(b"x" * 77).hexdigest()
    known = dict.fromkeys(("x86_64", "arm64", "arm32"), (built, digest))
    for agents, expected in ((known, [("send", 77)]), ({}, [("build", None), ("send", None)])):
        monkeypatch.setattr(agent, "_built", lambda _, agents=agents: agents)
        would = would_execute(dry, board, make_request(program))
        told = [(entry.action, entry.size) for entry in would if entry.what.startswith("the agent for ")]
        assert told == expected
    shell = would_execute(dry.with_settings(run_engine="shell"), board, make_request(program))
    assert [entry.action for entry in shell] == ["send", "run"]


def test_nothing_is_left_on_the_board_and_one_command_tells_all(dry: Session, board: LocalBoard, program: Path) -> None:
    before = everything_in(board.folder)
    would_execute(dry, board, make_request(program))
    assert everything_in(board.folder) == before
    assert board.calls == ["shell"]


def test_what_a_run_would_refuse_is_refused(dry: Session, board: LocalBoard, program: Path) -> None:
    strange = Binary(name="program", machine="EM_RISCV", interpreter="", needed=())
    with pytest.raises(WrongArch, match="EM_RISCV"):
        would_execute(dry, board, make_request(program, binaries=(strange,)))
