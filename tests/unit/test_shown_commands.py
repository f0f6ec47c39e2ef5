"""Every command that a page shows can be typed, and is run by a test or marked why not."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from invoke.exceptions import ParseError

from commands.collection import ns
from commands.parser import TaskContext
from commands.program import OBEYED_BY_INVOKE, OhforgeProgram
from deploy.emulator.manage import manage
from tests.support.emulated import ROOT
from tests.support.shown_commands import Row, Shown, find_row, load_rows, shown_commands


def parse(words: list[str]) -> list[TaskContext]:
    """The tasks of a command line, as ohforge reads it. Raises ParseError."""
    program = OhforgeProgram(more_flags=OBEYED_BY_INVOKE)
    program.normalize_argv(words)
    program.create_config()
    program.parse_core_args()
    program.parse_collection()
    program.parse_tasks()
    return [task for task in program.tasks if isinstance(task, TaskContext)]


@cache
def every_name() -> set[str]:
    return {name for task, aliases in ns.task_names.items() for name in (task, *aliases)}


TASK_COMMANDS = [shown for shown in shown_commands() if shown.is_task]


@pytest.mark.parametrize("shown", TASK_COMMANDS, ids=lambda shown: f"{shown.page}: {shown.text}")
def test_every_command_that_is_shown_can_be_typed(shown: Shown) -> None:
    try:
        tasks = parse(shown.words)
    except ParseError as error:
        # A sentence may name a task, or a flag, without what belongs to it.
        assert shown.mentioned, error
        assert re.search(" needs ", str(error)), error
    else:
        assert [task.called for task in tasks] == [word for word in shown.words[1:] if word in every_name()]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("invoke sdk.fetsh", "There is no task 'sdk.fetsh'"),
        ("invoke build --targt llama", "build has no flag '--targt'"),
        ("invoke board.push a b c d", "does not take the word 'c'"),
        ("invoke board.lock --for", "--for needs a value"),
    ],
)
def test_a_command_that_cannot_be_typed_would_be_found(line: str, complaint: str) -> None:
    with pytest.raises(ParseError, match=complaint):
        parse(line.split())


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
