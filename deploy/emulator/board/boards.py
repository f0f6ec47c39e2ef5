"""Emulated boards on disk: one folder each, which holds the board's disk, its settings and its keeper's socket."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.errors import DeadlineExpired, HostToolMissing, HostUnsupported, UsageError
from deploy.emulator import CODE

HOME = "OHFORGE_EMULATOR_HOME"
DATA = "OHFORGE_DATA_DIR"
SANDBOX = "OHFORGE_EMULATOR_SANDBOX"
"""Variable: the kind of sandbox, one of SANDBOXES."""
SANDBOXES = {"namespaces": ("namespaces",), "proot": ("proot",), "any": ("namespaces", "proot")}
"""What is tried, in this order. proot keeps no program from this machine's files, so it is never taken unasked."""
NETWORKS = ("none", "host")
LIMITS = ("memory_limit", "storage_rate", "cpu_quota")
"""Settings of a board that control groups of this machine's kernel keep."""
PLAYED = ("throttle", "fixed_governor", "swap")
"""Settings of a board that nothing real on this machine stands behind."""
PREFIX = "emulated-"
SERIAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}")
DEFAULT = "emulated-dayu200"
SECOND = "emulated-another-{name}"
SECOND_HOME = "second"
"""Folder, in a board's own, of the board that a fault connects beside it."""
START_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class EmulatedBoard:
    """One emulated board. Its folder's name is its serial."""

    folder: Path
    profile: str
    key: str
    """Connect key: the serial, or ``127.0.0.1:PORT`` of a board that is reached over TCP."""
    version: str = ""
    """OpenHarmony release whose daemon it has, such as ``5.0``; empty: the newest known."""
    port: int = 0
    """TCP port of its daemon; 0: none, the board appears as a USB one."""
    memory_disk: int = 0
    """Size in bytes of a disk in memory in place of the folder; 0: the folder is the disk."""
    memory_kib: int = 0
    """Memory that programs may use, in KiB; 0: what the profile says."""
    memory_limit: int = 0
    """Bytes that the kernel lets programs have, pages of files included; 0: no limit. As the next two, by control groups."""
    storage_rate: int = 0
    """Bytes that the disk reads, and writes, in a second; 0: no limit."""
    cpu_quota: float = 0.0
    """Processors that programs may use, such as 0.5; 0: all."""
    throttle: float = 0.0
    """Seconds of work after which its clock goes down one step; 0: never. This and the next two are played."""
    fixed_governor: bool = False
    """Its kernel lets nobody choose a governor or a lowest clock."""
    swap: bool = False
    """What programs need beyond the memory goes to swap, until that is full too."""
    libraries: dict[str, str] = field(default_factory=dict)
    hidden_tools: tuple[str, ...] = ()
    """Commands that the board lacks."""
    hollow_tools: tuple[str, ...] = ()
    """Commands whose link exists on the board although toybox was built without them."""
    secure: bool = False
    locked: bool = False
    """Its image is no debug image: its daemon does not run as root, and the system stays as it is."""
    network: str = "none"
    """``none``: programs reach each other only, and the host through forwarded ports; ``host``: as programs here do."""
    idle_seconds: float = 600.0

    @property
    def serial(self) -> str:
        return self.folder.name

    @property
    def played(self) -> dict[str, Any]:
        """The settings that are only played, and are on."""
        return {name: getattr(self, name) for name in PLAYED if getattr(self, name)}

    @property
    def disk(self) -> Path:
        """The folder that programs on the board see as /data."""
        return self.folder / "data"

    @property
    def run(self) -> Path:
        return self.folder / "run"


def boards_home() -> Path:
    """The folder of all emulated boards."""
    if chosen := os.environ.get(HOME):
        return Path(chosen).absolute()
    if chosen := os.environ.get(DATA):
        return Path(chosen).absolute() / "boards"
    import platformdirs

    return Path(platformdirs.user_data_path("ohforge")) / "boards"


def board_folder(serial: str, home: Path | None = None) -> Path:
    """Where the emulated board of that serial lies below `home`. Raises UsageError for a serial that leads elsewhere."""
    if not SERIAL.fullmatch(serial):
        raise UsageError(
            f"{serial!r} cannot be the name of a board: at most 32 of the letters A to Z and a to z, digits, and . _ - "
            "between them."
        )
    return (home or boards_home()) / serial


def create_board(serial: str = DEFAULT, *, home: Path | None = None, **settings: Any) -> EmulatedBoard:
    """Makes the board's folder when it is not there; `settings` are fields of `EmulatedBoard` (profile, port, …).

    Raises UsageError as `board_folder` does.
    """
    folder = board_folder(serial, home)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        # Others may not enter: a program on the board can make files that run as this user (setuid).
        folder.chmod(0o700)
        (folder / "data").chmod(0o771)
    (folder / "run" / "root").mkdir(parents=True, exist_ok=True)
    path = folder / "board.json"
    if not path.exists() or settings:
        known = json.loads(path.read_text()) if path.exists() else {}
        profile = settings.get("profile") or known.get("profile") or serial.removeprefix(PREFIX)
        temporary = path.with_name(f".board.{os.getpid()}")
        temporary.write_text(json.dumps({**known, **settings, "profile": profile}, indent=2) + "\n")
        temporary.replace(path)
    return read_board(folder)


def read_board(folder: Path) -> EmulatedBoard:
    """The board whose folder this is."""
    value = json.loads((folder / "board.json").read_text())
    port = int(value.get("port", 0))
    for name in ("hidden_tools", "hollow_tools"):
        value[name] = tuple(value.get(name, ()))
    return EmulatedBoard(folder=folder, key=f"127.0.0.1:{port}" if port else folder.name, **value)


def list_emulated(home: Path | None = None) -> list[EmulatedBoard]:
    """All boards below `home`, by name."""
    place = home or boards_home()
    return [read_board(path.parent) for path in sorted(place.glob("*/board.json"))]


def second_board(board: EmulatedBoard) -> EmulatedBoard:
    """The board that is connected beside `board` while the fault ``second-board`` is on."""
    serial = SECOND.format(name=board.serial.removeprefix(PREFIX))
    home = board.folder / SECOND_HOME
    return create_board(serial, home=home, **({} if (home / serial).exists() else {"profile": board.profile}))


def is_running(board: EmulatedBoard) -> bool:
    """Whether the board's keeper runs."""
    try:
        with (board.run / "keeper.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def generation(board: EmulatedBoard) -> str:
    """Changes whenever the board's daemon is started anew; empty before the first time."""
    try:
        return (board.run / "generation").read_text().strip()
    except FileNotFoundError:
        return ""


def connect(board: EmulatedBoard) -> socket.socket:
    """A connection to the board's daemon, which is started when it does not run.

    Raises HostToolMissing or HostUnsupported when it cannot be started on this machine.
    """
    try:
        return _connect(board)
    except (FileNotFoundError, ConnectionRefusedError):
        start_board(board)
        return _connect(board)


def start_board(board: EmulatedBoard) -> str:
    """Starts the board's keeper when it does not run, and waits until it is up; returns the kind of sandbox.

    Raises HostToolMissing or HostUnsupported when that is not possible on this machine.
    """
    until = time.monotonic() + START_SECONDS
    with (board.run / "start.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        while not (kind := _sandbox_of(board)):
            if not is_running(board):
                _start_keeper(board)
            elif time.monotonic() > until:
                raise DeadlineExpired(f"The keeper of {board.serial} is not up after {START_SECONDS:g} s.")
            else:
                time.sleep(0.02)  # Whoever started it was killed meanwhile.
    return kind


def _sandbox_of(board: EmulatedBoard) -> str:
    """The kind of sandbox of a board that is up; empty while it is not."""
    try:
        kind = (board.run / "sandbox").read_text().strip()
    except FileNotFoundError:
        return ""
    return kind if is_running(board) else ""


def stop_board(board: EmulatedBoard, seconds: float = 30.0) -> bool:
    """Ends the board's keeper and every program on it; False when it did not run. Raises DeadlineExpired."""
    import signal

    for second in list_emulated(board.folder / SECOND_HOME):
        stop_board(second, seconds)
    until = time.monotonic() + seconds
    if not is_running(board):
        return False
    told = 0
    while is_running(board) or _exists(told):
        if (keeper := _keeper_of(board)) not in (0, told):
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGTERM)
            told = keeper
        if time.monotonic() > until:
            raise DeadlineExpired(f"The keeper of {board.serial} did not end within {seconds:g} s.")
        time.sleep(0.02)
    return True


def _keeper_of(board: EmulatedBoard) -> int:
    """The keeper's process; 0 while it has not written that down yet, or not any more."""
    try:
        return int((board.run / "keeper.pid").read_text() or 0)
    except FileNotFoundError:
        return 0


def _exists(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _connect(board: EmulatedBoard) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(board.run / "hdcd.sock") as path:
            link.connect(path)
    except OSError:
        link.close()
        raise
    return link


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A name of `path` that fits into a socket address, which holds 107 bytes."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def _start_keeper(board: EmulatedBoard) -> None:
    wanted = os.environ.get(SANDBOX) or "namespaces"
    if wanted not in SANDBOXES:
        raise UsageError(f"{SANDBOX}={wanted}: there is no such sandbox; it is one of {', '.join(SANDBOXES)}.")
    refused: list[dict[str, Any]] = []
    for kind in SANDBOXES[wanted]:
        report = _launch(board, kind)
        if report.get("ok"):
            return
        if report["class"] == "HostToolMissing" and (kind != "proot" or not refused):
            raise HostToolMissing(report["message"], remedy=report["remedy"])
        refused.append(report)
    remedy = refused[0]["remedy"]
    if wanted == "namespaces":
        remedy = f"{remedy} {_OR_PROOT}"
    raise HostUnsupported(" ".join(report["message"] for report in refused), remedy=remedy.strip())


_OR_PROOT = (
    f"Or install proot (sudo apt install proot) and set {SANDBOX}=any: programs on the board can then read and write"
    " what you can, so run only those that you trust."
)


def _launch(board: EmulatedBoard, kind: str) -> dict[str, Any]:
    """Starts a keeper in a session of its own, so that it outlives this process; returns what it reports."""
    import select
    import subprocess

    reader, writer = os.pipe()
    with (board.run / "keeper.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "deploy.emulator.board.keeper", str(board.folder), kind, str(writer)],
            cwd=CODE,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(writer,),
        )
    os.close(writer)
    try:
        answer = b""
        until = time.monotonic() + START_SECONDS
        while select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
            chunk = os.read(reader, 65536)
            if not chunk:
                break
            answer += chunk
    finally:
        os.close(reader)
    process.wait()
    if answer:
        return dict(json.loads(answer))
    stop_board(board)
    log_text = (board.run / "keeper.log").read_text(errors="replace").strip().splitlines()[-1:]
    return {
        "class": "HostUnsupported",
        "message": f"The emulated board's keeper ended early ({kind}): {' '.join(log_text) or 'it said nothing'}.",
        "remedy": f"Read {board.run / 'keeper.log'}.",
    }
