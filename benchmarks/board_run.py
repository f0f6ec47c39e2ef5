"""hdc processes, and seconds around the program, of ``board.run`` on the emulated board: first run and second run.

Baseline: the same by hand with plain hdc, which checks nothing: send the program, send the model, chmod, run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity
from core.session import Session
from core.testing import RecordingRunner
from deploy.launch.launch import run_model
from deploy.launch.request import LaunchRequest
from tests.shared.tiny_gguf import write_tiny_gguf


def main() -> None:
    runner = RecordingRunner()
    session = Session(console=Console(json_mode=True, verbosity=Verbosity.QUIET), runner=runner)
    with tempfile.TemporaryDirectory() as name:
        model = Path(name) / f"tiny-{time.time_ns()}.gguf"
        write_tiny_gguf(model, seed=time.time_ns() % 2**32)
        print("board.run of a tiny model on the emulated board (llama built beforehand)")
        print("  hdc by hand, nothing verified (baseline)   4 processes")
        for title in ("first run, model not on the board", "second run, all there"):
            runner.calls.clear()
            started = time.perf_counter()
            run_model(session, LaunchRequest(model=str(model), board="dayu200", given={"tokens": 8}))
            print(
                f"  {title:<42} {runner.count('deploy.emulator.stand_in.cli')} processes, {time.perf_counter() - started:.1f} s in all"
            )


if __name__ == "__main__":
    main()
