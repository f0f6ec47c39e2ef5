"""The deploy layer on the emulated board, against plain hdc calls and against hdc-py, over the same stand-in for hdc.

    python benchmarks/deploy.py [--gigabytes 1.0] [--repeat 3] [--commands 20] [--links 35 110] [--by native] [--json FILE]
    python benchmarks/deploy.py --hdc PATH --board IP:PORT --gigabytes 0.3

With ``--hdc``: the first push to a board behind a real hdc alone, with the agent on it, against one bare ``hdc file send``.

Baselines, in the same run and in turns: for commands the bare ``hdc shell`` and ``hdc_py.HarmonyDevice.cmd`` (PyPI:
hdc-py, in the extra ``test``); for a push one bare ``hdc file send``, which verifies nothing. Pushes go over loopback, as fast
as this computer copies, which no board's link does, and again over ``--links`` of so many MB/s: about 35 are what USB
2.0 carries, 110 what Gigabit Ethernet does. The stand-in is slower to start than the real hdc, so ratios count, not
seconds.

What a verified push costs depends on who hashes on the board, so there are three:
  tools   no agent: toybox's sha256sum, a program of this computer, in plain C (about 100 MB/s)
  agent   the agent for arm32 in qemu-user, in which the CPU's SHA instructions are slower than plain C is outside
  native  the agent for x86_64, disguised as one of the board's own commands, with this CPU's instructions: the speed
          of a board that has them (a Cortex-A55 does). Its figures are those of the way a push goes, not of a board.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity
from core.deadline import Deadline
from core.session import Session
from core.settings import Settings
from core.testing import RecordingRunner
from deploy.agent.agent import AgentHandle, NoAgent, agent_path, agents_to_ask_for, build_agent, find_agent
from deploy.board.profiles import load_profile
from deploy.board.survey import Question, survey_board
from deploy.emulator.board.boards import create_board, start_board, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.emulator.sandbox.tools import MARK, MARK_AT
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board
from deploy.hdc.emulated import DEFAULT_SERIAL, stand_in
from deploy.launch.shell import run_shell
from deploy.transfer import chunks
from deploy.transfer.push import TransferSummary, place_program, push_files

TMP = "/data/local/tmp"
USB_RATE = 35e6
PUSH = (
    "import sys; sys.path.insert(0, {root!r}); from benchmarks.deploy import *; "
    "Setup(Path({folder!r}), {hasher!r}).push(Path({file!r}))"
)
HASHERS = {"tools": "", "agent": "arm32", "native": "x86_64"}


class Target:
    """A board, and a session that counts the processes it starts."""

    def __init__(self, run_engine: str) -> None:
        self.runner = RecordingRunner()
        console = Console(json_mode=True, verbosity=Verbosity.QUIET)
        self.session = Session(settings=Settings(run_engine=run_engine), console=console, runner=self.runner)
        self.board = self.find_board()

    def find_board(self) -> HdcBoard:
        raise NotImplementedError

    def find_agent(self) -> AgentHandle | NoAgent:
        """The agent for the board's own CPU, which is built and put there when it is not."""
        question = Question(agents=agents_to_ask_for(self.session, self.board))
        survey = survey_board(self.session, self.board, question)
        return find_agent(self.session, self.board, survey, place=place_program)

    def push(self, file: Path) -> TransferSummary:
        return push_files(self.session, self.board, [file], f"{TMP}/bench/")

    def bare(self, *words: str) -> None:
        """One call of hdc as anybody would make it."""
        hdc = self.board.hdc
        environment = {**os.environ, **hdc.environment}
        done = subprocess.run(
            [*hdc.argv, "-t", self.board.serial, *words], env=environment, capture_output=True, check=True, cwd="/"
        )
        assert b"[Fail]" not in done.stdout, done

    def empty(self) -> None:
        deadline = Deadline.after(120, "the board to be emptied")
        self.board.shell(f"rm -rf {TMP}/ohforge/store {TMP}/bench; sync", deadline=deadline)


class RealBoard(Target):
    """A board at an address, behind the hdc that is named, through a server of ohforge's own."""

    def __init__(self, hdc: str, address: str) -> None:
        os.environ["OHFORGE_HDC"] = hdc
        self.address = address
        super().__init__("agent")

    def find_board(self) -> HdcBoard:
        board = choose_board(self.session, self.address)
        assert isinstance(board, HdcBoard)
        return board


class Setup(Target):
    """A home with one emulated board, below `folder`."""

    def __init__(self, folder: Path, hasher: str = "tools") -> None:
        os.environ["OHFORGE_DATA_DIR"] = str(folder / "data")
        os.environ["OHFORGE_CACHE_DIR"] = str(folder / "cache")
        os.environ["OHFORGE_EMULATOR_HOME"] = str(folder / "boards")
        self.folder = folder
        super().__init__("shell" if hasher == "tools" else "agent")
        self.emulated = create_board(DEFAULT_SERIAL)
        self.faults = FaultFile(folder=self.emulated.folder)

    def find_board(self) -> HdcBoard:
        hdc = stand_in(self.session)
        return HdcBoard(self.session, hdc, DEFAULT_SERIAL, lambda: load_profile("dayu200", emulated=True))

    def put_agent(self, hasher: str) -> str:
        """Puts the agent there that is to hash, and says what it hashes with."""
        self.bare("shell", f"rm -rf {TMP}/ohforge/agent ")
        if hasher == "agent":
            self.find_agent()
        elif hasher == "native":
            program, sha256 = build_agent(self.session, HASHERS[hasher])
            content = bytearray(program.read_bytes())
            content[MARK_AT] = MARK
            disguised = self.folder / "disguised"
            disguised.write_bytes(content)
            there = agent_path(self.board, HASHERS[hasher], sha256)
            self.bare("shell", f"mkdir -p {TMP}/ohforge/agent ")
            self.bare("file", "send", str(disguised), there)
            self.bare("shell", f"chmod 755 {there} ")
        agents = agents_to_ask_for(self.session, self.board) if HASHERS[hasher] else []
        answers = survey_board(self.session, self.board, Question(agents=agents)).agents
        return ", ".join(answers.values())


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="deploy-", dir=options.folder) as name:
        result = _on_real_board(Path(name), options) if options.hdc else _on_emulated_board(Path(name), options)
    for key, value in result.items():
        print(f"{key:<44} {value}")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


def _on_real_board(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    file, size = folder / "large.bin", int(options.gigabytes * 1e9)
    _write_random(file, size)
    target = RealBoard(options.hdc, options.board)
    agent = target.find_agent()
    assert isinstance(agent, AgentHandle), agent.reason
    found, summary = _time_pushes(target, options.repeat, file, size, "push_")
    return {"push_bytes": size, **found, "push_hash_tool": summary.hash_tool}


def _on_emulated_board(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    setup = Setup(folder)
    start_board(setup.emulated)
    try:
        return {
            **_commands(setup, options.commands),
            **_all_pushes(folder, options),
            **_small(setup, options.repeat),
        }
    finally:
        stop_board(setup.emulated)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hdc", default="", help="Path of a real hdc; default: the stand-in.")
    parser.add_argument("--board", default="", help="IP:PORT of a board for that hdc.")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="Size of the file that is pushed, in GB.")
    parser.add_argument("--repeat", type=int, default=3, help="How often each push is timed; medians are compared.")
    parser.add_argument("--commands", type=int, default=20, help="How many commands are timed.")
    parser.add_argument(
        "--links", type=float, nargs="*", default=[USB_RATE / 1e6], help="Push over links of so many MB/s as well."
    )
    parser.add_argument("--by", nargs="*", choices=HASHERS, default=list(HASHERS), help="Who hashes on the board.")
    parser.add_argument("--folder", help="Where the work is done; needs about four times the file's size.")
    parser.add_argument("--json", help="File for the numbers.")
    options = parser.parse_args()
    if bool(options.hdc) != bool(options.board):
        parser.error("--hdc and --board belong together")
    return options


# commands ------------------------------------------------------------------------------------------


def _commands(setup: Setup, count: int) -> dict[str, Any]:
    """Processes and median time of one command, by the bare hdc, by ohforge and by hdc-py, in turns."""
    with _program(setup) as (program, calls), _silence():
        import hdc_py

        device = hdc_py.Hdc(program).connect(DEFAULT_SERIAL)
        ways: dict[str, Callable[[], object]] = {
            "bare": lambda: setup.bare("shell", "echo hello; exit 3 "),
            "ohforge": lambda: run_shell(setup.session, setup.board, "echo hello; exit 3"),
            "hdc_py": lambda: device.cmd("echo hello; exit 3", check=False, capture_output=True, text=True),
        }
        for way in ways.values():
            way()
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(count):
            for name, way in ways.items():
                seconds[name].append(_timed(way)[0])
        setup.runner.calls.clear()
        ways["ohforge"]()
        calls.write_text("")
        ways["hdc_py"]()
        processes = {"ohforge": len(setup.runner.calls), "hdc_py": len(calls.read_text().splitlines())}
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "command_processes_ohforge": processes["ohforge"],
        "command_processes_hdc_py": processes["hdc_py"],
        **{f"command_seconds_{name}": round(value, 4) for name, value in medians.items()},
        "command_time_ohforge_over_bare_hdc": round(medians["ohforge"] / medians["bare"], 3),
        "command_time_ohforge_over_hdc_py": round(medians["ohforge"] / medians["hdc_py"], 3),
    }


@contextlib.contextmanager
def _program(setup: Setup) -> Iterator[tuple[Path, Path]]:
    """The stand-in as a program, for clients that start one, and the file to which it writes a line for each call."""
    program, calls = setup.folder / "bin" / "hdc", setup.folder / "calls"
    program.parent.mkdir()
    words = " ".join(setup.board.hdc.argv)
    variables = " ".join(f"{name}='{value}'" for name, value in setup.board.hdc.environment.items())
    program.write_text(f'#!/bin/sh\necho call >>{calls}\nexec env {variables} {words} "$@"\n')
    program.chmod(0o755)
    yield program, calls


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """hdc-py tells of every command on standard error."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    value = action()
    return time.perf_counter() - started, value


# large files ---------------------------------------------------------------------------------------


def _all_pushes(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    file = folder / "large.bin"
    size = int(options.gigabytes * 1e9)
    _write_random(file, size)
    result: dict[str, Any] = {"push_bytes": size}
    for hasher in options.by:
        setup = Setup(folder, hasher)
        said = setup.put_agent(hasher)
        found = _pushes(setup, options, file, size, hasher)
        result |= {f"{hasher}_{key}": value for key, value in {**found, "agent": said}.items()}
    return result


def _pushes(setup: Setup, options: argparse.Namespace, file: Path, size: int, hasher: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for megabytes in (0.0, *options.links):
        link = f"{megabytes:g}_mb_s_" if megabytes else ""
        if megabytes:
            setup.faults.set("slow", rate=megabytes * 1e6)
        found, summary = _time_pushes(setup, options.repeat, file, size, f"push_{link}")
        result |= found
    setup.faults.clear()
    result["push_hash_tool"] = summary.hash_tool
    seconds, again = _timed(lambda: setup.push(file))
    result |= {"second_push_bytes_sent": again.bytes_sent, "second_push_seconds": round(seconds, 2)}
    return {**result, **_resume(setup, file, size, hasher)}


def _time_pushes(
    target: Target, repeat: int, file: Path, size: int, name: str
) -> tuple[dict[str, Any], TransferSummary]:
    """First pushes and bare sends in turns."""
    bare, ours = [], []
    for _ in range(repeat):
        target.empty()
        bare.append(_timed(lambda: target.bare("file", "send", str(file), f"{TMP}/bench.bin"))[0])
        target.bare("shell", f"rm {TMP}/bench.bin; sync ")
        target.runner.calls.clear()
        seconds, summary = _timed(lambda: target.push(file))
        ours.append(seconds)
        processes = len(target.runner.calls)
        assert summary.bytes_sent == size
    found = {
        f"{name}seconds_bare_send": [round(value, 2) for value in bare],
        f"{name}seconds_ohforge": [round(value, 2) for value in ours],
        f"{name}time_ohforge_over_bare_send": round(statistics.median(ours) / statistics.median(bare), 3),
        f"{name}processes": processes,
    }
    return found, summary


def _resume(setup: Setup, file: Path, size: int, hasher: str) -> dict[str, Any]:
    """A push whose process is killed when 90 % are on the board, and the one after it."""
    setup.empty()
    code = PUSH.format(root=str(ROOT), folder=str(setup.folder), file=str(file), hasher=hasher)
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        while _joined(setup) < size * 0.9:
            assert process.poll() is None, "the push ended before it could be killed"
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    # What had been sent by then is not known here; all that is not joined counts as sent again.
    before = _joined(setup)
    seconds, summary = _timed(lambda: setup.push(file))
    assert summary.bytes_sent <= size - before + chunks.LARGEST_CHUNK
    return {
        "killed_at": round(before / size, 3),
        "resume_bytes_sent": summary.bytes_sent,
        "resume_bytes_lacking_when_killed": size - before,
        "resume_bytes_sent_again_at_most": max(0, summary.bytes_sent - int(size * 0.1)),
        "largest_chunk": chunks.LARGEST_CHUNK,
        "resume_seconds": round(seconds, 2),
    }


def _joined(setup: Setup) -> int:
    with contextlib.suppress(FileNotFoundError):
        return sum(path.stat().st_size for path in setup.emulated.disk.rglob("*.parts/joined"))
    return 0


def _write_random(file: Path, size: int) -> None:
    with file.open("wb") as target:
        for offset in range(0, size, 1 << 20):
            target.write(os.urandom(min(1 << 20, size - offset)))


# where chunks begin to pay -------------------------------------------------------------------------


def _small(setup: Setup, repeat: int) -> dict[str, Any]:
    """Time of a push in chunks over one in a single piece, by size in MiB: what `chunks.CHUNKED_FROM` was chosen by.

    Over a link of `USB_RATE`, since it is the wait for a link in which chunks are verified.
    """
    ratios = {}
    from_here = chunks.CHUNKED_FROM
    setup.faults.set("slow", rate=USB_RATE)
    file = setup.folder / "small.bin"
    for mebibytes in (8, 16, 32, 64, 128):
        _write_random(file, mebibytes << 20)
        seconds: dict[int, list[float]] = {0: [], 1 << 40: []}
        for _ in range(repeat):
            for threshold, values in seconds.items():
                setup.empty()
                chunks.CHUNKED_FROM = threshold
                values.append(_timed(lambda: setup.push(file))[0])
        chunked, whole = (statistics.median(values) for values in seconds.values())
        ratios[f"{mebibytes}"] = round(chunked / whole, 2)
    chunks.CHUNKED_FROM = from_here
    setup.faults.clear()
    return {"chunked_over_whole_by_mebibytes": ratios}


if __name__ == "__main__":
    main()
