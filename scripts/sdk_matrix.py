"""Builds the small project for every combination of tests/shared/sdk_matrix.py and writes docs/sdk-matrix.md.

    python scripts/sdk_matrix.py [--cache FOLDER] [--jobs 2] [--minutes 30] [--good FILE]

Takes some seconds for each of 512 combinations, over the tests' stand-in SDK. The table says what was run, nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity  # noqa: E402
from core.session import Session  # noqa: E402
from core.settings import Settings  # noqa: E402
from tests.shared.sdk_matrix import (  # noqa: E402
    ARCHES,
    CMAKES,
    LAYOUTS,
    RELEASES,
    Combination,
    build_combination,
    cmake_of,
    combinations,
)
from tests.shared.standin_sdk import standin_sdk  # noqa: E402
from toolchains.arch import Arch  # noqa: E402

PAGE = ROOT / "docs" / "sdk-matrix.md"


def main() -> int:
    options = _options()
    cmakes = {version: cmake_of(version, options.cache) for version in CMAKES}
    sdks = {release: standin_sdk(options.cache, release) for release in RELEASES}
    session = Session(settings=Settings(), console=Console(json_mode=True, verbosity=Verbosity.QUIET))

    def run(one: Combination) -> str:
        cmake = cmakes[one.cmake]
        if isinstance(cmake, str):
            return f"not run: {cmake}"
        with tempfile.TemporaryDirectory(prefix="sdk-matrix-") as folder:
            try:
                build_combination(session, one, sdks[one.release], cmake, Path(folder), options.cache)
            except AssertionError as error:
                return f"failed: {str(error)[-1500:]}"
        return ""

    done = set(options.good.read_text().splitlines()) if options.good.is_file() else set()
    results = {one: "" for one in combinations() if str(one) in done}
    chosen = [one for one in combinations() if one not in results]
    until = time.monotonic() + options.minutes * 60
    with ThreadPoolExecutor(options.jobs) as pool, options.good.open("a") as good:
        for one, result in zip(
            chosen, pool.map(lambda one: run(one) if time.monotonic() < until else None, chosen), strict=True
        ):
            if result is None:
                continue
            results[one] = result
            print(f"{one}: {result or 'ok'}", flush=True)
            if not result:
                print(one, file=good, flush=True)
    bad = [one for one, result in results.items() if result]
    PAGE.write_text(page(results))
    print(f"{len(results) - len(bad)} of {len(results)} good; {PAGE}")
    return 1 if bad else 0


def page(results: dict[Combination, str]) -> str:
    """The table, as Markdown."""
    good = sum(not result for result in results.values())
    lines = [
        "# Releases, layouts, arches and CMakes",
        "",
        f"Made by `scripts/sdk_matrix.py` on {datetime.now(UTC):%Y-%m-%d}: {good} of the {len(results)} combinations",
        f"that were run were good; there are {len(combinations())}.",
        "",
        f"A cell names the CMakes with which it was good, of {', '.join(CMAKES)} from the Python package index: a project in C",
        "and C++ with a shared library was configured twice with the rendered toolchain file, built, and its program run under",
        "qemu; the flags of both configurations were the same, and the library had its versions. What failed is named, what was",
        "not run is left out; the script goes on with that. The SDK was the tests' stand-in with the release's edition of",
        "`ohos.toolchain.cmake` (docs/standin-sdk.md), not a published one.",
        "",
        f"| release | arch | {' | '.join(LAYOUTS)} |",
        f"|---|---|{'---|' * len(LAYOUTS)}",
    ]
    for release in RELEASES:
        for arch in ARCHES:
            cells = [_cell(results, release, layout, arch) for layout in LAYOUTS]
            lines.append(f"| {release} | {arch.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(results: dict[Combination, str], release: str, layout: str, arch: Arch) -> str:
    found = [c for c in results if (c.release, c.layout, c.arch) == (release, layout, arch)]
    said = [f"{c.cmake} **{results[c].partition(':')[0]}**" for c in found if results[c]]
    good = [c.cmake.rpartition(".")[0] for c in found if not results[c]]
    return ", ".join(["all four"] if len(good) == len(CMAKES) else good + said) or "not run"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cache", type=Path, default=Settings().cache, help="folder of the stand-in SDK and the CMakes"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=240.0, help="begin nothing new after that")
    parser.add_argument(
        "--good", type=Path, default=ROOT / "build/sdk-matrix.txt", help="file of what was good and is not built again"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
