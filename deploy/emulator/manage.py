"""Managing emulated boards: ``python -m deploy.emulator.manage start|stop|list|create|remove|fault``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from core.errors import OhforgeError, UnknownName, UsageError, nearest
from deploy.board.profiles import list_profiles, load_profile
from deploy.emulator.board.boards import (
    DEFAULT,
    EmulatedBoard,
    boards_home,
    create_board,
    is_running,
    list_emulated,
    read_board,
    start_board,
    stop_board,
)
from deploy.emulator.board.faults import COUNT, FAULTS, FaultFile
from deploy.emulator.protocol.versions import words_of
from deploy.emulator.stand_in.program import write_stand_in


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def manage() -> None:
    """Emulated boards: the folders below OHFORGE_EMULATOR_HOME."""


@manage.command("list")
def list_boards() -> None:
    """Shows all boards, whether they run, and the faults that are on."""
    for board in list_emulated():
        state = "running" if is_running(board) else "stopped"
        faults = ", ".join(FaultFile(folder=board.folder).active()) or "no faults"
        click.echo(f"{board.serial}\t{board.key}\t{board.profile}\t{state}\t{faults}")


@manage.command()
@click.argument("serial", default=DEFAULT)
@click.option("--profile", default="", help=f"Kind of board: {', '.join(list_profiles())}.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Reach it over TCP at this port (hdc tconn 127.0.0.1:PORT)."
)
@click.option(
    "--memory-disk", type=click.IntRange(min=0), help="A disk of so many bytes in memory, lost when it stops."
)
@click.option("--memory-kib", type=click.IntRange(min=0), help="Memory for programs; beyond it the largest is killed.")
@click.option("--release", help="OpenHarmony release that the board's hdc plays, such as 5.0 or 7.0.")
@click.option("--secure/--open", default=None, help="Over TCP, ask for this computer's key, as boards for sale do.")
@click.option("--locked/--debug", default=None, help="An image as it is sold: no root, no `target mount`.")
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
    release: str | None,
    secure: bool | None,
    locked: bool | None,
    hide: tuple[str, ...],
    hollow: tuple[str, ...],
    library: tuple[str, ...],
) -> None:
    """Makes a board, or changes the settings of one; a running one takes them when it is started anew."""
    libraries = dict(_pair(entry) for entry in library)
    if profile or not (boards_home() / serial / "board.json").exists():
        load_profile(profile or serial.removeprefix("emulated-"))
    if release is not None:
        words_of(release)
    given: dict[str, Any] = {
        "profile": profile or None,
        "port": port,
        "memory_disk": memory_disk,
        "memory_kib": memory_kib,
        "version": release,
        "secure": secure,
        "locked": locked,
        "hidden_tools": list(hide) or None,
        "hollow_tools": list(hollow) or None,
        "libraries": libraries or None,
    }
    board = create_board(serial, **{key: value for key, value in given.items() if value is not None})
    click.echo(f"{board.serial} in {board.folder}")


@manage.command()
@click.argument("serial", default=DEFAULT)
def start(serial: str) -> None:
    """Starts a board; it would also start with the first command."""
    click.echo(f"{serial} runs ({start_board(_board(serial))})")


@manage.command()
@click.argument("serials", nargs=-1)
def stop(serials: tuple[str, ...]) -> None:
    """Stops boards, all of them without names, and with them every program on them."""
    for board in [_board(serial) for serial in serials] or list_emulated():
        click.echo(f"{board.serial} {'stopped' if stop_board(board) else 'did not run'}")


@manage.command()
@click.argument("serial")
def remove(serial: str) -> None:
    """Stops a board and deletes its folder."""
    board = _board(serial)
    stop_board(board)
    shutil.rmtree(board.folder)
    click.echo(f"{board.folder} removed")


@manage.command("hdc")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def write_hdc(folder: Path) -> None:
    """Writes a program called hdc into FOLDER: the stand-in, for everything that looks for hdc on PATH."""
    click.echo(str(write_stand_in(folder)))


@manage.group()
def fault() -> None:
    """Switches faults on and off by name."""


@fault.command("known")
def known_faults() -> None:
    """Shows all faults with their parameters."""
    for entry in FAULTS.values():
        parameters = " ".join(f"{key}={value:g}" for key, value in entry.parameters.items())
        click.echo(f"{entry.name:<16} {entry.text}{f' [{parameters}]' if parameters else ''}")
    click.echo(f"Each takes {COUNT}=N: switch off by itself after N times.")


@fault.command("set")
@click.argument("serial")
@click.argument("name")
@click.argument("parameters", nargs=-1, metavar="[NAME=NUMBER]...")
def set_fault(serial: str, name: str, parameters: tuple[str, ...]) -> None:
    """Switches a fault of a board on."""
    values = {}
    for entry in parameters:
        key, text = _pair(entry)
        try:
            values[key] = float(text)
        except ValueError as error:
            raise UsageError(f"{entry!r}: {text!r} is no number.") from error
    FaultFile(folder=_board(serial).folder).set(name, **values)


@fault.command("clear")
@click.argument("serial")
@click.argument("names", nargs=-1)
def clear_fault(serial: str, names: tuple[str, ...]) -> None:
    """Switches faults of a board off, all of them without names."""
    FaultFile(folder=_board(serial).folder).clear(*names)


def _board(serial: str) -> EmulatedBoard:
    folder = boards_home() / serial
    if not (folder / "board.json").exists():
        if serial.removeprefix("emulated-") in list_profiles():
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


def main() -> int:
    """Runs the command line; an error of ours ends with its own exit status and no traceback."""
    try:
        manage.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 64
    except click.Abort:
        return 79
    except OhforgeError as error:
        click.echo(f"{error.message} {error.remedy}", err=True)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
