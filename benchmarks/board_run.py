"""hdc processes, and seconds around the program, of ``board.run`` on the emulated board: first run and second run.

Baseline: the same by hand with plain hdc, which checks nothing: send the program, send the model, chmod, run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity  # noqa: E402
from core.deadline import Deadline  # noqa: E402
from core.process import OnOutput, RealRunner, Result  # noqa: E402
from core.session import Session  # noqa: E402
from deploy.launch import LaunchRequest, run_model  # noqa: E402
from tests.support.tiny_gguf import write_tiny_gguf  # noqa: E402


class CountingRunner(RealRunner):
    """Counts the calls of hdc (here: of its stand-in)."""

    def __init__(self) -> None:
        super().__init__()
        self.hdc_calls = 0

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        deadline: Deadline,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
        stdin: bytes | None = None,
    ) -> Result:
        self.hdc_calls += "deploy.emulator.cli" in argv
        return super().run(
            argv, deadline=deadline, cwd=cwd, env=env, on_stdout=on_stdout, on_stderr=on_stderr, stdin=stdin
        )


def main() -> None:
    runner = CountingRunner()
    session = Session(console=Console(json_mode=True, verbosity=Verbosity.QUIET), runner=runner)
    with tempfile.TemporaryDirectory() as name:
        model = Path(name) / f"tiny-{time.time_ns()}.gguf"
        write_tiny_gguf(model, seed=time.time_ns() % 2**32)
        print("board.run of a tiny model on the emulated board (llama built beforehand)")
        print("  hdc by hand, nothing verified (baseline)   4 processes")
        for title in ("first run, model not on the board", "second run, all there"):
            runner.hdc_calls = 0
            started = time.perf_counter()
            run_model(session, LaunchRequest(model=str(model), board="dayu200", tokens=8))
            print(f"  {title:<42} {runner.hdc_calls} processes, {time.perf_counter() - started:.1f} s in all")


if __name__ == "__main__":
    main()
