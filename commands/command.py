"""What every task has in common: a session, ``--json``, ``--verbose``, errors with an exit status."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.context import Context
from invoke.exceptions import Exit
from invoke.parser.argument import Argument
from invoke.tasks import Task

if TYPE_CHECKING:
    from core.errors import OhforgeError
    from core.session import Session


@dataclass(frozen=True)
class Answer:
    """What a task's body returns: the JSON object (without ``ok``) and the exit status to end with."""

    value: dict[str, Any] = field(default_factory=dict)
    exit_status: int = 0


TOOLCHAIN_HELP = {
    "arch": "arm32, arm64 or x86_64.",
    "toolchain": "Host toolchain: ohos or zig. Default: the setting, else ohos when an SDK is there, else zig.",
    "sdk": "Folder of an ohos-sdk in any of its usual layouts, or version of an installed one.",
    "cpu": "CPU tuning such as cortex-a55; default generic, which runs on every CPU of the arch.",
    "static": "Link statically: the program then needs no library on the board.",
    "stl": "C++ library of the SDK: c++_static, c++_shared or none.",
}
"""Help for the flags of every task that chooses a toolchain."""

COMMON_HELP = {
    "json": "Print one JSON object on stdout and nothing else there.",
    "verbose": "Echo every command that is run; show tracebacks of defects.",
}


def command(
    *,
    help: dict[str, str],
    name: str | None = None,
    default: bool = False,
    positional: tuple[str, ...] = (),
    optional_positional: str = "",
    unless: str = "",
    repeatable: tuple[str, ...] = (),
) -> Callable[[Callable[..., Answer | None]], Task[Any]]:
    """Makes an Invoke task of a function ``body(session, …) -> Answer``.

    `optional_positional` is a positional argument that need not be given when the flag `unless` is, or ever when
    there is no such flag; Invoke itself knows only positional arguments that must be there.
    """

    def make(body: Callable[..., Answer | None]) -> Task[Any]:
        signature = inspect.signature(body)
        extra = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False) for name in ("json", "verbose")]

        @functools.wraps(body)
        def run(context: Context, *args: Any, json: bool = False, verbose: bool = False, **kwargs: Any) -> None:
            _run(body, context, json, verbose, *args, **kwargs)

        run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *extra])  # type: ignore[attr-defined]
        task = _Task(
            run,
            name=name,
            default=default,
            positional=positional,
            iterable=repeatable,
            auto_shortflags=False,
            help={**help, **COMMON_HELP},
        )
        task.optional_positional = optional_positional
        task.unless = unless
        return task

    return make


def remainder_words() -> tuple[str, ...]:
    """The words after ``--`` on the command line, each as it was typed (Invoke joins them with blanks)."""
    words = sys.argv[1:]
    return tuple(words[words.index("--") + 1 :]) if "--" in words else ()


class _Task(Task[Any]):
    """A task one of whose positional arguments may be left away."""

    optional_positional: str = ""
    unless: str = ""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        arguments: list[Argument] = super().get_arguments(ignore_unknown_help)
        if {"--help", "-h"} & set(sys.argv):
            # Invoke would take --help for the value of an argument that is still missing.
            for argument in arguments:
                argument.positional = False
            return arguments
        if not self.optional_positional or (not self.unless and not _word_follows(self.name, arguments)):
            return arguments
        instead = next((argument for argument in arguments if argument.name == self.unless), None)
        return [
            _OptionalPositional(argument, instead) if argument.name == self.optional_positional else argument
            for argument in arguments
        ]


def _word_follows(task: str, arguments: Sequence[Argument]) -> bool:
    """Whether the command line has a word after the task's name that is neither a flag nor the value of one.

    Invoke's parser cannot be asked to look ahead.
    """
    words = itertools.takewhile(lambda word: word != "--", sys.argv)
    rest = itertools.dropwhile(lambda word: word.rpartition(".")[2] != task, words)
    next(rest, None)
    takes_value = {f"--{name}" for argument in arguments if argument.takes_value for name in argument.names}
    for word in rest:
        if not word.startswith("-"):
            return True
        if word in takes_value:
            next(rest, None)
    return False


class _OptionalPositional(Argument):
    """Counts as missing, so that the parser fills it, until it or the flag that replaces it is given."""

    def __init__(self, like: Argument, instead: Argument | None) -> None:
        super().__init__(
            names=like.names, kind=str, default=None, help=like.help, positional=True, attr_name=like.attr_name
        )
        self._instead = instead

    @property
    def value(self) -> Any:
        if self._value is not None:
            return self._value
        return "" if self._instead is not None and self._instead.got_value else None

    @value.setter
    def value(self, given: str) -> None:
        self.set_value(given, cast=True)


def _run(
    body: Callable[..., Answer | None], context: Context, json: bool, verbose: bool, *args: Any, **kwargs: Any
) -> None:
    from core.console import Console, Verbosity
    from core.errors import InternalError, Interrupted, OhforgeError

    console = Console(json_mode=json, verbosity=Verbosity.VERBOSE if verbose else Verbosity.NORMAL)
    try:
        with _termination_as_interrupt():
            answer = body(_session(context, console), *args, **kwargs) or Answer()
            console.result({"ok": answer.exit_status == 0, **answer.value})
    except OhforgeError as error:
        raise _failed(console, error) from None
    except BrokenPipeError:
        # Whoever read our output has seen enough (`| head`); nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(code=128 + signal.SIGPIPE) from None
    except KeyboardInterrupt:
        raise _failed(console, Interrupted("Interrupted.")) from None
    except Exception as error:
        if verbose:
            raise
        raise _failed(console, InternalError(f"{type(error).__name__}: {error}")) from None
    if answer.exit_status:
        raise Exit(code=answer.exit_status)


def _session(context: Context, console: Any) -> Session:
    from core.process import RealRunner
    from core.session import Session
    from core.settings import read_settings

    configured = dict(context.config["ohforge"].items())
    settings = read_settings(configured, _configuration_files)
    return Session(settings=settings, console=console, runner=RealRunner(echo=console.detail))


def _configuration_files() -> dict[str, Any]:
    """What stands in each of Invoke's configuration files: read only when an error has to name one."""
    import yaml

    project = next(
        (folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "tasks.py").is_file()), Path.cwd()
    )
    paths = (Path("/etc/invoke.yaml"), Path.home() / ".invoke.yaml", project / "invoke.yaml")
    return {str(path): yaml.safe_load(path.read_text()) or {} for path in paths if path.is_file()}


def _failed(console: Any, error: OhforgeError) -> Exit:
    console.error(f"error {error.code} ({error.category.label}): {error.message}")
    if error.remedy:
        console.error(f"  Try: {error.remedy}")
    console.result({"ok": False, "error": error.as_json()})
    return Exit(code=error.exit_status)


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end ohforge as Ctrl-C does: what runs on a board is stopped first."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    old = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
