"""Reads the words of a command line: core flags, tasks, their flags and arguments.

Invoke's own parser is not used, because a number that is none ends it with a traceback, it knows no argument that may
be left away, and its errors do not say what would be right.
"""

from __future__ import annotations

import copy
import difflib
import shlex
from collections import deque
from collections.abc import Collection, Iterable

from invoke.exceptions import ParseError
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext
from invoke.parser.parser import Parser, ParseResult

from commands.command import CommandTask
from core.addresses import quoted
from core.errors import UnknownName, UsageError

BEFORE_A_TASK_ONLY = ("complete", "print-completion-script", "version")
NOTHING_HERE = "Leave it away: it is Invoke's, and changes nothing that these tasks do."
INVOKES_OWN = {
    **dict.fromkeys(("--echo", "-e"), "Write --verbose behind the task: every command that is run is echoed."),
    **dict.fromkeys(
        ("--command-timeout", "-T"),
        "Write --timeout SECONDS behind a task that takes it, or set a time under ohforge.timeouts.",
    ),
    **dict.fromkeys(
        ("--hide", "--pty", "-p", "--warn-only", "-w", "--prompt-for-sudo-password", "--no-dedupe", "--write-pyc"),
        NOTHING_HERE,
    ),
}
"""Core flags of Invoke that are about its ``run()``, which no task uses; what to do instead."""


class UnreadableWords(ParseError):
    """Ends the reading as Invoke's completion expects it; `error` is what is told."""

    def __init__(self, error: UsageError, context: ParserContext | None) -> None:
        super().__init__(error.message, context)
        self.error = error


class TaskContext(ParserContext):
    """What one task takes; only its names when it does not stand in `words`: to ask all tasks takes a short call long."""

    def __init__(self, name: str, aliases: Collection[str], task: CommandTask, words: Collection[str]) -> None:
        is_called = not {name, *aliases}.isdisjoint(words)
        arguments = [*task.get_arguments(), *task.more_arguments()] if is_called else []
        super().__init__(name=name, aliases=aliases, args=arguments)
        self.called = name
        """The name that was typed: ``build`` for ``build.build``."""
        self.takes_remainder = bool(task.remainder)
        self.optional: Argument | None = (
            self.args[task.optional_positional] if arguments and task.optional_positional else None
        )
        self.instead: Argument | None = self.args[task.unless] if arguments and task.unless else None

    def help_for(self, flag: str) -> tuple[str, str]:
        """As Invoke's, which shows numbers with a point and repeatable flags as if they took no value."""
        spec, text = super().help_for(flag)
        kind = {float: "FLOAT", list: "STRING"}.get(self.flags[flag].kind)
        return (f"{spec}={kind}" if kind else spec), text


class WordParser(Parser):
    """Takes the place of Invoke's parser; `program` is the name under which remedies show commands."""

    def __init__(
        self,
        program: str,
        initial: ParserContext,
        contexts: Iterable[ParserContext] = (),
        ignore_unknown: bool = False,
    ) -> None:
        super().__init__(contexts, initial, ignore_unknown)
        self._program = program
        self._initial = initial

    def parse_argv(self, argv: list[str]) -> ParseResult:
        """Reads `argv` (without the program's name); raises UnreadableWords.

        ``remainder`` holds the words after ``--``, quoted so that `shlex.split` gives them back as they were typed.
        """
        end = argv.index("--") if "--" in argv else len(argv)
        self._words = deque(argv[:end])
        self._core = copy.deepcopy(self._initial)
        self._task: TaskContext | None = None
        result = ParseResult([self._core])
        result.remainder = shlex.join(argv[end + 1 :])
        while self._words:
            word = self._words.popleft()
            is_flag = word.startswith("-") and word != "-"
            if self.ignore_unknown and not (is_flag and word.partition("=")[0] in self._core.flags):
                result.unparsed = [word, *self._words]
                break
            if is_flag:
                self._read_flag(word)
            elif not self._read_argument(word):
                self._complete_task()
                self._task = self._begin_task(word)
                result.append(self._task)
        self._complete_task()
        return result

    def _read_flag(self, word: str) -> None:
        flag, equals, value = word.partition("=")
        found = self._find(flag)
        if found is None:
            raise self._wrong(self._unknown_flag(flag))
        argument, asserted = found
        if not argument.takes_value:
            if equals:
                raise self._wrong(UsageError(f"{flag} takes no value, but was given {quoted(value)}."))
            argument.set_value(asserted, cast=False)
        elif argument.optional and not equals:
            argument.set_value(self._value_if_any(argument), cast=False)
        else:
            self._set(argument, flag, value if equals else self._next_value(flag, argument))

    def _find(self, flag: str) -> tuple[Argument, bool] | None:
        """The argument behind a flag, and whether the flag sets it (``--no-x`` clears it)."""
        if self._task is not None:
            if flag in self._task.flags:
                return self._task.flags[flag], True
            if flag in self._task.inverse_flags:
                return self._task.flags[self._task.inverse_flags[flag]], False
        if flag not in self._core.flags:
            return None
        core = self._core.flags[flag]
        return None if self._task and core.name in BEFORE_A_TASK_ONLY else (core, True)

    def _value_if_any(self, argument: Argument) -> str | bool:
        """For ``--help`` and ``--list``: the word that follows; behind a task, ``--help`` is about that task."""
        if self._task is not None:
            return self._task.called if argument.name == "help" else True
        return self._words.popleft() if self._words and not self._words[0].startswith("-") else True

    def _next_value(self, flag: str, argument: Argument) -> str:
        if not self._words or self._find(self._words[0].partition("=")[0]) is not None:
            kind = {int: "NUMBER", float: "NUMBER"}.get(argument.kind, "VALUE")
            raise self._wrong(UsageError(f"{flag} needs a value.", remedy=f"Write {flag} {kind}."))
        return self._words.popleft()

    def _set(self, argument: Argument, flag: str, value: str) -> None:
        alone = self._task is not None and argument in (*self._task.positional_args, self._task.optional)
        if alone and argument.got_value and argument.kind is not list:
            raise self._wrong(
                UsageError(f"{_shown(argument)} is given twice: {quoted(argument.value)} and {quoted(value)}.")
            )
        try:
            argument.value = value
        except ValueError:
            kind = "a whole number" if argument.kind is int else "a number"
            raise self._wrong(
                UsageError(f"{flag} takes {kind}, not {quoted(value)}.", remedy=f"Write {flag} NUMBER.")
            ) from None

    def _read_argument(self, word: str) -> bool:
        """Takes a word without dashes as an argument of the task at hand, when one is open."""
        task = self._task
        if task is None:
            return False
        if task.missing_positional_args:
            task.missing_positional_args[0].value = word
        elif task.optional and self._takes(task.optional, word) and not (task.instead and task.instead.got_value):
            task.optional.value = word
        else:
            return False
        return True

    def _takes(self, argument: Argument, word: str) -> bool:
        """Whether an argument that need not be given takes one more word: a list does, up to the name of a task."""
        return not argument.got_value or (argument.kind is list and word not in self.contexts)

    def _begin_task(self, word: str) -> TaskContext:
        if word not in self.contexts:
            raise self._wrong(self._unknown_task(word) if self._task is None else self._leftover(self._task, word))
        task: TaskContext = copy.deepcopy(self.contexts[word])
        task.called = word
        return task

    def _complete_task(self) -> None:
        task = self._task
        if task is None or self._core.args.help.value:
            return
        if missing := task.missing_positional_args:
            names = " and ".join(_shown(argument) for argument in missing)
            wanted = " ".join(_shown(argument) for argument in task.positional_args)
            raise self._wrong(
                UsageError(f"{task.called} needs {names}.", remedy=f"Write `{self._program} {task.called} {wanted}`.")
            )
        if task.optional and task.instead and task.optional.got_value == task.instead.got_value:
            either = f"{_shown(task.optional)} or --{task.instead.names[0]}"
            raise self._wrong(
                UsageError(
                    f"{task.called} takes {either}, not both."
                    if task.optional.got_value
                    else f"{task.called} needs {either}."
                )
            )

    def _unknown_flag(self, flag: str) -> UsageError:
        every = (*(self._task.flag_names() if self._task else ()), *self._core.flag_names())
        known = [name for name in every if self._find(name) is not None]
        own = self._task.called if self._task else self._program
        help = f"`{self._program} {self._task.called} --help`" if self._task else f"`{self._program} --help`"
        close = difflib.get_close_matches(flag, known, n=1)
        remedy = (
            f"{close[0]} is the nearest that it has; {help} shows all." if close else f"{help} shows all that it has."
        )
        return UnknownName(f"{own} has no flag {flag!r}.", remedy=INVOKES_OWN.get(flag, remedy))

    def _unknown_task(self, word: str) -> UsageError:
        names = [name for context in self.contexts.values() for name in (context.name, *context.aliases)]
        close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
        every = f"`{self._program} --list` shows all."
        return UnknownName(
            f"There is no task {quoted(word)}.", remedy=f"{close[0]} is the nearest; {every}" if close else every
        )

    def _leftover(self, task: TaskContext, word: str) -> UsageError:
        behind = "; a program's own words stand behind --" if task.takes_remainder else ""
        return UsageError(
            f"{task.called} does not take the word {quoted(word)}, and it is no task either.",
            remedy=f"`{self._program} {task.called} --help` shows what it takes{behind}.",
        )

    def _wrong(self, error: UsageError) -> UnreadableWords:
        return UnreadableWords(error, self._task)


def _shown(argument: Argument) -> str:
    return argument.names[0].upper()
