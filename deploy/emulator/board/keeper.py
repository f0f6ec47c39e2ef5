"""The process that is an emulated board while it is up: ``python -m deploy.emulator.board.keeper FOLDER SANDBOX FD``.

It holds the board's lock, moves into the sandbox, and runs the board's init there, which runs hdcd. It ends by
itself when nobody has used the board for a while, and with it every program on the board.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from core.errors import OhforgeError
from deploy.board.profiles import load_emulation
from deploy.emulator.board.boards import EmulatedBoard, read_board, short_path
from deploy.emulator.board.daemon import IDLE_EXIT, Daemon
from deploy.emulator.board.limits import Limits, make_limits
from deploy.emulator.board.running import RunningBoard
from deploy.emulator.board.session import REBOOT_EXIT
from deploy.emulator.protocol.releases import find_release
from deploy.emulator.sandbox import namespaces, proot, syscalls
from deploy.emulator.sandbox.binfmt import read_registered
from deploy.emulator.sandbox.plan import Plan
from deploy.emulator.sandbox.rootfs import describe_root
from deploy.emulator.sandbox.tools import find_tools
from deploy.emulator.sandbox.views import View

GOVERNED = tuple(f"sys/devices/system/cpu/cpufreq/policy0/{name}" for name in ("scaling_governor", "scaling_min_freq"))


def main(arguments: list[str]) -> int:
    """Runs the keeper; the last argument is the descriptor to which it reports that it is up, or why not."""
    if os.fork() != 0:
        return 0  # Whoever started the keeper need not wait for it: it is nobody's child from here on.
    board, kind, report_to = read_board(Path(arguments[0])), arguments[1], int(arguments[2])
    os.set_inheritable(report_to, False)
    lock = (board.run / "keeper.lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _report(report_to, {"ok": True})
        return 0
    (board.run / "sandbox").unlink(missing_ok=True)
    (board.run / "keeper.pid").write_text(f"{os.getpid()}\n")
    try:
        return _keep(board, kind, report_to)
    except OhforgeError as error:
        _report(report_to, {"class": type(error).__name__, "message": error.message, "remedy": error.remedy})
        return 1
    finally:
        for name in ("keeper.pid", "sandbox"):
            (board.run / name).unlink(missing_ok=True)
        lock.close()


def _report(descriptor: int, value: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(value).encode())
        os.close(descriptor)


def _be_ready(daemon: Daemon, limits: Limits | None, before: int, report_to: int) -> None:
    if limits is not None:
        limits.hold_memory(daemon.board.view, daemon.board.to_host("/data"), before)
    (daemon.board.folder / "run/sandbox").write_text(f"{daemon.board.view.kind}\n")
    if report_to >= 0:
        _report(report_to, {"ok": True})


def _keep(board: EmulatedBoard, kind: str, report_to: int) -> int:
    profile, shown = load_emulation(board.profile)
    parameters = {"const.hdc.version": f"Ver: {find_release(board.version).version}"}
    parameters |= {"const.hdc.secure": "1"} if board.secure else {}
    parameters |= {"const.debuggable": "0"} if board.locked else {}
    # So that every record of a run has it.
    played = f"emulated, played: {', '.join(board.played)}"
    parameters |= {"const.build.ver.physical": played} if board.played else {}
    shown = dataclasses.replace(shown, parameters={**shown.parameters, **parameters})
    if memory_kib := board.memory_kib or board.memory_limit // 1024:
        memory = {"total": memory_kib, "available": memory_kib, "swap": shown.memory_kib["swap"] if board.swap else 0}
        shown = dataclasses.replace(shown, memory_kib=memory)
    tools = find_tools(profile.arches)
    plan = Plan(
        mount_point=board.run / "root",
        disk=board.disk,
        disk_bytes=board.memory_disk or None,
        files=describe_root(profile, shown, tools, board.hidden_tools, board.hollow_tools, board.swap),
        tools=tools,
        libraries={arch: Path(folder) for arch, folder in board.libraries.items()},
        arches=profile.arches,
        host_name=shown.host_name,
        network=board.network == "host",
        read_only=GOVERNED if board.fixed_governor else (),
        registered=read_registered(),
    )
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if board.secure:
        # Inside the sandbox nothing of this machine's Python can be loaded any more.
        import deploy.emulator.protocol.auth  # noqa: F401
    listening, limits = _listen(board), make_limits(board)

    def make_daemon(view: View, folder: Path) -> Daemon:
        return Daemon(board=RunningBoard(settings=board, shown=shown, folder=folder, view=view), listening=listening)

    try:
        if kind == "proot":
            return _keep_with_proot(make_daemon(proot.build_sandbox(plan), board.folder), limits, report_to)
        return _keep_in_namespaces(plan, board.folder, make_daemon, limits, report_to)
    finally:
        if limits is not None:
            limits.remove()


def _keep_in_namespaces(
    plan: Plan, folder: Path, make_daemon: Callable[[View, Path], Daemon], limits: Limits | None, report_to: int
) -> int:
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    namespaces.leave_host(network=plan.network)
    init = os.fork()
    if init == 0:
        _run_init(plan, inside, make_daemon, limits, report_to)
    os.close(report_to)
    try:
        os.waitpid(init, 0)
    except SystemExit:
        os.kill(init, signal.SIGKILL)
        os.waitpid(init, 0)
    return 0


def _keep_with_proot(daemon: Daemon, limits: Limits | None, report_to: int) -> int:
    """Without a process namespace the keeper itself is init."""
    syscalls.take_orphans()
    if limits is not None:
        limits.join()
    os.umask(0o022)
    report = report_to
    try:
        while (ended := _run_hdcd(daemon, limits, report)) != IDLE_EXIT:
            report = -1
            if ended == REBOOT_EXIT:
                proot.end_descendants()
    finally:
        proot.end_descendants()
    return 0


def _end(number: int, frame: object) -> None:
    raise SystemExit(0)


def _listen(board: EmulatedBoard) -> list[socket.socket]:
    local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    (board.run / "hdcd.sock").unlink(missing_ok=True)
    with short_path(board.run / "hdcd.sock") as path:
        local.bind(path)
    (board.run / "hdcd.sock").chmod(0o600)
    sockets = [local]
    if board.port:
        remote = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        remote.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        remote.bind(("127.0.0.1", board.port))
        sockets.append(remote)
    for each in sockets:
        each.listen(64)
    return sockets


def _run_init(
    plan: Plan, folder: int, make_daemon: Callable[[View, Path], Daemon], limits: Limits | None, report_to: int
) -> None:
    """Process 1 of the sandbox: runs hdcd, again when it ends, and takes in the orphans. Does not return."""
    status = 1
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        view = namespaces.build_sandbox(plan, folder)
        if limits is not None:
            limits.join()
        daemon = make_daemon(view, Path())
        syscalls.set_process_name("init")
        os.umask(0o022)
        report = report_to
        status = 0
        while (ended := _run_hdcd(daemon, limits, report, shown=view.shown)) != IDLE_EXIT:
            report = -1
            if ended == REBOOT_EXIT:
                view.restart()
            view.show_daemon()
    except OhforgeError as error:
        _report(report_to, {"class": type(error).__name__, "message": error.message, "remedy": error.remedy})
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _run_hdcd(daemon: Daemon, limits: Limits | None, report_to: int, *, shown: int = 0) -> int:
    """Runs hdcd until it ends; it ends with `shown`, the process that programs on the board take for it."""
    before = limits.memory_in_use() if limits is not None else 0
    child = os.fork()
    if child == 0:
        status = 1
        try:
            syscalls.set_process_name("hdcd")
            status = daemon.serve(lambda: _be_ready(daemon, limits, before, report_to))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    if report_to >= 0:
        os.close(report_to)
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)
        if ended == shown:
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
