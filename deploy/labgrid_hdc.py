"""Boards behind hdc for labgrid: name this module under ``imports:`` of a labgrid configuration.

The resources `HDCDevice` and `NetworkHDCDevice` are boards, of this computer and of an exporter's; `HDCDriver` runs
commands on one and moves files. What ohforge does for its own boards is done here too: exit statuses are true ones, files are
compared by hash, and a command that is cut ends on the board. Of ohforge it needs `deploy` and `core` only.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import attr
from labgrid.driver import Driver
from labgrid.driver.commandmixin import CommandMixin
from labgrid.driver.exception import ExecutionError
from labgrid.factory import target_factory
from labgrid.protocol import CommandProtocol, FileTransferProtocol
from labgrid.resource import Resource
from labgrid.resource.common import NetworkResource
from labgrid.step import step

from core.console import Console, Verbosity
from core.deadline import Deadline
from core.errors import Interrupted, OhforgeError
from core.session import Session
from core.settings import Settings
from deploy.board.protocol import Board
from deploy.hdc.choose import choose_board
from deploy.lab.choose import entry_for
from deploy.lab.place import HdcDevice
from deploy.lease.lease import hold_board
from deploy.transfer.pull import pull_files
from deploy.transfer.push import push_files

NAME = "labgrid"
"""Under which the board stands in the settings of the driver's session."""
IS_TEXT = attr.validators.instance_of(str)
COMMAND_SECONDS = 30


@target_factory.reg_resource
@attr.s(eq=False)
class HDCDevice(Resource):
    """A board that hdc on this computer knows.

    Args:
        serial (str): connect key as ``hdc list targets`` shows it
        hdc_server (str): address or port of another hdc server than the usual one
        profile (str): kind of board, the name of one of ohforge's profiles
    """

    serial: str = attr.ib(validator=IS_TEXT)
    hdc_server: str = attr.ib(default="", converter=str)
    profile: str = attr.ib(default="", validator=IS_TEXT)


@target_factory.reg_resource
@attr.s(eq=False)
class NetworkHDCDevice(NetworkResource):
    """A board that hdc on an exporter's computer knows.

    Args:
        host (str): the exporter's computer, as SSH names it
        serial, hdc_server, profile: see `HDCDevice`
        hdc (str): path of hdc there; default: the one on PATH
    """

    serial: str = attr.ib(validator=IS_TEXT)
    hdc_server: str = attr.ib(default="", converter=str)
    profile: str = attr.ib(default="", validator=IS_TEXT)
    hdc: str = attr.ib(default="", validator=IS_TEXT)


@target_factory.reg_driver
@attr.s(eq=False)
class HDCDriver(CommandMixin, Driver, CommandProtocol, FileTransferProtocol):
    """Commands and files of a board behind hdc.

    Args:
        hdc (str): path of the hdc program; default: OHFORGE_HDC, then an installed SDK's, then PATH
    """

    bindings = {"device": {"HDCDevice", "NetworkHDCDevice"}}  # noqa: RUF012
    hdc: str = attr.ib(default="", validator=IS_TEXT)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._session = Session()
        self._board: Board | None = None
        self._held = contextlib.ExitStack()

    def on_activate(self) -> None:
        """Connects the board, which ohforge's users of this computer wait for meanwhile. Raises ExecutionError when it cannot be used."""
        told = HdcDevice(
            host=getattr(self.device, "host", "localhost"),
            serial=self.device.serial,
            hdc_server=self.device.hdc_server,
            profile=self.device.profile,
            hdc=getattr(self.device, "hdc", ""),
        )
        try:
            settings = Settings(boards={NAME: entry_for(told)}, hdc=self.hdc)
            self._session = Session(settings=settings, console=Console(verbosity=Verbosity.QUIET))
            self._board = choose_board(self._session, NAME)
            self._held.enter_context(hold_board(self._session, self._board, "labgrid"))
        except OhforgeError as error:
            raise _failed(error) from error

    def on_deactivate(self) -> None:
        """Lets the board go."""
        self._board = None
        self._held.close()

    @Driver.check_active
    @step(args=["cmd"], result=True)
    def run(
        self, cmd: str, *, timeout: float = COMMAND_SECONDS, codec: str = "utf-8", decodeerrors: str = "strict"
    ) -> tuple[list[str], list[str], int]:
        """Runs a command line of the board's shell: its output by lines, nothing (hdc joins both outputs), its exit status.

        Raises ExecutionError when it did not end in `timeout` seconds, or the board was lost.
        """
        return self._run(cmd, timeout=timeout, codec=codec, decodeerrors=decodeerrors)

    def _run(
        self, cmd: str, *, timeout: float = COMMAND_SECONDS, codec: str = "utf-8", decodeerrors: str = "strict"
    ) -> tuple[list[str], list[str], int]:
        # labgrid's own helpers pass None for "no end"; nothing here waits for ever.
        seconds = self._session.settings.timeouts.run if timeout is None else timeout
        try:
            ended = self._ready.shell(cmd, deadline=Deadline.after(seconds, f"the command {cmd!r}"))
        except OhforgeError as error:
            raise _failed(error) from error
        return ended.output.decode(codec, decodeerrors).splitlines(), [], ended.exit_code

    @Driver.check_active
    def get_status(self) -> int:
        """1: commands can be run."""
        return 1

    @Driver.check_active
    @step(args=["filename", "remotepath"])
    def put(self, filename: str, remotepath: str) -> None:
        """Copies a file or folder to the board, into a folder when `remotepath` ends in a slash. Raises ExecutionError."""
        try:
            push_files(self._session, self._ready, [Path(filename)], remotepath)
        except OhforgeError as error:
            raise _failed(error) from error

    @Driver.check_active
    @step(args=["filename", "destination"])
    def get(self, filename: str, destination: str = ".") -> None:
        """Copies a file or folder from the board, into a folder when `destination` is one. Raises ExecutionError."""
        try:
            pull_files(self._session, self._ready, [filename], Path(destination))
        except OhforgeError as error:
            raise _failed(error) from error

    @property
    def _ready(self) -> Board:
        assert self._board is not None
        return self._board


def _failed(error: OhforgeError) -> ExecutionError | KeyboardInterrupt:
    if isinstance(error, Interrupted):
        return KeyboardInterrupt(error.message)
    return ExecutionError(f"{error.code}: {error.message} {error.remedy}")
