"""The program ``ohforge``, and the same program where ``invoke`` is called in the clone."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from invoke.completion.complete import print_completion_script
from invoke.exceptions import Exit, ParseError
from invoke.parser.argument import Argument
from invoke.program import Program
from invoke.util import enable_logging

from commands.collection import ns
from commands.command import CommandTask
from commands.parser import TaskContext, UnreadableWords, WordParser
from core.configuration import configuration_errors, find_project_file
from core.errors import InternalError, Interrupted, OhforgeError, UsageError, explain_exception, unknown_name
from core.interrupts import leave_at_once, termination_as_interrupt
from core.invoke_configuration import OhforgeConfig
from core.process import kill_all_running

if TYPE_CHECKING:
    from invoke.collection import Collection

OFFERED = (
    "complete",
    "config",
    "debug",
    "dry",
    "help",
    "list",
    "list-depth",
    "list-format",
    "print-completion-script",
    "version",
)
LIST_FORMATS = ("flat", "nested", "json")
OBEYED_BY_INVOKE = ("collection", "search-root", "write-pyc")
"""Flags that have done their work when ``invoke`` reads ``tasks.py``."""


class OhforgeProgram(Program):
    """Invoke's program, in which every failure has its status and, with ``--json``, its one object."""

    def __init__(self, *names: str, namespace: Collection = ns, more_flags: tuple[str, ...] = ()) -> None:
        names = names or ("ohforge",)
        super().__init__(
            namespace=namespace,
            name="ohforge",
            binary=names[0],
            binary_names=list(names),
            config_class=OhforgeConfig,
        )
        self._offered = (*OFFERED, *more_flags)

    def run(self, argv: list[str] | str | None = None, exit: bool = True) -> None:
        """Does what `argv` says (with the program's name first); ends the process when that fails."""
        self.normalize_argv(cast("list[str] | None", argv))
        words = list(itertools.takewhile(lambda word: word != "--", self.argv[1:]))
        in_json = "--json" in words
        status = 0
        try:
            with termination_as_interrupt():
                self._perform()
            sys.stdout.flush()
        except Exit as end:
            status = end.code if not end.message else _tell(in_json, UsageError(end.message))
        except UnreadableWords as unreadable:
            status = _tell(in_json, unreadable.error)
        except ParseError as error:
            status = _tell(in_json, UsageError(str(error)))
        except OhforgeError as error:
            status = _tell(in_json, error)
        except BrokenPipeError:
            # Whoever read our output has seen enough (`| head`); nothing may be written at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 128 + signal.SIGPIPE
        except KeyboardInterrupt:
            status = _tell(in_json, Interrupted("Interrupted."))
        except Exception as error:
            known = explain_exception(error)
            if "--verbose" in words and isinstance(known, InternalError):
                raise
            status = _tell(in_json, known)
        if status and exit:
            leave_at_once(status, kill_all_running)
            sys.exit(status)

    def _perform(self) -> None:
        with configuration_errors():
            self.create_config()
        self.parse_core_args()
        if self.args.debug.value:
            enable_logging()
        if self.args.version.value:
            self.print_version()
            return
        if shell := self.args["print-completion-script"].value:
            print_completion_script(shell=shell, names=self.binary_names)
            return
        self.parse_collection()
        self.parse_tasks()
        self.parse_cleanup()
        with configuration_errors():
            self.update_config()
            self.execute()

    def core_args(self) -> list[Argument]:
        every = (*super().core_args(), *self.task_args())
        offered = {argument.names[0]: argument for argument in every if argument.names[0] in self._offered}
        offered["dry"].help = "Say what a task would do, and change nothing."
        return list(offered.values())

    def parse_core_args(self) -> None:
        parser = WordParser(self.binary, initial=self.initial_context, ignore_unknown=True)
        self.core = parser.parse_argv(self.argv[1:])

    def parse_collection(self) -> None:
        super().parse_collection()
        # Without an invoke.yaml, Invoke would look for an invoke.py, and run whatever the user has under that name.
        if file := find_project_file():
            with configuration_errors():
                self.config.set_project_location(file.parent)
                self.config.load_project()

    def parse_tasks(self) -> None:
        super().parse_tasks()
        tasks = cast("list[TaskContext]", self.tasks)
        if tasks and self.core.remainder and not any(task.takes_remainder for task in tasks):
            raise UsageError(f"{tasks[-1].called} takes no words behind --: {self.core.remainder}.")
        if len(tasks) > 1 and any(task.args.json.value for task in tasks):
            raise UsageError("--json answers for one task.", remedy="Call one task at a time.")

    def _make_parser(self) -> WordParser:
        words = {word.rpartition("=")[2] for word in self.argv}
        contexts = [
            TaskContext(name, aliases, cast("CommandTask", self.collection[name]), words)
            for name, aliases in self.collection.task_names.items()
        ]
        return WordParser(self.binary, initial=self.initial_context, contexts=contexts)

    def parse_cleanup(self) -> None:
        if (shown := self.args["list-format"].value) not in LIST_FORMATS:
            raise unknown_name("format (--list-format)", shown, LIST_FORMATS)
        super().parse_cleanup()

    def update_config(self, merge: bool = True) -> None:
        self.config.load_overrides({"run": {"dry": True}} if self.args.dry.value else {}, merge=False)
        file = self.args.config.value or os.environ.get("INVOKE_RUNTIME_CONFIG")
        if file and not Path(file).is_file():
            raise UsageError(f"There is no configuration file {file!r}.")
        self.config.set_runtime_path(Path(file) if file else None)
        self.config.load_runtime(merge=False)
        if merge:
            self.config.merge()

    def print_columns(self, tuples: Sequence[tuple[str, str | None]]) -> None:
        """As Invoke's; the flags of a task that come in groups stand under their titles."""
        asked = self.args.help.value
        titles = self.collection[asked].titles if isinstance(asked, str) and asked in self.parser.contexts else {}
        if not titles:
            super().print_columns(tuples)
            return
        groups: dict[str, list[tuple[str, str | None]]] = {title: [] for title in ("", *titles.values())}
        for spec, text in tuples:
            name = re.sub(r"^--(?:\[no-\])?([\w-]+).*", r"\1", spec)
            groups[titles.get(name, "")].append((spec, text))
        for title, rows in groups.items():
            if title:
                print(f"{title}:")
            super().print_columns(rows)

    def print_version(self) -> None:
        from importlib.metadata import version

        print(f"ohforge {version('ohforge')}")


def answer_for_invoke() -> None:
    """Goes on as our own program, and ends, where ``invoke`` is reading ``tasks.py``.

    Invoke's program cannot be told of another parser or of other statuses by what it loads, and a second set of rules
    for the same words would drift from the first.
    """
    from invoke.main import program

    if program.argv:
        # Invoke keeps Python from caching modules, but compiling ours anew takes a fifth of a short call.
        sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
        OhforgeProgram("invoke", "inv", more_flags=OBEYED_BY_INVOKE).run(program.argv)
        sys.exit(0)


def _tell(in_json: bool, error: OhforgeError) -> int:
    from core.console import Console, closed_when_full

    console = Console(json_mode=in_json)
    with closed_when_full(sys.stderr):
        console.error(f"error {error.code} ({error.category.label}): {error.message}")
        if error.remedy:
            console.error(f"  Try: {error.remedy}")
    with closed_when_full(sys.stdout):
        console.result({"ok": False, "error": error.as_json()})
    return error.exit_status
