"""What users do with an SSH board: push, pull and run, by the same functions as with any other."""

from __future__ import annotations

import json
import os
from pathlib import Path

from core.session import Session
from deploy.launch.launch import run_program
from deploy.launch.request import LaunchRequest
from deploy.run.options import RunOptions
from deploy.ssh.board import SshBoard
from deploy.transfer.pull import pull_files
from deploy.transfer.push import push_files


def test_a_file_is_sent_once_and_comes_back_the_same(session: Session, board: SshBoard, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(os.urandom(3_000_000))
    assert push_files(session, board, [tmp_path / "model"], f"{tmp_path}/there/").bytes_sent == 3_000_000
    assert push_files(session, board, [tmp_path / "model"], f"{tmp_path}/again/").bytes_sent == 0
    pull_files(session, board, [f"{tmp_path}/again/model"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "model").read_bytes()


def test_a_program_runs_and_its_record_tells_how_the_board_was_reached(
    session: Session, home: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho made >result.txt\necho running; exit 5\n")
    program.chmod(0o755)
    request = LaunchRequest(
        program=str(program), board="bench", options=RunOptions(run_engine="shell", outputs=("result.txt",))
    )
    outcome = run_program(session, request)
    assert outcome.exit_code == 5
    record = json.loads((outcome.record / "record.json").read_text())
    assert record["link"]["kind"] == "ssh"
    assert (record["board"]["serial"], record["board"]["emulated"]) == ("ssh://lab", False)
    assert (outcome.record / "outputs/result.txt").read_text() == "made\n"
