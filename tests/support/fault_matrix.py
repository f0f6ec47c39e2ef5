"""What a fault of the board or the link does to an operation, measured on an emulated board, as one cell of a table.

A cell is how the operation ended, ``ok`` or our error with its exit status, and in parentheses what is left: on the
board, for a pull here. An operation that says ``ok`` although its work is not done, or that leaves a wrong file under a
final name, is no cell but an AssertionError.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from core.console import Console, Verbosity
from core.deadline import Deadline
from core.errors import OhforgeError
from core.process import RealRunner
from core.session import Session
from core.settings import Settings, Timeouts
from deploy.board.profiles import load_profile
from deploy.emulator.board.boards import create_board, start_board, stop_board
from deploy.emulator.board.faults import FAULTS, FaultFile
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from deploy.hdc.emulated import stand_in
from deploy.hdc.fit import describe_board
from deploy.hdc.program import Hdc
from deploy.hdc.targets import list_targets
from deploy.launch.shell import run_shell
from deploy.run.execute import execute
from deploy.transfer.clean import clean_board
from deploy.transfer.placement import FileToPlace
from deploy.transfer.pull import pull_files
from deploy.transfer.push import place_files
from tests.support.emulated import ROOT, STAND_IN
from tests.support.run_requests import make_request
from tests.support.tiny_elf import write_arm64
from tests.support.transfers import parts_of

SERIAL = "emulated-dayu200"
TMP = "/data/local/tmp"
HANGING = ("freeze", "freeze-output", "freeze-transfer", "hang-send", "freeze-output later", "hang-send later")
"""Faults that show only when a deadline is over."""
PARAMETERS: dict[str, dict[str, float]] = {
    "cut-transfer": {"at": 100},
    "cut-output": {"at": 80},
    "freeze-output": {"at": 80},
    "freeze-transfer": {"at": 100},
    "full-disk": {"at": 100},
    "corrupt": {"at": 100},
    "slow": {"rate": 1_000_000},
    "restart": {"at": 80},
    "server-down": {"seconds": 0.5},
    "port-taken": {"port": int(os.environ["OHOS_HDC_SERVER_PORT"]), "seconds": 0.5},
}
"""Of faults that are not tried as they are by default."""
LATER: dict[str, tuple[str, dict[str, float]]] = {
    "cut-transfer later": ("cut-transfer", {"at": 100, "skip": 4}),
    "cut-output later": ("cut-output", {"at": 80, "skip": 2}),
    "freeze-output later": ("freeze-output", {"at": 80, "skip": 2}),
    "full-disk later": ("full-disk", {"at": 100, "skip": 4}),
    "no-marker later": ("no-marker", {"skip": 2}),
    "drop-command later": ("drop-command", {"skip": 2}),
    "hang-send later": ("hang-send", {"skip": 4}),
}
"""Faults that come when an operation is under way: in the third or fifth command that reaches the board."""
NEW_SERVER = ("port-taken", "empty-first")
"""Faults that come when a server is started."""
ROWS = ("none", *FAULTS, *LATER)
SMALL = bytes(range(256)) * 12
LARGE = hashlib.sha256(b"large").digest() * 8000
CHUNK = 100_000
"""Of this size `LARGE` must be cut into three."""
FLOOD = int(FAULTS["flood"].parameters["bytes"])
LINES = "".join(f"line {number} of the output\n" for number in range(8))


class Bench:
    """An emulated board with its home, its server and a session of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("tmp", "data", "local"):
            (root / name).mkdir(parents=True)
        self.emulated = create_board(SERIAL, home=root / "data" / "boards")
        start_board(self.emulated)
        self.fault = "none"
        self.tmp = self.emulated.disk / "local" / "tmp"
        self.faults = FaultFile(folder=self.emulated.folder)

    def close(self) -> None:
        self._kill_server()
        stop_board(self.emulated)

    def _kill_server(self) -> None:
        self.hdc.call(self.session(60), ("kill",), deadline=Deadline.after(30, "the end of the server"))

    def session(self, seconds: float) -> Session:
        timeouts = Timeouts(command=seconds, run=seconds, transfer=seconds, lock=60, authorise=0.5)
        known = {field.name for field in dataclasses.fields(Settings)}
        shell = {"run_engine": "shell"} if "run_engine" in known else {}
        settings = Settings(
            data_dir=str(self.root / "data"),
            cache_dir=str(self.root / "cache"),
            runs_dir=str(self.root / "runs"),
            timeouts=timeouts,
            **shell,  # type: ignore[arg-type]
        )
        return Session(settings=settings, console=Console(verbosity=Verbosity.QUIET), runner=RealRunner())

    @functools.cached_property
    def hdc(self) -> Hdc:
        return stand_in(self.session(60), SERIAL)

    @functools.cached_property
    def program(self) -> Path:
        """The stand-in as a program, which is taken for a real hdc; it has the same server."""
        lines = [f"export {name}='{value}'" for name, value in self.hdc.environment.items()]
        program = self.root / "hdc"
        program.write_text("\n".join(["#!/bin/sh", *lines, f"cd {ROOT}", f'exec {" ".join(STAND_IN)} "$@"', ""]))
        program.chmod(0o755)
        return program

    def board(self, session: Session) -> HdcBoard:
        profile = load_profile("dayu200", emulated=True)
        return HdcBoard(session, self.hdc, SERIAL, lambda: profile, pause=lambda seconds: None)

    def measure(self, fault: str, operation: str, seconds: float) -> str:
        """The cell of a fault and an operation whose deadlines are `seconds`."""
        self._empty()
        self.fault = fault
        session = self.session(seconds)
        if fault in NEW_SERVER:
            self._kill_server()
        work, what_is_left = OPERATIONS[operation](self, session, self.board(session))
        if fault != "none":
            name, parameters = LATER.get(fault, (fault, PARAMETERS.get(fault, {})))
            self.faults.set(name, **parameters)
        try:
            work()
            how = "ok"
        except OhforgeError as error:
            how = f"{type(error).__name__} {error.exit_status}"
        finally:
            if fault in HANGING:
                time.sleep(0.5)  # for the board to see that nobody waits for it any more
            self.faults.clear()
            if fault == "freeze-transfer":
                self._kill_server()
        left = [*what_is_left(), *self._orphans()]
        return how + (f" ({', '.join(left)})" if left else "")

    def _empty(self) -> None:
        for folder in (self.tmp, self.root / "local"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.tmp.chmod(0o777)

    def _orphans(self) -> list[str]:
        """Whether what the fault left behind still runs; ends it."""
        if self.fault != "orphan":
            return []
        words = ("-t", SERIAL, "shell", "pkill -KILL -x sleep && echo killed ")
        said = self.hdc.call(self.session(60), words, deadline=Deadline.after(60, "the orphans"))
        return ["orphan"] * ("killed" in said.text)

    def check_output(self, output: bytes, whole: int | None = None) -> None:
        """What a program printed whose own output is `LINES`; `whole` is the size of what was kept in a file."""
        if self.fault == "flood":
            assert len(output) < FLOOD
            assert output.removesuffix(LINES.encode()).strip(b"\0") == b""
            assert whole in (None, FLOOD + len(LINES))
        assert output.endswith(LINES.encode())
        assert self.fault == "flood" or output == LINES.encode()

    def left_of(self, content: bytes, *, placed_as: str) -> list[str]:
        """What is there of a file that was to be pushed. Whatever has a final name must be whole."""
        name = hashlib.sha256(content).hexdigest()
        store, placed = self.tmp / "ohforge" / "store", self.tmp / placed_as
        found = []
        for title, path in (("file", placed), ("in the store", store / name)):
            if path.exists():
                assert path.read_bytes() == content, f"{path} is wrong"
                found.append(title)
        parts = [store / f"{name}.part", *(store / parts_of(content)).glob("*")]
        return found + ["unfinished"] * any(part.exists() and part.stat().st_size for part in parts)


Operation = Callable[[Bench, Session, HdcBoard], tuple[Callable[[], None], Callable[[], list[str]]]]
"""Prepares the board; gives what does the work and checks it, and what looks for what is left of it."""


def _shell(bench: Bench, session: Session, board: HdcBoard) -> tuple[Callable[[], None], Callable[[], list[str]]]:
    write_arm64(bench.tmp / "tool", LINES.encode(), status=3)
    known: list[str] = []

    def work() -> None:
        result = run_shell(session, board, f"{{ echo x >{TMP}/mark; }} 2>/dev/null; {TMP}/tool")
        known.append("its status is known")
        assert result.exit_code == 3
        bench.check_output(result.output)

    return work, lambda: ["it ran"] * (not known and (bench.tmp / "mark").exists())


def _push(content: bytes) -> Operation:
    def prepare(bench: Bench, session: Session, board: HdcBoard) -> tuple[Callable[[], None], Callable[[], list[str]]]:
        local = bench.root / "local" / "file"
        local.write_bytes(content)

        def work() -> None:
            place_files(session, board, [FileToPlace(local=local, name="file")], f"{TMP}/there")
            assert (bench.tmp / "there/file").read_bytes() == content

        return work, lambda: bench.left_of(content, placed_as="there/file")

    return prepare


def _pull(bench: Bench, session: Session, board: HdcBoard) -> tuple[Callable[[], None], Callable[[], list[str]]]:
    (bench.tmp / "file").write_bytes(SMALL)
    local = bench.root / "local" / "file"

    def work() -> None:
        pull_files(session, board, [f"{TMP}/file"], local)
        assert local.read_bytes() == SMALL

    def left() -> list[str]:
        assert not local.exists() or local.read_bytes() == SMALL
        return sorted(path.name for path in local.parent.iterdir())

    return work, left


def _run(bench: Bench, session: Session, board: HdcBoard) -> tuple[Callable[[], None], Callable[[], list[str]]]:
    program = write_arm64(bench.root / "local" / "hello", LINES.encode())
    content = program.read_bytes()
    shutil.rmtree(session.settings.runs, ignore_errors=True)
    request = make_request(program, timeout=session.settings.timeouts.run, pass_status=True)

    def work() -> None:
        outcome = execute(session, board, request)
        assert outcome.exit_code == 0
        bench.check_output(outcome.output, (outcome.record / "output.log").stat().st_size)

    def left() -> list[str]:
        (record,) = session.settings.runs.glob("*/record.json")
        found = [f"record: {json.loads(record.read_text())['state']}"]
        found += bench.left_of(content, placed_as="no copy")
        return found + ["run folder"] * bool(list((bench.tmp / "ohforge/runs").glob("*")))

    return work, left


def _list(bench: Bench, session: Session, board: HdcBoard) -> tuple[Callable[[], None], Callable[[], list[str]]]:
    listed: list[str] = []

    def work() -> None:
        states = {target.key: target.state.lower() for target in list_targets(session, bench.hdc)}
        listed.append(states.pop(SERIAL, "not listed"))
        listed.extend("and another" for _ in states)

    return work, lambda: listed


def _choose(bench: Bench, session: Session, board: HdcBoard) -> tuple[Callable[[], None], Callable[[], list[str]]]:
    """Nobody names a board, and the stand-in is taken for a real hdc: the connected board, or none, is to be used."""
    settings = dataclasses.replace(session.settings, hdc=str(bench.program))
    chosen: list[str] = []

    def work() -> None:
        found = choose_board(dataclasses.replace(session, settings=settings))
        assert found.serial == SERIAL
        chosen.append("an emulated one" if found.emulated else "the connected one")

    return work, lambda: chosen


def _info(bench: Bench, session: Session, board: HdcBoard) -> tuple[Callable[[], None], Callable[[], list[str]]]:
    def work() -> None:
        facts = describe_board(session, board)
        assert (facts["machine"], facts["cores"]) == ("aarch64", 4)

    return work, list


def _clean(bench: Bench, session: Session, board: HdcBoard) -> tuple[Callable[[], None], Callable[[], list[str]]]:
    stored = bench.tmp / "ohforge" / "store" / ("0" * 64)
    stored.parent.mkdir(parents=True)
    stored.write_bytes(SMALL)

    def work() -> None:
        assert clean_board(session, board).entries == 1
        assert not stored.exists()

    return work, lambda: ["still there"] * stored.exists()


OPERATIONS: dict[str, Operation] = {
    "shell": _shell,
    "push": _push(SMALL),
    "push of a large file": _push(LARGE),
    "pull": _pull,
    "run": _run,
    "list": _list,
    "choose": _choose,
    "info": _info,
    "clean": _clean,
}
