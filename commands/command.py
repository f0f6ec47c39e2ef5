"""What every task has in common: a session, ``--json``, ``--verbose``, ``--dry``."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.context import Context
from invoke.exceptions import Exit
from invoke.parser.argument import Argument
from invoke.tasks import Task

if TYPE_CHECKING:
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


class CommandTask(Task[Any]):
    """A task with what our parser has to know of it."""

    optional_positional: str = ""
    unless: str = ""
    remainder: str = ""
    changes: bool = False
    dry: bool = False

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        # Invoke takes the help out of the task: a second call in the same process would show none.
        help = dict(self.help)
        arguments: list[Argument] = super().get_arguments(ignore_unknown_help)
        self.help = help
        return arguments


def command(
    *,
    help: dict[str, str],
    name: str | None = None,
    default: bool = False,
    positional: tuple[str, ...] = (),
    optional_positional: str = "",
    unless: str = "",
    repeatable: tuple[str, ...] = (),
    remainder: str = "",
    changes: bool = False,
    dry: bool = False,
) -> Callable[[Callable[..., Answer | None]], CommandTask]:
    """Makes an Invoke task of a function ``body(session, …) -> Answer``.

    `optional_positional` is a positional argument that need not be given when the flag `unless` is, or ever when
    there is no such flag. `remainder` is the parameter that takes the words after ``--``, each as it was typed.
    `changes` says that the task changes files, boards or leases; with ``--dry`` it is refused then, unless `dry` says
    that its body looks at ``session.dry``, tells what it would do and changes nothing.
    """

    def make(body: Callable[..., Answer | None]) -> CommandTask:
        signature = inspect.signature(body)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != remainder]
        extra = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False) for name in ("json", "verbose")]

        @functools.wraps(body)
        def run(context: Context, *args: Any, json: bool = False, verbose: bool = False, **kwargs: Any) -> None:
            session = _begin_session(context, json=json, verbose=verbose)
            if session.dry and changes and not dry:
                from core.errors import UsageError

                raise UsageError("This task cannot say yet what it would do (--dry); nothing was done.", remedy="")
            if remainder:
                kwargs[remainder] = tuple(shlex.split(context.remainder))
            answer = body(session, *args, **kwargs) or Answer()
            session.console.result({"ok": answer.exit_status == 0, **answer.value})
            if answer.exit_status:
                raise Exit(code=answer.exit_status)

        run.__signature__ = signature.replace(parameters=[*own, *extra])  # type: ignore[attr-defined]
        task = CommandTask(
            run,
            name=name,
            default=default,
            positional=positional,
            iterable=repeatable,
            auto_shortflags=False,
            help={**help, **COMMON_HELP},
        )
        task.optional_positional, task.unless, task.remainder = optional_positional, unless, remainder
        task.changes, task.dry = changes, dry
        return task

    return make


def find_project_file() -> Path | None:
    """The ``invoke.yaml`` that holds here: of the current folder, else of the nearest one above it."""
    here = Path.cwd()
    files = (folder / "invoke.yaml" for folder in (here, *here.parents))
    return next((file for file in files if file.is_file()), None)


def _begin_session(context: Context, *, json: bool, verbose: bool) -> Session:
    from core.console import Console, Verbosity
    from core.process import RealRunner
    from core.session import Session
    from core.settings import read_settings

    console = Console(json_mode=json, verbosity=Verbosity.VERBOSE if verbose else Verbosity.NORMAL)
    settings = read_settings(dict(context.config["ohforge"].items()), _configuration_files)
    return Session(
        settings=settings,
        console=console,
        runner=RealRunner(echo=console.detail),
        dry=bool(context.config["run"]["dry"]),
    )


def _configuration_files() -> dict[str, Any]:
    """What stands in each of Invoke's configuration files: read only when an error has to name one."""
    import yaml

    paths = (Path("/etc/invoke.yaml"), Path.home() / ".invoke.yaml", find_project_file())
    return {str(path): yaml.safe_load(path.read_text()) or {} for path in paths if path and path.is_file()}
