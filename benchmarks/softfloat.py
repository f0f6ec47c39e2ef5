"""arm32 with ohforge's flags against the flags of the SDK's own toolchain file, which leave out floating point.

    python benchmarks/softfloat.py [--sdk FOLDER] [--model tiny] [--model smollm2] [--tokens 8] [--runs 3] [--kernel-only]

Baseline: ``--cpu soft-float``, the same compiler and the same program with what `ohos.toolchain.cmake` gives arm32
(``-march=armv7a``, soft float ABI). Ours: ``--cpu generic`` (softfp, NEON, VFPv4). Both static, on the same emulated
board, taking turns. qemu computes every floating point instruction in software, so the ratio of a real board is
another one: there, such an instruction takes a cycle or two, and a call of a helper function some tens. Goal: at least
5 in tokens per second. Without --sdk the newest installed SDK is taken, else the tests' stand-in.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity
from core.deadline import Deadline
from core.process import RealRunner
from core.session import Session
from core.settings import Settings
from deploy.launch.launch import run_model, run_program
from deploy.launch.request import LaunchRequest
from deploy.run.options import RunOptions
from toolchains.arch import ARM32
from toolchains.host_toolchain import ToolchainChoice
from toolchains.sdk import find_sdk
from toolchains.toolchain import choose_toolchain

BASELINE, OURS = "soft-float", "generic"
BOARD = "dayu200"
KERNEL = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { LENGTH = 4096 };
static float a[LENGTH], b[LENGTH];
int main(int count, char **words) {
  int repeat = count > 1 ? atoi(words[1]) : 200;
  for (int i = 0; i < LENGTH; i++) a[i] = 1.0f / (float)(i + 1), b[i] = (float)i * 0.5f;
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  float lanes[8] = {0};
  for (int r = 0; r < repeat; r++)
    for (int i = 0; i < LENGTH; i += 8)
      for (int lane = 0; lane < 8; lane++) lanes[lane] += a[i + lane] * b[i + lane];
  clock_gettime(CLOCK_MONOTONIC, &end);
  double sum = 0;
  for (int lane = 0; lane < 8; lane++) sum += lanes[lane];
  double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
  printf("sum %.6g\nmflops %.3f\n", sum, 2e-6 * LENGTH * repeat / seconds);
  return 0;
}
"""


def main() -> None:
    options = _options()
    session = Session(
        settings=Settings(),
        console=Console(json_mode=True, verbosity=Verbosity.QUIET),
        runner=RealRunner(),
    )
    sdk = options.sdk or _any_sdk(session)
    print(f"arm32 on the emulated {BOARD}, {sdk}: ours ({OURS}) against the SDK's own flags ({BASELINE}, baseline)")
    with tempfile.TemporaryDirectory() as folder:
        programs = {cpu: _compile_kernel(session, sdk, cpu, Path(folder)) for cpu in (BASELINE, OURS)}
        _report("float kernel, MFLOPS", options.runs, lambda cpu: _run_kernel(session, programs[cpu], options.repeat))
        for name in [] if options.kernel_only else options.model or ["tiny"]:
            model = _model(name, Path(folder))
            unit = f"{name}, {options.tokens} tokens, tokens/s"
            _report(unit, options.runs, lambda cpu, model=model: _run_llama(session, sdk, cpu, model, options.tokens))


def _report(title: str, runs: int, measure) -> None:  # type: ignore[no-untyped-def]
    values: dict[str, list[float]] = {BASELINE: [], OURS: []}
    for _ in range(runs):
        for cpu, measured in values.items():
            measured.append(measure(cpu))
    base, ours = (statistics.median(values[cpu]) for cpu in (BASELINE, OURS))
    print(f"  {title:<40} baseline {base:9.3f}   ours {ours:9.3f}   ratio {ours / base:6.2f}", flush=True)


def _any_sdk(session: Session) -> str:
    found = find_sdk(session, announce=False)
    if found is not None:
        return str(found.root)
    from tests.shared.standin_sdk import standin_sdk

    return str(standin_sdk(session.settings.cache))


def _compile_kernel(session: Session, sdk: str, cpu: str, folder: Path) -> Path:
    toolchain = choose_toolchain(
        session, ToolchainChoice(arch=ARM32.name, toolchain="ohos", sdk=sdk, cpu=cpu, static=True)
    )
    source, program = folder / "kernel.c", folder / f"kernel-{cpu}"
    source.write_text(KERNEL)
    # -ffast-math would let the vectoriser reorder sums; the eight lanes give it what it needs without.
    result = session.runner.run(
        [toolchain.cc, "-O3", source, "-o", program], deadline=Deadline.after(120, "the kernel's compiler")
    )
    assert result.ok, result.last_lines()
    return program


def _run_kernel(session: Session, program: Path, repeat: int) -> float:
    outcome = run_program(session, LaunchRequest(program=str(program), arguments=(str(repeat),), board=BOARD))
    text = outcome.output.decode()
    found = re.search(r"mflops ([\d.]+)", text)
    assert outcome.exit_code == 0 and found, text
    return float(found[1])


def _run_llama(session: Session, sdk: str, cpu: str, model: str, tokens: int) -> float:
    request = LaunchRequest(model=model, board=BOARD, choice=ToolchainChoice(arch="arm32", cpu=cpu, toolchain="ohos", sdk=sdk, static=True), given={"prompt": "the cat", "tokens": tokens, "threads": 1}, options=RunOptions(timeout=3600))  # fmt: skip
    return float(run_model(session, request).metrics["generation_tokens_per_second"]["value"])


def _model(name: str, folder: Path) -> str:
    if name != "tiny":
        return name
    from tests.shared.tiny_gguf import write_tiny_gguf

    return str(write_tiny_gguf(folder / "tiny.gguf", "F32"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sdk", default="", help="folder of an SDK")
    parser.add_argument("--model", action="append", help="model by name or path; tiny: a made one in F32")
    parser.add_argument("--tokens", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=200, help="rounds of the float kernel")
    parser.add_argument("--kernel-only", action="store_true", help="without llama.cpp, which takes minutes to build")
    return parser.parse_args()


if __name__ == "__main__":
    main()
