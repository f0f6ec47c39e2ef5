"""Commands on the emulated board by way of the stand-in, also over a link that fails, and by a program called hdc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import (
    BoardOffline,
    BoardUnauthorised,
    DeadlineExpired,
    HdcServerError,
    LostConnection,
    OhforgeError,
    RemoteFolderMissing,
    SeveralBoards,
)
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.survey import survey_board
from deploy.emulator.board.boards import create_board, list_emulated, stop_board
from deploy.emulator.stand_in.program import write_stand_in
from deploy.hdc.choose import choose_board
from deploy.launch.launch import run_program
from deploy.launch.request import LaunchRequest
from deploy.launch.shell import run_shell
from tests.support.board_runs import SERIAL, TMP, read_record, running, soon
from tests.support.command_line import invoke
from tests.support.tiny_elf import write_arm64

# commands ------------------------------------------------------------------------------------------


def test_a_command_says_its_status_and_output(session: Session, board: Board, commands: list[str]) -> None:
    result = run_shell(session, board, 'echo "it\'s $((6*7))"; exit 3')
    assert (result.exit_code, result.output) == (3, b"it's 42\n")
    assert len(commands) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["echo one two; exit 3", "--board", SERIAL],
        ["--board", SERIAL, "echo one two; exit 3"],
        ["--board", SERIAL, "--", "echo one two; exit 3"],
        ["echo", "--board", SERIAL, "--", "one", "two;", "exit 3"],
    ],
    ids=["quoted", "after a flag", "after dashes", "both"],
)
def test_a_command_line_is_one_word_or_what_follows_two_dashes(words: list[str]) -> None:
    said = invoke("board.shell", *words)
    assert (said.status, said.answer["output"], said.answer["exit_code"]) == (3, "one two\n", 3)


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
    from deploy.board.script import quote

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
    assert board.shell("sleep 6604 & exit 4", deadline=soon()).exit_code == 4
    assert len(running(board, "sleep 6604")) == 1
    board.shell("pkill -f 'sleep 660[4]'", deadline=soon())


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


# a real hdc, as far as its command line goes -----------------------------------------------------------


@pytest.fixture
def hdc_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = write_stand_in(tmp_path / "bin")
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
