"""What a fault of the link does to each operation over SSH, compared with the table in ``docs/boards.md``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import OhforgeError
from core.session import PROJECT, Session
from deploy.run.execute import execute
from deploy.ssh.board import SshBoard
from deploy.transfer import chunks
from deploy.transfer.placement import FileToPlace
from deploy.transfer.pull import pull_files
from deploy.transfer.push import place_files
from tests.shared.faulty_link import FaultyLink
from tests.support.run_requests import make_request

AFTER = 60_000
"""Bytes that pass before a fault comes: more than it takes to log in, less than each operation moves."""
SIZE = 200_000
OPERATIONS = ("shell", "push", "push of a large file", "pull", "pull of a large file", "run")


def documented() -> dict[tuple[str, str], str]:
    """The cells of the table by fault and operation."""
    text = (PROJECT / "docs/boards.md").read_text()
    table = text[text.index("| Fault of the link |") :].partition("\n\n")[0]
    heading, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert heading[1:] == list(OPERATIONS)
    return {(row[0], name): cell for row in rows for name, cell in zip(OPERATIONS, row[1:], strict=True)}


TABLE = documented()
ALWAYS = (
    ("cut", "push of a large file"),
    ("cut", "pull of a large file"),
    ("frozen", "shell"),
    ("a byte is changed", "push of a large file"),
    ("slow", "push"),
)
"""Those that are tried each time; the others with all that takes long."""


@pytest.fixture
def operations(
    session: Session, board: SshBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Callable[[], bool]]:
    """Each does its work, and says whether what it was for is there, whole."""
    monkeypatch.setattr("deploy.ssh.link.ALIVE_SECONDS", 0.2)
    monkeypatch.setattr("deploy.ssh.link.SILENT_SECONDS", 2.0)
    monkeypatch.setattr("deploy.ssh.link.SLOWEST_LINK", 50_000)
    content = os.urandom(SIZE)
    file, there, back = tmp_path / "file", tmp_path / "there/file", tmp_path / "back"
    file.write_bytes(content)
    deadline = Deadline.after(120, "the operation")

    def is_whole(path: Path) -> bool:
        assert not path.exists() or path.read_bytes() == content, "a wrong file under a final name"
        return path.exists()

    def shell() -> bool:
        return board.shell(f"head -c {SIZE} </dev/zero", deadline=deadline).output == bytes(SIZE)

    def push() -> bool:
        place_files(session, board, [FileToPlace(local=file, name="file")], str(there.parent))
        return is_whole(there)

    def pull() -> bool:
        pull_files(session, board, [str(file)], back)
        return is_whole(back)

    def large(ends: Callable[[], bool]) -> bool:
        monkeypatch.setattr(chunks, "CHUNKED_FROM", SIZE)
        monkeypatch.setattr("deploy.ssh.link.MANY", SIZE // 4)
        return ends()

    def run() -> bool:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\nhead -c {SIZE} </dev/zero\n")
        program.chmod(0o755)
        return execute(session, board, make_request(program)).exit_code == 0

    def whatever(ends: Callable[[], bool]) -> Callable[[], bool]:
        def call() -> bool:
            try:
                return ends()
            finally:
                is_whole(there), is_whole(back)

        return call

    each = (shell, push, lambda: large(push), pull, lambda: large(pull), run)
    return {name: whatever(ends) for name, ends in zip(OPERATIONS, each, strict=True)}


@pytest.mark.parametrize(
    ("fault", "operation"),
    [pytest.param(*cell, marks=() if cell in ALWAYS else pytest.mark.exhaustive) for cell in TABLE],
)
def test_what_a_fault_of_the_link_does_is_what_the_table_says(
    link: FaultyLink,
    board: SshBoard,
    operations: dict[str, Callable[[], bool]],
    fault: str,
    operation: str,
) -> None:
    check(link, board, operations, fault, operation)


@pytest.mark.parametrize("operation", ["push of a large file", "pull of a large file"])
@pytest.mark.parametrize("fault", ["cut", "a byte is changed"])
def test_what_a_fault_does_to_a_large_file_is_the_same_where_no_ssh_is_installed(
    link: FaultyLink,
    board: SshBoard,
    operations: dict[str, Callable[[], bool]],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    operation: str,
) -> None:
    monkeypatch.setattr("deploy.ssh.openssh.shutil.which", lambda name: None)
    check(link, board, operations, fault, operation)


def check(
    link: FaultyLink, board: SshBoard, operations: dict[str, Callable[[], bool]], fault: str, operation: str
) -> None:
    assert board.profile.device_dir
    if fault == "slow":
        link.rate = 100_000
    else:
        link.fault({"cut": "cut", "frozen": "freeze", "a byte is changed": "flip"}[fault], AFTER)
    try:
        done = operations[operation]()
        assert done, "it says that all is well"
        seen = "`ok`"
    except OhforgeError as error:
        seen = f"`{type(error).__name__}` {error.exit_status}"
        if operation == "run":
            record = json.loads((Path(error.details["record"]) / "record.json").read_text())
            seen += f" (record: {record['state']})"
    link.rate = 0
    assert seen == TABLE[fault, operation]
    assert operations[operation](), "the next one does it"
