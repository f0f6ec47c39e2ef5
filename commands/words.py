"""How words of the command line are read: flags that several tasks have, times, sizes, and pairs of name and value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from invoke.parser.argument import Argument

from commands.command import FlagGroup
from core.addresses import quoted
from core.errors import UsageError
from core.files import read_amount
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from deploy.run.options import RunOptions
    from native.recipe.flags import Flag

ARCH_HELP = "arm32, arm64 or x86_64; default: the best that the board runs."
CPU_HELP = "CPU tuning; default: the one of the board's profile."
BOARD_HELP = (
    "Serial, ssh:// address, lab:PLACE, name under ohforge.boards, or emulated board; `ohforge board.list` shows them."
)
BOARDS_HELP = "Several boards of one kind, such as lab-1,lab-2, among which the work is spread; needs Dask."
SCHEDULER = re.compile(r"(?:[a-z]+://)?(?:[\w.-]+|\[[\da-fA-F:.%\w]+\]):\d{1,5}")
SCHEDULER_HELP = "Address of the Dask scheduler whose workers have the boards of --boards, such as tcp://lab:8786."
TIMEOUT_HELP = "Seconds that it may take; default: the setting under ohforge.timeouts."
LINKS_HELP = (
    "follow: what they lead to is copied; keep: they are made anew where they stay within what is copied; refuse."
)
TOOLCHAIN = FlagGroup(
    title="Toolchain",
    type=ToolchainChoice,
    help={
        "arch": "arm32, arm64 or x86_64.",
        "toolchain": "Host toolchain: ohos or zig. Default: the setting, else ohos when an SDK is there, else zig.",
        "sdk": "Folder of an ohos-sdk in any of its usual layouts, or version of an installed one.",
        "cpu": "CPU tuning such as cortex-a55; default generic, which runs on every CPU of the arch.",
        "static": "Link statically: the program then needs no library on the board.",
        "stl": "C++ library of the SDK: c++_static, c++_shared or none.",
    },
)
"""The flags of every task that chooses a toolchain."""


@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """What every run can be told, as it was typed."""

    output: tuple[str, ...] = ()
    links: str = "follow"
    timeout: float = 0.0
    env: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    cpus: str = ""
    nice: int = 0
    sample: float = 0.0
    run_engine: str = ""
    log_level: str = ""
    log_tag: tuple[str, ...] = ()

    def read(self) -> RunOptions:
        """The same, understood. Raises UsageError."""
        from deploy.run.conditions import read_conditions
        from deploy.run.hilog import read_filter
        from deploy.run.options import RunOptions
        from deploy.transfer.links import Links

        return RunOptions(
            timeout=self.timeout,
            environment=read_environment(self.env),
            outputs=self.output,
            links=Links.read(self.links),
            conditions=read_conditions(limits=self.limit, cpus=self.cpus, nice=self.nice, sample_seconds=self.sample),
            run_engine=self.run_engine,
            log=read_filter(self.log_level, self.log_tag) if self.log_level or self.log_tag else None,
        )


RUN = FlagGroup(
    title="Run",
    type=RunFlags,
    help={
        "output": "Pattern of files that the program leaves and that are fetched; may be given again.",
        "links": f"What becomes of links among the files of --output. {LINKS_HELP}",
        "timeout": TIMEOUT_HELP,
        "env": "NAME=VALUE: a variable of the program's environment; may be given again.",
        "limit": "NAME=VALUE: memory, cpu (seconds), files, processes, core, stack, file-size …, such as memory=500M; "
        "may be given again.",
        "cpus": "CPUs of the board to run on: a list such as 0-3,6, or a mask such as 0x4f.",
        "nice": "Niceness, from -20 to 19.",
        "sample": "Sample the board's temperatures, frequencies and memory every so many seconds (needs the agent).",
        "run-engine": "What runs it: agent, shell or auto; default: the setting.",
        "log-level": "Keep the board's log of the run from this level on (D, I, W, E, F), or of just the levels W,E.",
        "log-tag": "Keep lines of the board's log with this tag only; may be given again.",
    },
)


def recipe_flags() -> Iterator[tuple[str, Argument]]:
    """The flags that recipes bring to ``board.run``, each under what it is for."""
    from native.recipe.recipe import read_flags

    owners: dict[str, list[str]] = {}
    known: dict[str, Flag] = {}
    for whose, flags in read_flags().items():
        for flag in flags:
            known[flag.name] = flag
            owners.setdefault(flag.name, []).append(whose)
    for name, flag in known.items():
        kind = {"number": int, "switch": bool, "list": list}.get(flag.kind, str)
        default = [] if kind is list else kind()
        yield f"For {' and '.join(owners[name])}", Argument(names=(name,), kind=kind, default=default, help=flag.help)


def read_boards(text: str, scheduler: str = "") -> tuple[str, ...]:
    """Boards such as ``a,b``, each once. Raises UsageError."""
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if len(set(names)) < len(names):
        raise UsageError(f"--boards {quoted(text)} names a board twice.", remedy="Name each once.")
    if scheduler and not names:
        raise UsageError(
            "--scheduler is for --boards, of which there are none.", remedy="Name the boards of its workers."
        )
    # It stands in records; Dask knows neither users nor passwords.
    if scheduler and not SCHEDULER.fullmatch(scheduler):
        raise UsageError(
            f"--scheduler {quoted(scheduler)} is no address of a Dask scheduler.", remedy="Write tcp://HOST:8786."
        )
    return names


def read_duration(flag: str, text: str) -> float:
    """Seconds of ``90``, ``90s``, ``30m``, ``1h30m`` or ``2d``. Raises UsageError for another form."""
    found = re.fullmatch(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?", text.strip().lower())
    if found is None or not text.strip():
        raise UsageError(f"{flag} {text!r} is no time.", remedy="Write it like 90s, 30m, 2h or 1h30m.")
    return float(sum(int(count or 0) * unit for count, unit in zip(found.groups(), (86400, 3600, 60, 1), strict=True)))


def read_size(flag: str, text: str) -> int:
    """Bytes of ``1000``, ``64K``, ``500M`` or ``2G`` (times 1024). Raises UsageError for another form."""
    size = read_amount(text)
    if size is None:
        raise UsageError(f"{flag} {text!r} is no size.", remedy="Write it like 64K, 500M or 2G.")
    return size


def read_parameters(words: Iterable[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping. Raises UsageError for a word of another form."""
    return dict(_named("--param", word) for word in words)


def read_environment(words: Iterable[str]) -> dict[str, str]:
    """As `read_parameters`, for variables of the environment, whose names must be such as a shell takes."""
    found = dict(_named("--env", word) for word in words)
    for name in found:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"{name!r} cannot be the name of a variable.", remedy="Use letters, digits and _.")
    return found


def _named(flag: str, word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not name or not equals:
        raise UsageError(f"{flag} {word!r} is not of the form NAME=VALUE.")
    return name, value
