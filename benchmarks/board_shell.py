"""``ohforge board.shell true`` against one bare call of the same hdc, in turns, in the same run.

    python benchmarks/board_shell.py [--hdc PATH --board IP:PORT] [--repeat 20]

Without ``--hdc``: the stand-in and an emulated board, in a folder of its own. With it: a real hdc, to which the board at
that address is connected through a server of ohforge's own; the baseline takes that server too. The bare call prints one
line, as every wrapped command does: hdc ends some 40 ms later when a board has printed something. On a busy computer the
times that the CPU was used are the ones to compare.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.session import Session
from deploy.emulator.board.boards import list_emulated, stop_board
from deploy.hdc.choose import find_hdc
from deploy.hdc.emulated import DEFAULT_PROFILE, DEFAULT_SERIAL, stand_in
from deploy.hdc.program import Hdc
from deploy.hdc.servers import connected_hdc

GOAL_SECONDS = 0.2
PAUSE_SECONDS = 0.5
"""Between calls: TCP acknowledges late what follows within 0.2 s, so that calls without a pause are another 30 ms slower."""


def main() -> None:
    options = _options()
    # Python keeps what it has compiled, as it does for users.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="board-shell-", ignore_cleanup_errors=True) as name:
        os.environ.update(OHFORGE_DATA_DIR=f"{name}/data", OHFORGE_CACHE_DIR=f"{name}/cache")
        os.environ.update(OHFORGE_LEASE_DIR=f"{name}/leases", OHFORGE_EMULATOR_HOME=f"{name}/boards")
        if options.hdc:
            os.environ["OHFORGE_HDC"] = options.hdc
        session, board = Session(), options.board or DEFAULT_PROFILE
        ours = [sys.executable, "-c", "from commands.main import main; main()", "board.shell", "true"]
        ours += ["--board", board]
        measure(ours, {})
        hdc = known_hdc(session, options.board)
        try:
            bare = [*hdc.argv, "-t", options.board or DEFAULT_SERIAL, "shell", "echo done "]
            measure(bare, hdc.environment)
            pairs = [(measure(bare, hdc.environment), measure(ours, {})) for _ in range(options.repeat)]
        finally:
            subprocess.run([*hdc.argv, "kill"], env={**os.environ, **hdc.environment}, check=True, cwd=ROOT)
            for emulated in list_emulated(Path(name, "boards")):
                stop_board(emulated)
    (baseline, of_hdc), (measured, of_ours) = (
        [statistics.median(values) for values in zip(*column, strict=True)] for column in zip(*pairs, strict=True)
    )
    print(f"board.shell true on {board}, median of {options.repeat} calls in turns; hdc is {hdc.title}")
    print(f"  bare hdc shell (baseline)  {baseline * 1000:6.0f} ms, of the CPU {of_hdc * 1000:4.0f} ms")
    print(
        f"  ohforge board.shell        {measured * 1000:6.0f} ms, of the CPU {of_ours * 1000:4.0f} ms"
        f"  (goal with a real hdc: {GOAL_SECONDS * 1000:.0f})"
    )
    print(f"  ratio                      {measured / baseline:6.2f}")


def known_hdc(session: Session, board: str) -> Hdc:
    """The hdc through which ohforge has just reached the board, with its server."""
    if not board:
        return stand_in(session, DEFAULT_SERIAL)
    found = find_hdc(session)
    connected = connected_hdc(session, found, board) if found is not None else None
    if connected is None:
        sys.exit(f"{board} has no server of its own, so it is no address at which a board answers")
    return connected


def measure(argv: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds until it has ended, and seconds of the CPU that it and its children took."""
    time.sleep(PAUSE_SECONDS)
    before, started = cpu_seconds(), time.perf_counter()
    subprocess.run(argv, env={**os.environ, **environment}, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started, cpu_seconds() - before


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hdc", default="", help="path of a real hdc; default: the stand-in")
    parser.add_argument("--board", default="", help="IP:PORT of a board for that hdc")
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    if bool(options.hdc) != bool(options.board):
        parser.error("--hdc and --board belong together")
    return options


if __name__ == "__main__":
    main()
