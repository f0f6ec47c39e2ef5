"""What every task has in common: a session, ``--json``, ``--verbose``, ``--dry``."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from invoke.context import Context
from invoke.exceptions import Exit
from invoke.parser.argument import Argument
from invoke.tasks import Task

if TYPE_CHECKING:
    from core.invoke_configuration import OhforgeConfig
    from core.session import Session


@dataclass(frozen=True)
class Answer:
    """What a task's body returns: the JSON object (without ``ok``) and the exit status to end with."""

    value: dict[str, Any] = field(default_factory=dict)
    exit_status: int = 0
    by_lines: bool = False
    """The answer was given as it came, one JSON object a line; there is no other one."""


@dataclass(frozen=True, kw_only=True)
class FlagGroup:
    """Flags that a task's body gets as one value: those fields of a dataclass that have help here.

    A field that is None when nothing is said is a switch; one that is a tuple may be given again.
    """

    title: str
    type: type[Any]
    help: Mapping[str, str]

    def parameters(self, changed: Mapping[str, Any]) -> list[inspect.Parameter]:
        """The flags; `changed` has the defaults that are other ones than the dataclass's."""
        return [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=_plain(changed.get(field.name, field.default))
            )
            for field in self._fields
        ]

    def without(self, names: Iterable[str]) -> FlagGroup:
        """The group without the flags that a task has itself."""
        own = set(names)
        return dataclasses.replace(self, help={flag: text for flag, text in self.help.items() if flag not in own})

    @property
    def repeatable(self) -> list[str]:
        return [field.name for field in self._fields if field.default == ()]

    def take(self, values: dict[str, Any]) -> Any:
        """The dataclass, of the flags that are taken out of `values`."""
        given = {field.name: values.pop(field.name) for field in self._fields}
        return self.type(**{name: self._given(name, value) for name, value in given.items()})

    def _given(self, name: str, value: Any) -> Any:
        if name in self.repeatable:
            return tuple(value or ())
        return None if value is False else value

    @property
    def _fields(self) -> list[dataclasses.Field[Any]]:
        return [field for field in dataclasses.fields(self.type) if field.name.replace("_", "-") in self.help]


def _plain(default: Any) -> Any:
    return {None: False, (): None}.get(default, default)


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
    titles: Mapping[str, str] = {}
    """Under which title a flag stands in the help; those without one come first."""
    more_flags: Callable[[], Iterable[tuple[str, Argument]]] | None = None
    """Further flags that are known only when the command line is read, each with its title."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        # Invoke takes the help out of the task: a second call in the same process would show none.
        help = dict(self.help)
        arguments: list[Argument] = super().get_arguments(ignore_unknown_help)
        self.help = help
        return arguments

    def more_arguments(self) -> list[Argument]:
        """Those of `more_flags`; asked for when the task is called only, for they are read from files."""
        found = list(self.more_flags()) if self.more_flags is not None else []
        self.titles = {**self.titles, **{argument.names[0]: title for title, argument in found}}
        return [argument for _, argument in found]


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
    groups: Mapping[str, FlagGroup] | None = None,
    defaults: Mapping[str, Any] | None = None,
    more_flags: Callable[[], Iterable[tuple[str, Argument]]] | None = None,
    changes: bool = False,
    dry: bool = False,
) -> Callable[[Callable[..., Answer | None]], CommandTask]:
    """Makes an Invoke task of a function ``body(session, …) -> Answer``.

    `optional_positional` is a positional argument that need not be given when the flag `unless` is, or ever when
    there is no such flag. `remainder` is the parameter that takes the words after ``--``, each as it was typed.
    `groups` are parameters that take several flags as one value, with `defaults` of their own. `more_flags` are known
    only when a command line is read; the parameter ``given`` takes those that were given.
    `changes` says that the task changes files, boards or leases; with ``--dry`` it is refused then, unless `dry` says
    that its body looks at ``session.dry``, tells what it would do and changes nothing.
    """

    def make(body: Callable[..., Answer | None]) -> CommandTask:
        signature = inspect.signature(body)
        grouped = dict(groups or {})
        taken = {remainder, *grouped, *(["given"] if more_flags else [])}
        own = [parameter for parameter in signature.parameters.values() if parameter.name not in taken]
        grouped = {name: group.without(parameter.name for parameter in own) for name, group in grouped.items()}
        flags = [flag for group in grouped.values() for flag in group.parameters(defaults or {})]
        known = {parameter.name for parameter in (*own, *flags)}
        extra = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False) for name in ("json", "verbose")]

        @functools.wraps(body)
        def run(context: Context, /, *args: Any, json: bool = False, verbose: bool = False, **kwargs: Any) -> None:
            is_dry = changes and bool(context.config["run"]["dry"])
            session = _begin_session(context, json=json, verbose=verbose, dry=is_dry)
            if is_dry and not dry:
                from core.errors import UsageError

                raise UsageError("This task cannot say yet what it would do (--dry); nothing was done.", remedy="")
            if more_flags:
                others = [name for name in kwargs if name not in known]
                kwargs["given"] = {name: value for name in others if (value := kwargs.pop(name))}
            if remainder:
                kwargs[remainder] = tuple(shlex.split(context.remainder))
            for name, group in grouped.items():
                kwargs[name] = group.take(kwargs)
            answer = body(session, *args, **kwargs) or Answer()
            if not answer.by_lines:
                session.console.result({"ok": answer.exit_status == 0, **answer.value})
            if answer.exit_status:
                raise Exit(code=answer.exit_status)

        run.__signature__ = signature.replace(parameters=[*own, *flags, *extra])  # type: ignore[attr-defined]
        task = CommandTask(
            run,
            name=name,
            default=default,
            positional=positional,
            iterable=[*repeatable, *(name for group in grouped.values() for name in group.repeatable)],
            auto_shortflags=False,
            help=_with_defaults(
                {
                    **{flag: text for group in grouped.values() for flag, text in group.help.items()},
                    **help,
                    **COMMON_HELP,
                },
                [*own, *flags],
            ),
        )
        task.optional_positional, task.unless, task.remainder = optional_positional, unless, remainder
        task.changes, task.dry = changes, dry
        task.titles = {flag: group.title for group in grouped.values() for flag in group.help}
        task.more_flags = more_flags
        return task

    return make


def _with_defaults(help: Mapping[str, str], parameters: Iterable[inspect.Parameter]) -> dict[str, str]:
    """`help`, in which each flag tells the default that it has, unless its text speaks of it already."""
    defaults = {parameter.name: parameter.default for parameter in parameters}

    def add(flag: str, text: str) -> str:
        default = defaults.get(flag.replace("-", "_"))
        if not isinstance(default, int | float | str) or not default or "default" in text.lower():
            return text
        return f"{text} Default: {f'{default:g}' if isinstance(default, float) else default}."

    return {flag: add(flag, text) for flag, text in help.items()}


def _begin_session(context: Context, *, json: bool, verbose: bool, dry: bool) -> Session:
    from core.console import Console, Verbosity
    from core.process import RealRunner
    from core.session import Session
    from core.settings import read_settings

    console = Console(json_mode=json, verbosity=Verbosity.VERBOSE if verbose else Verbosity.NORMAL)
    config = cast("OhforgeConfig", context.config)
    settings = read_settings(dict(config["ohforge"].items()), config.sources, _profiles)
    return Session(
        settings=settings,
        console=console,
        runner=RealRunner(echo=console.detail),
        dry=dry,
    )


def _profiles() -> list[str]:
    from deploy.board.profiles import list_profiles

    return list_profiles()
