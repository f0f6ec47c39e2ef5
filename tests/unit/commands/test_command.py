"""The command line: arguments, ``--json``, errors and exit statuses, seen as a user sees them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from invoke import Collection

from commands.command import Answer, command
from commands.program import OhforgeProgram
from core.errors import NoBoard
from core.session import Session
from core.settings import defaults


@command(help={"name": "Who."}, optional_positional="name", unless="other")
def greet(session: Session, name: str = "", other: str = "") -> Answer:
    """Greets."""
    session.console.info(f"hello {name or other}")
    return Answer({"name": name, "other": other, "board": session.settings.board})


@command(help={"a_line": "What.", "to": "Whom.", "loudly": "How."}, optional_positional="a_line", remainder="rest")
def say(session: Session, a_line: str = "", to: str = "", loudly: bool = False, rest: tuple[str, ...] = ()) -> Answer:
    """Says a word, and what follows two dashes."""
    return Answer({"said": [a_line, *rest], "to": to})


@command(help={})
def refuse(session: Session) -> Answer:
    """Fails as a missing board does."""
    raise NoBoard("No board is connected.")


@command(help={})
def defect(session: Session) -> Answer:
    """Fails as a bug does."""
    raise ZeroDivisionError("oops")


@command(help={})
def stopped(session: Session) -> Answer:
    """Is terminated from outside."""
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
    return Answer()


@command(help={})
def pass_through(session: Session) -> Answer:
    """Ends as a program on a board did."""
    return Answer({"exit_code": 3}, exit_status=3)


@command(help={"bound": "How much.", "kind": "Of what; default: any.", "loud": "How."}, optional_positional="bound")
def wait(session: Session, bound: float = 600.0, kind: str = "any", loud: bool = False) -> Answer:
    """Waits."""
    return Answer()


def call(*words: str) -> int:
    """Calls the tasks above with `words`; gives the exit status."""
    namespace = Collection(greet, say, refuse, defect, stopped, pass_through)
    namespace.configure({"ohforge": defaults()})
    try:
        OhforgeProgram(namespace=namespace).run(["ohforge", *words])
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
    return 0


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_positional_argument_or_the_flag_instead(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("greet", "you") == 0
    assert call("greet", "--other", "them") == 0
    assert capsys.readouterr().out == "hello you\nhello them\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a b", "--json"], ["a b"]),
        (["--json"], [""]),
        (["--json", "--", "say", "x"], ["", "say", "x"]),
        (["a", "--json", "--", "b"], ["a", "b"]),
        (["--json", "a"], ["a"]),
        (["--to", "you", "--json", "a"], ["a"]),
        (["--to=you", "--loudly", "a", "--json"], ["a"]),
        (["--to", "you", "--json"], [""]),
        (["--to", "you", "--json", "--", "a"], ["", "a"]),
    ],
)
def test_a_word_that_may_be_left_away_is_found_anywhere_but_behind_two_dashes(
    words: list[str], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("say", *words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["said"], answer["to"]) == (said, "you" if any("you" in word for word in words) else "")


def test_neither_is_an_error_that_names_the_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("greet") == 64
    assert "greet needs NAME or --other" in capsys.readouterr().err


def test_both_are_an_error_in_either_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("greet", "you", "--other", "them") == 64
    assert "NAME or --other, not both" in capsys.readouterr().err
    assert call("greet", "--other", "them", "you") == 64
    assert "'you'" in capsys.readouterr().err


def test_the_help_of_a_flag_tells_its_default_once_and_none_of_a_switch() -> None:
    assert wait.help["bound"] == "How much. Default: 600."
    assert wait.help["kind"] == "Of what; default: any."
    assert wait.help["loud"] == "How."


def test_json_is_one_object_on_stdout_and_text_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("greet", "you", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"ok": True, "name": "you", "other": "", "board": ""}
    assert captured.err == "hello you\n"


def test_an_error_shows_code_message_and_remedy_and_has_the_status_of_its_category(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("refuse") == 70
    error = capsys.readouterr().err
    assert "OHF7002 (board): No board is connected." in error
    assert "Try: " in error


def test_an_error_in_json_has_code_category_message_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("refuse", "--json") == 70
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    assert answer["error"]["code"] == "OHF7002"
    assert set(answer["error"]) == {"code", "category", "message", "remedy"}


def test_a_defect_is_no_traceback_but_an_internal_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("defect") == 99
    error = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in error
    assert "Traceback" not in error


def test_termination_is_handled_as_an_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("stopped") == 79
    assert "OHF7901" in capsys.readouterr().err


def test_the_status_of_a_program_on_the_board_is_passed_through(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("pass-through", "--json") == 3
    assert json.loads(capsys.readouterr().out) == {"ok": False, "exit_code": 3}


def test_settings_come_from_the_users_file_and_variables_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".invoke.yaml").write_text("ohforge:\n  board: from-file\n")
    call("greet", "you", "--json")
    assert json.loads(capsys.readouterr().out)["board"] == "from-file"
    monkeypatch.setenv("INVOKE_OHFORGE_BOARD", "from-variable")
    call("greet", "you", "--json")
    assert json.loads(capsys.readouterr().out)["board"] == "from-variable"


def test_an_unknown_key_in_the_users_file_is_named_with_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".invoke.yaml").write_text("ohforge:\n  bord: dayu200\n")
    assert call("greet", "you") == 65
    error = capsys.readouterr().err
    assert str(tmp_path / ".invoke.yaml") in error
    assert "ohforge.bord" in error
    assert "'board'" in error
