"""Compiles what we ship for every CPU tuning, arch and host toolchain, and writes docs/tuning-matrix.md.

    python scripts/tuning_matrix.py [--cache FOLDER] [--jobs 2] [--minutes 60] [--good FILE]

Some seconds for each combination of tests/shared/tuning_matrix.py, most of them of the compiler; ohos is the tests'
stand-in SDK. The table says what was run, nothing else.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity  # noqa: E402
from core.errors import OhforgeError  # noqa: E402
from core.session import Session  # noqa: E402
from core.settings import Settings  # noqa: E402
from tests.shared.tuning_matrix import PROGRAMS, Cell, build_cell, cells, clang_of  # noqa: E402
from toolchains.zig import find_zig  # noqa: E402

PAGE = ROOT / "docs" / "tuning-matrix.md"


def main() -> int:
    options = _options()
    session = Session(
        settings=Settings(cache_dir=str(options.cache), jobs=options.jobs),
        console=Console(json_mode=True, verbosity=Verbosity.QUIET),
    )
    done = options.good.read_text().splitlines() if options.good.is_file() else []
    good = {name: ran for name, _, ran in (line.partition(": ") for line in done)}
    results = {cell: good[str(cell)] for cell in cells() if str(cell) in good}
    failed: dict[Cell, str] = {}
    options.good.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + options.minutes * 60
    with options.good.open("a") as file:
        for cell in cells():
            if cell in results or time.monotonic() > until:
                continue
            started = os.times()
            with tempfile.TemporaryDirectory(prefix="tuning-matrix-") as folder:
                try:
                    results[cell] = build_cell(session, cell, Path(folder), options.cache)
                    print(f"{cell}: {results[cell]}", file=file, flush=True)
                except (OhforgeError, AssertionError) as error:
                    failed[cell] = str(error)
            seconds = sum(os.times()[2:4]) - sum(started[2:4])
            print(f"{cell}: {failed.get(cell) or 'ok'} ({seconds:.0f} CPU seconds)", flush=True)
    PAGE.write_text(page(results, failed, clang_of(options.cache)))
    print(f"{len(results)} of {len(cells())} good, {len(failed)} failed; {PAGE}")
    return 0 if len(results) == len(cells()) else 1


def page(results: dict[Cell, str], failed: dict[Cell, str], clang: str) -> str:
    """The table, as Markdown."""
    zig, left = find_zig(), len(cells()) - len(results) - len(failed)
    lines = [
        "# CPU tunings, host toolchains and programs",
        "",
        f"Made by `scripts/tuning_matrix.py` on {datetime.now(UTC):%Y-%m-%d}, on {platform.system()} {platform.machine()}:",
        f"{len(results)} of the {len(cells())} combinations that there are were good, {len(failed)} failed, {left} were not run.",
        f"zig is ziglang {zig.version} (clang {zig.clang}), static; ohos is the tests' stand-in SDK ({clang}, docs/standin-sdk.md),",
        "not a published one, and has no x86_64.",
        "",
        "Of llama.cpp and whisper.cpp those sources were compiled that write a CPU's instructions themselves; agent, mslite",
        "and nnrt were built whole. What was built was looked into: machine, for arm32 each object's build attributes (architecture, NEON, how",
        "numbers are passed), for llama.cpp and whisper.cpp on ARM whether there are dot product instructions, which only A55 and A76 have.",
        "**ran** names the model of qemu on which those of agent, mslite and nnrt that were built ran with the right results.",
        "",
        f"| CPU tuning | arch | host toolchain | {' | '.join(PROGRAMS)} | ran |",
        f"|---|---|---|{'---|' * len(PROGRAMS)}---|",
    ]
    rows = dict.fromkeys((cell.cpu, cell.arch.name, cell.toolchain) for cell in cells())
    for row in rows:
        members = [cell for cell in cells() if (cell.cpu, cell.arch.name, cell.toolchain) == row]
        words = ["good" if c in results else "**failed**" if c in failed else "not run" for c in members]
        ran = sorted({results[cell] for cell in members if results.get(cell)})
        lines.append(f"| {' | '.join([*row, *words])} | {', '.join(ran) or 'not run'} |")
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cache", type=Path, default=Settings().cache, help="folder of the stand-in SDK, sources and compiler caches"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=240.0, help="begin nothing new after that")
    parser.add_argument(
        "--good",
        type=Path,
        default=ROOT / "build/tuning-matrix.txt",
        help="file of what was good and is not built again",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
