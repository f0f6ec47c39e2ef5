"""What reaches the terminal: nothing from outside steers it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

import pytest

from core.console import Console, Verbosity

HOSTILE = "a\x1b[2J\x9b31m\x07\r\x7f\u202e\udcffb"
WRITTEN_OUT = r"a\x1b[2J\x9b31m\x07\r\x7f\u202e\udcffb"


class Terminal(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


def shown_on_a_terminal(show: Callable[[], object]) -> Terminal:
    terminal = Terminal()
    with redirect_stdout(terminal), redirect_stderr(terminal):
        show()
    return terminal


@pytest.mark.parametrize(
    ("typed", "answer"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_question_on_a_terminal_is_answered_by_yes_and_by_nothing_else(
    monkeypatch: pytest.MonkeyPatch, typed: str, answer: bool
) -> None:
    controller, terminal = os.openpty()
    os.write(controller, typed.encode())
    with os.fdopen(terminal, "r+b", buffering=0) as raw, io.TextIOWrapper(raw, write_through=True) as end:
        monkeypatch.setattr("sys.stdin", end)
        monkeypatch.setattr("sys.stdout", Terminal())
        # Nobody types anything in the last case.
        assert Console().confirm("Go on?", seconds=60.0 if typed else 0.01) is answer
    os.close(controller)


def test_where_nobody_sits_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert Console().confirm("Go on?", seconds=60.0) is None


@pytest.mark.parametrize("way", ["stage", "info", "words", "detail", "warn", "error"])
def test_control_characters_from_outside_are_written_out(way: str) -> None:
    terminal = shown_on_a_terminal(lambda: getattr(Console(verbosity=Verbosity.VERBOSE), way)(HOSTILE))
    assert WRITTEN_OUT in terminal.shown
    own_style = terminal.shown.replace("\x1b[0m", "")
    assert own_style.count("\x1b") == (way not in ("info", "words"))
    assert "\x9b" not in own_style


def test_newlines_tabs_and_letters_of_all_scripts_stay() -> None:
    terminal = shown_on_a_terminal(lambda: Console().info("é\t鸿蒙\n🙂"))
    assert terminal.shown == "é\t鸿蒙\n🙂\n"


def test_a_table_is_aligned_by_what_is_shown() -> None:
    rows = [["\x1b[31mred", "1"], ["plain", "2"]]
    terminal = shown_on_a_terminal(lambda: Console().table(["NAME", "SIZE"], rows))
    assert terminal.shown.splitlines() == ["NAME         SIZE", r"\x1b[31mred  1", "plain        2"]


def test_json_keeps_the_value_and_holds_no_control_character() -> None:
    terminal = shown_on_a_terminal(lambda: Console(json_mode=True).result({"name": HOSTILE}))
    assert json.loads(terminal.shown) == {"name": HOSTILE}
    assert {c for c in terminal.shown if not c.isprintable()} == {"\n"}


def test_a_bar_shows_what_is_hostile_as_text() -> None:
    def show() -> None:
        with Console().progress("get \x1b]0;owned\x07 [/red]", 10) as bar:
            bar.say("\x9b2J")
            bar.reach(5)

    terminal = shown_on_a_terminal(show)
    assert "\x1b]0;" not in terminal.shown
    assert "\x9b" not in terminal.shown
    assert r"\x1b]0;owned\x07 [/red]" in terminal.shown


def test_a_programs_own_output_passes_byte_for_byte() -> None:
    terminal = shown_on_a_terminal(lambda: Console().passthrough(b"\x1b[31mred\xff\n"))
    assert isinstance(terminal.buffer, io.BytesIO)
    assert terminal.buffer.getvalue() == b"\x1b[31mred\xff\n"
    quiet = shown_on_a_terminal(lambda: Console(verbosity=Verbosity.QUIET).passthrough(b"red"))
    assert isinstance(quiet.buffer, io.BytesIO)
    assert quiet.buffer.getvalue() == b""
