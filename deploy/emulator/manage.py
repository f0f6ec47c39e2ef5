"""Managing emulated boards: the program ``ohforge-emulator``, and ``python -m deploy.emulator.manage``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from core.configuration import load_settings
from core.console import Console, closed_when_full
from core.errors import Interrupted, OhforgeError, UnknownName, UsageError, explain_exception, nearest
from core.files import read_amount, remove_all
from deploy.board.profiles import list_profiles, load_profile
from deploy.emulator.board.boards import (
    DATA,
    DEFAULT,
    HOME,
    LIMITS,
    NETWORKS,
    PREFIX,
    EmulatedBoard,
    board_folder,
    boards_home,
    create_board,
    is_running,
    list_emulated,
    read_board,
    start_board,
    stop_board,
)
from deploy.emulator.board.faults import COUNT, FAULTS, SKIP, FaultFile
from deploy.emulator.protocol.releases import find_release
from deploy.emulator.stand_in.program import write_stand_in

PROGRAM = "ohforge-emulator"
SHELLS = ("bash", "fish", "zsh")
Answer = tuple[dict[str, Any], Iterable[str]]
"""What a command tells: the fields of its JSON object, and its lines for people."""


class _Size(click.ParamType[int]):
    """Bytes, as ``64K``, ``500M`` or ``2G`` (times 1024)."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        size = value if isinstance(value, int) else read_amount(value)
        return (
            size if size is not None else self.fail(f"{value!r} is no size; write it like 64K, 500M or 2G.", param, ctx)
        )


SIZE = _Size()


class _Command(click.Command):
    """A command that returns an Answer, of which it shows one half."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        help = "Print one JSON object on standard output and nothing else."
        self.params.append(click.Option(["--json", "json_mode"], is_flag=True, help=help))

    def invoke(self, ctx: click.Context) -> None:
        console = Console(json_mode=ctx.params.pop("json_mode"))
        _use_configured_home()
        fields, lines = super().invoke(ctx)
        console.result({"ok": True, **fields})
        if not console.json_mode:
            for line in lines:
                click.echo(line)


class _Group(click.Group):
    command_class = _Command
    group_class = type


def _complete_serial(ctx: click.Context, parameter: click.Parameter, start: str) -> list[CompletionItem]:
    _use_configured_home()
    known = {board.serial for board in list_emulated()} | {f"{PREFIX}{profile}" for profile in list_profiles()}
    return [CompletionItem(serial) for serial in sorted(known) if serial.startswith(start)]


def _complete_fault(ctx: click.Context, parameter: click.Parameter, start: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=fault.text) for name, fault in FAULTS.items() if name.startswith(start)]


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ohforge", message="%(prog)s %(version)s")
def manage() -> None:
    """Emulated boards, their faults, and the stand-in for hdc that reaches them."""


@manage.command("list")
def list_boards() -> Answer:
    """Shows all boards, whether they run, and the faults that are on."""
    boards = [_describe(board) for board in list_emulated()]
    lines = [
        "\t".join(
            (
                *(board["serial"], board["key"], board["profile"], "running" if board["running"] else "stopped"),
                ", ".join(board["faults"]) or "no faults",
            )
        )
        for board in boards
    ]
    return {"home": str(boards_home()), "boards": boards}, lines


@manage.command()
@click.argument("serial", default=DEFAULT, shell_complete=_complete_serial)
@click.option("--profile", default="", help=f"Kind of board: {', '.join(list_profiles())}.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Reach it over TCP at this port (hdc tconn 127.0.0.1:PORT)."
)
@click.option(
    "--memory-disk", type=click.IntRange(min=0), help="A disk of so many bytes in memory, lost when it stops."
)
@click.option("--memory-kib", type=click.IntRange(min=0), help="Memory for programs; beyond it the largest is killed.")
@click.option("--memory-limit", type=SIZE, help="Memory by a control group, pages of files included, such as 120M.")
@click.option("--storage-rate", type=SIZE, help="What the disk reads, and writes, in a second, such as 30M.")
@click.option("--cpu-quota", type=click.FloatRange(min=0), help="Processors that programs may use, such as 0.5.")
@click.option(
    "--throttle", type=click.FloatRange(min=0), help="Played: its clock goes down a step after so many seconds of work."
)
@click.option("--fixed-governor/--free-governor", default=None, help="Played: nobody may choose a governor.")
@click.option("--swap/--no-swap", default=None, help="Played: what programs need beyond the memory goes to swap.")
@click.option("--release", help="OpenHarmony release that the board's hdc plays, such as 5.0 or 7.0.")
@click.option("--secure/--open", default=None, help="Over TCP, ask for this computer's key, as boards for sale do.")
@click.option("--locked/--debug", default=None, help="An image as it is sold: no root, no `target mount`.")
@click.option(
    "--network",
    type=click.Choice(NETWORKS),
    help="What its programs reach: the board only, or what this computer reaches.",
)
@click.option("--hide", multiple=True, help="A command that the board shall lack, such as sha256sum.")
@click.option("--hollow", multiple=True, help="A command whose link exists, but which toybox does not have.")
@click.option(
    "--library", multiple=True, metavar="ARCH=FOLDER", help="Show the files of FOLDER in the board's library folder."
)
def create(
    serial: str,
    profile: str,
    port: int | None,
    memory_disk: int | None,
    memory_kib: int | None,
    memory_limit: int | None,
    storage_rate: int | None,
    cpu_quota: float | None,
    throttle: float | None,
    fixed_governor: bool | None,
    swap: bool | None,
    release: str | None,
    secure: bool | None,
    locked: bool | None,
    network: str | None,
    hide: tuple[str, ...],
    hollow: tuple[str, ...],
    library: tuple[str, ...],
) -> Answer:
    """Makes a board, or changes the settings of one; a running one takes them when it is started anew."""
    folder = board_folder(serial)
    libraries = dict(_pair(entry) for entry in library)
    if profile or not (folder / "board.json").exists():
        load_profile(profile or serial.removeprefix(PREFIX))
    if release is not None:
        find_release(release)
    if storage_rate and memory_disk:
        raise UsageError("--storage-rate limits a disk in a folder; --memory-disk has none.")
    given: dict[str, Any] = {
        "profile": profile or None,
        "port": port,
        "memory_disk": memory_disk,
        "memory_kib": memory_kib,
        "memory_limit": memory_limit,
        "storage_rate": storage_rate,
        "cpu_quota": cpu_quota,
        "throttle": throttle,
        "fixed_governor": fixed_governor,
        "swap": swap,
        "version": release,
        "secure": secure,
        "locked": locked,
        "network": network,
        "hidden_tools": list(hide) or None,
        "hollow_tools": list(hollow) or None,
        "libraries": libraries or None,
    }
    board = create_board(serial, **{key: value for key, value in given.items() if value is not None})
    return {"board": _describe(board)}, [f"{board.serial} in {board.folder}"]


@manage.command()
@click.argument("serial", default=DEFAULT, shell_complete=_complete_serial)
def start(serial: str) -> Answer:
    """Starts a board; it would also start with the first command."""
    board = _board(serial)
    sandbox = start_board(board)
    return {"board": _describe(board), "sandbox": sandbox}, [f"{serial} runs ({sandbox})"]


@manage.command()
@click.argument("serials", nargs=-1, shell_complete=_complete_serial)
def stop(serials: tuple[str, ...]) -> Answer:
    """Stops boards, all of them without names, and with them every program on them."""
    boards = [_board(serial) for serial in serials] or list_emulated()
    stopped = {board.serial: stop_board(board) for board in boards}
    return (
        {"stopped": [serial for serial, ran in stopped.items() if ran]},
        [f"{serial} {'stopped' if ran else 'did not run'}" for serial, ran in stopped.items()],
    )


@manage.command()
@click.argument("serial", shell_complete=_complete_serial)
def remove(serial: str) -> Answer:
    """Stops a board and deletes its folder."""
    board = _board(serial)
    stop_board(board)
    remove_all(board.folder)
    return {"removed": str(board.folder)}, [f"{board.folder} removed"]


@manage.command("hdc")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def write_hdc(folder: Path) -> Answer:
    """Writes a program called hdc into FOLDER: the stand-in, for everything that looks for hdc on PATH."""
    program = write_stand_in(folder.absolute())
    return {"program": str(program)}, [str(program)]


@manage.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> Answer:
    """Prints the script that completes this program's words in a shell; `eval` it, or keep it in a file."""
    script = _completion_script(shell)
    return {"shell": shell, "script": script}, [script]


@manage.group(cls=_Group)
def fault() -> None:
    """Switches faults on and off by name."""


@fault.command("known")
def known_faults() -> Answer:
    """Shows all faults with their parameters."""
    lines = []
    for entry in FAULTS.values():
        parameters = " ".join(f"{key}={value:g}" for key, value in entry.parameters.items())
        lines.append(f"{entry.name:<16} {entry.text}{f' [{parameters}]' if parameters else ''}")
    lines.append(f"Each takes {COUNT}=N: switch off by itself after N times; and {SKIP}=N: come after N more commands.")
    return {"faults": [vars(entry) for entry in FAULTS.values()]}, lines


@fault.command("set")
@click.argument("serial", shell_complete=_complete_serial)
@click.argument("name", shell_complete=_complete_fault)
@click.argument("parameters", nargs=-1, metavar="[NAME=NUMBER]...")
def set_fault(serial: str, name: str, parameters: tuple[str, ...]) -> Answer:
    """Switches a fault of a board on."""
    values = {}
    for entry in parameters:
        key, text = _pair(entry)
        try:
            values[key] = float(text)
        except ValueError as error:
            raise UsageError(f"{entry!r}: {text!r} is no number.") from error
    board = _board(serial)
    FaultFile(folder=board.folder).set(name, **values)
    return {"board": _describe(board)}, []


@fault.command("clear")
@click.argument("serial", shell_complete=_complete_serial)
@click.argument("names", nargs=-1, shell_complete=_complete_fault)
def clear_fault(serial: str, names: tuple[str, ...]) -> Answer:
    """Switches faults of a board off, all of them without names."""
    board = _board(serial)
    FaultFile(folder=board.folder).clear(*names)
    return {"board": _describe(board)}, []


def _describe(board: EmulatedBoard) -> dict[str, Any]:
    return {
        "serial": board.serial,
        "key": board.key,
        "profile": board.profile,
        "folder": str(board.folder),
        "limits": {name: getattr(board, name) for name in LIMITS if getattr(board, name)},
        "played": board.played,
        "running": is_running(board),
        "faults": FaultFile(folder=board.folder).active(),
    }


def _board(serial: str) -> EmulatedBoard:
    folder = board_folder(serial)
    if not (folder / "board.json").exists():
        if serial.removeprefix(PREFIX) in list_profiles():
            return create_board(serial)
        raise UnknownName(
            f"There is no emulated board {serial!r}; {nearest(serial, [board.serial for board in list_emulated()])}."
        )
    return read_board(folder)


def _pair(entry: str) -> tuple[str, str]:
    key, equals, value = entry.partition("=")
    if not key or not equals:
        raise UsageError(f"{entry!r} must have the form NAME=VALUE.")
    return key, value


def _completion_script(shell: str) -> str:
    complete = get_completion_class(shell)
    assert complete is not None
    return complete(manage, {}, PROGRAM, f"_{PROGRAM.upper().replace('-', '_')}_COMPLETE").source()


def main() -> int:
    """Runs the command line; every failure has its exit status, and with ``--json`` its one object."""
    words = sys.argv[1:]
    console = Console(json_mode="--json" in words)
    try:
        status = int(manage.main(words, prog_name=PROGRAM, standalone_mode=False) or 0)
        sys.stdout.flush()
        return status
    except click.Abort:
        return _tell(console, Interrupted("Interrupted."))
    except click.ClickException as error:
        if not console.json_mode:
            error.show()
            return UsageError.category.value
        return _tell(console, UsageError(error.format_message()))
    except OhforgeError as error:
        return _tell(console, error)
    except Exception as error:
        return _tell(console, explain_exception(error))


def _use_configured_home() -> None:
    """Boards lie where ``ohforge board.run`` has them, also for the processes that are started from here."""
    if not os.environ.get(HOME) and not os.environ.get(DATA):
        os.environ[HOME] = str(load_settings().data / "boards")


def _tell(console: Console, error: OhforgeError) -> int:
    with closed_when_full(sys.stderr):
        console.error(f"{error.message} {error.remedy}")
    with closed_when_full(sys.stdout):
        console.result({"ok": False, "error": error.as_json()})
    return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
