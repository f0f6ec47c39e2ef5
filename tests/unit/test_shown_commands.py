"""Every command that a page shows can be typed, and is run by a test or marked why not."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache

import pytest
from invoke import Program
from invoke.exceptions import ParseError
from invoke.parser import ParserContext

import tasks
from deploy.emulator.manage import manage
from tests.support.emulated import ROOT
from tests.support.shown_commands import Row, Shown, find_row, load_rows, shown_commands


def parse(words: list[str], monkeypatch: pytest.MonkeyPatch) -> list[ParserContext]:
    """The tasks of a command line, as Invoke reads it. Raises ParseError."""
    monkeypatch.setattr(sys, "argv", words)
    program = Program(version="0")
    program.create_config()
    program.parse_core(words)
    program.namespace = tasks.ns
    program.parse_collection()
    program.parse_tasks()
    return list(program.tasks)


TASK_COMMANDS = [shown for shown in shown_commands() if shown.is_task]


@pytest.mark.parametrize("shown", TASK_COMMANDS, ids=lambda shown: f"{shown.page}: {shown.text}")
def test_every_command_that_is_shown_can_be_typed(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_DATA_DIR", "/nowhere")
    try:
        (task,) = parse(shown.words, monkeypatch)
    except ParseError as error:
        # A sentence may name a task, or a flag, without what belongs to it.
        lacks = re.search("did not receive required positional|needed value and was not given", str(error))
        assert shown.mentioned and lacks, error
    else:
        assert {task.name, *task.aliases} & set(shown.words)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("invoke sdk.fetsh", "No idea what 'sdk.fetsh' is"),
        ("invoke build --targt llama", "No idea what '--targt' is"),
        ("invoke board.push a b c d", "No idea what"),
        ("invoke board.lock --for", "needed value"),
    ],
)
def test_a_command_that_cannot_be_typed_would_be_found(
    line: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ParseError, match=complaint):
        parse(line.split(), monkeypatch)


@pytest.mark.parametrize(
    "shown",
    [shown for shown in shown_commands() if shown.manage_words],
    ids=lambda shown: f"{shown.page}: {shown.text}",
)
def test_every_command_for_emulated_boards_that_is_shown_can_be_typed(shown: Shown) -> None:
    context, command, words = None, manage, shown.manage_words
    while hasattr(command, "commands"):
        assert words, shown.text
        context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, list(words), parent=context)


@pytest.mark.parametrize("shown", shown_commands(), ids=lambda shown: f"{shown.page}: {shown.text}")
def test_every_command_that_is_shown_is_run_by_a_test_or_marked_why_not(shown: Shown) -> None:
    assert find_row(shown) is not None, f"tests/data/shown_commands.yaml has no row for it: {shown.text}"


@pytest.mark.parametrize("row", load_rows(), ids=lambda row: row.pattern)
def test_every_row_is_needed_and_names_a_test_that_does_it_or_a_reason(row: Row) -> None:
    assert row in [find_row(shown) for shown in shown_commands()]
    if row.test:
        file, _, name = row.test.partition("::")
        text = (ROOT / file).read_text()
        assert name in names_in(file)
        assert row.holds
        assert row.holds in text


@cache
def names_in(file: str) -> set[str]:
    return {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
