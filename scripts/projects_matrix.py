"""Builds public projects for both arches with both host toolchains, runs them, and writes docs/projects-matrix.md.

    python scripts/projects_matrix.py [--cache FOLDER] [--minutes 60] [--results FILE] [--only NAME…] [--heaviest 8]

Which ones: tests/data/projects/projects.yaml. With `--minutes 0` the page is written from what is there.
Takes from seconds (zlib) to many minutes (OpenSSL, ncnn) for each; ohos is the tests' stand-in SDK. What was good is not
built again, unless its row or a program beside the table has changed. The table says what was run, nothing else.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity  # noqa: E402
from core.errors import OhforgeError  # noqa: E402
from core.session import Session  # noqa: E402
from core.settings import Settings  # noqa: E402
from tests.shared.own_commit import own_commit  # noqa: E402
from tests.shared.projects_matrix import (  # noqa: E402
    BOARDS,
    TOOLCHAINS,
    Cell,
    Machine,
    NotRun,
    Project,
    cells,
    inputs_of,
    prepared_machine,
    read_projects,
    run_cell,
)
from tests.shared.tuning_matrix import clang_of  # noqa: E402
from toolchains.zig import find_zig  # noqa: E402

PAGE = ROOT / "docs" / "projects-matrix.md"
GOOD = "good"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A line of the results."""

    cell: str
    inputs: str
    """Of `inputs_of`: with others the cell is run anew."""
    commit: str
    """Of ohforge."""
    result: str
    """`GOOD`, or ``failed: …``, or ``not run: …``."""


def main() -> int:
    options = _options()
    projects = read_projects()
    session = Session(
        settings=Settings(cache_dir=str(options.cache)), console=Console(json_mode=True, verbosity=Verbosity.QUIET)
    )
    options.work.mkdir(parents=True, exist_ok=True)
    verdicts = read_verdicts(options.results, projects)
    commit, until = own_commit(), time.monotonic() + options.minutes * 60
    with prepared_machine(session, options.work, options.cache) as machine, options.results.open("a") as file:
        # What fails, mostly fails in all cells of a project: one of each tells that early.
        for cell in sorted(cells(projects), key=lambda one: (one.toolchain != "zig") + (one.arch.name != "arm64")):
            known = verdicts.get(str(cell))
            if (known and known.result == GOOD) or not _chosen(cell.project, options) or time.monotonic() > until:
                continue
            began = time.monotonic()
            verdicts[str(cell)] = verdict = Verdict(
                cell=str(cell),
                inputs=inputs_of(cell, projects),
                commit=commit,
                result=_try_cell(machine, cell, projects),
            )
            print(json.dumps(asdict(verdict), ensure_ascii=False), file=file, flush=True)
            print(f"{cell}: {verdict.result} ({time.monotonic() - began:.0f} s)", flush=True)
    if not options.only:
        PAGE.write_text(page(projects, verdicts, clang_of(options.cache)))
    good = sum(verdict.result == GOOD for verdict in verdicts.values())
    print(f"{good} of {len(cells(projects))} good; {PAGE}")
    return 0 if good == len(cells(projects)) else 1


def read_verdicts(path: Path, projects: Mapping[str, Project]) -> dict[str, Verdict]:
    """What each cell came to when it was last tried as the table has it now."""
    inputs = {str(cell): inputs_of(cell, projects) for cell in cells(projects)}
    lines = path.read_text().splitlines() if path.is_file() else []
    verdicts = [Verdict(**json.loads(line)) for line in lines]
    return {one.cell: one for one in verdicts if one.inputs == inputs.get(one.cell)}


def _try_cell(machine: Machine, cell: Cell, projects: Mapping[str, Project]) -> str:
    try:
        run_cell(machine, cell, projects)
    except NotRun as why:
        return f"not run: {why}"
    except (OhforgeError, AssertionError) as error:
        return f"failed: {error}"
    return GOOD


def page(projects: Mapping[str, Project], verdicts: Mapping[str, Verdict], clang: str) -> str:
    """The table, as Markdown."""
    zig, everything = find_zig(), cells(projects)
    results = {verdict.cell: verdict.result for verdict in verdicts.values()}
    commits = Counter(verdict.commit for verdict in verdicts.values()).most_common()
    good = list(results.values()).count(GOOD)
    lines = [
        "# Public projects",
        "",
        f"Made by `scripts/projects_matrix.py` on {datetime.now(UTC):%Y-%m-%d}, on {platform.system()} {platform.machine()}:",
        f"{good} of the {len(results)} combinations that were tried were good; {len(projects)} projects have {len(everything)}.",
        f"They were tried with ohforge of the commit {', '.join(f'{name} ({number})' for name, number in commits)}.",
        f"zig is ziglang {zig.version} (clang {zig.clang}), static; ohos is the tests' stand-in SDK ({clang}, docs/standin-sdk.md),",
        "not a published one.",
        "",
        "Each was built with `invoke build --source`, from the archive that Debian's source packages or the Python package index",
        "have, with nothing changed in it but what the last column says. Good means that a program of the project, or a small one of ours that is linked to its",
        "libraries by `--prefix`, was run by `invoke board.run` on the emulated `dayu200` (arm32) and `dayu200-arm64`, ended as it should",
        "and printed what is published or computed elsewhere: `tests/data/projects` has it, with every option that was given.",
        "",
        f"| project | archive | {' | '.join(f'{arch.name} {name}' for name in TOOLCHAINS for arch in BOARDS)} | run | options |",
        f"|---|---|{'---|' * len(TOOLCHAINS) * len(BOARDS)}---|---|",
    ]
    reasons = []
    for project in sorted(projects.values(), key=lambda one: one.name):
        members = [cell for cell in everything if cell.project == project]
        reasons += [
            f"- {cell}: {_short(results[str(cell)])}" for cell in members if results.get(str(cell), GOOD) != GOOD
        ]
        words = [project.name, project.file, *(_word(results.get(str(cell))) for cell in members)]
        lines.append(f"| {' | '.join([*words, project.program or 'ours', _options_of(project)])} |")
    return "\n".join([*lines, *(["", "What was not good:", "", *reasons] if reasons else [])]) + "\n"


def _options_of(project: Project) -> str:
    words = [f"--system {project.system}"] if project.system else []
    words += [f"--prefix {name}" for name in project.needs] + [f"--product {name}" for name in project.products]
    words += [f"--option {name}={value}" for name, value in project.options.items()]
    words += [f"{what}: --option {n}={v}" for what, more in project.options_for.items() for n, v in more.items()]
    words += [f"first `{' '.join(words)}`" for words in project.prepare]
    return ", ".join(words)


def _word(result: str | None) -> str:
    if result is None:
        return "not run"
    return result if result == GOOD else f"**{result.partition(':')[0]}**"


def _short(result: str) -> str:
    """In one line, and without the folders of this machine."""
    return re.sub(r"/\S*/(?=\S)", "", " ".join(result.split()))[:300]


def _chosen(project: Project, options: argparse.Namespace) -> bool:
    return project.weight <= options.heaviest and (not options.only or project.name in options.only)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cache", type=Path, default=Settings().cache, help="folder of the stand-in SDK, archives and compiler caches"
    )
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing new after that")
    parser.add_argument("--work", type=Path, default=ROOT / "build/projects-matrix", help="folder of what is built")
    parser.add_argument("--only", nargs="*", default=[], help="only these projects; the page stays as it is")
    parser.add_argument("--heaviest", type=int, default=100, help="leave out projects of a greater weight")
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "build/projects-matrix.jsonl",
        help="file of what each came to; what was good is not built again",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
