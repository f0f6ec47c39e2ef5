"""Runs published test models on the emulated boards, compares with the outputs published beside them, writes docs/models-matrix.md.

    python scripts/models_matrix.py ENGINE [--cache FOLDER] [--minutes 60] [--work FOLDER] [--only WORD…]

ENGINE is the folder of scripts/fetch_real_engine.py: its converter turns ONNX models into ``.ms``. Which models:
tests/data/published_models.yaml; they are fetched by their hash and stay in the cache and the work folder. A model
takes some seconds for each arch. What was run is kept in the work folder, and not run again
with the same commit of ohforge.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.console import Console, Verbosity  # noqa: E402
from core.session import Session  # noqa: E402
from core.settings import Settings  # noqa: E402
from tests.shared.command_line import Said, invoke  # noqa: E402
from tests.shared.own_commit import own_commit  # noqa: E402
from tests.shared.published_models import (  # noqa: E402
    AGREES,
    FOLDERS,
    TABLE,
    Model,
    as_stated,
    compare,
    convert_onnx,
    fetch_published,
)

PAGE = ROOT / "docs/models-matrix.md"
BOARDS = {"arm32": "dayu200", "arm64": "dayu200-arm64"}
SECONDS = 1800.0


def main() -> int:
    options = _options()
    settings = Settings(cache_dir=str(options.cache))
    session = Session(settings=settings, console=Console(json_mode=True, verbosity=Verbosity.QUIET))
    table = yaml.safe_load(TABLE.read_text())
    models = [fetch_published(session, row, options.work / "files") for row in table["files"]]
    models += convert_onnx(session, table["onnx"], options.engine, options.work)
    commit = own_commit()
    kept = options.work / "results.json"
    results: dict[str, list[str]] = json.loads(kept.read_text()) if kept.is_file() else {}
    until = time.monotonic() + options.minutes * 60
    for model in models:
        for arch in BOARDS:
            cell = f"{model.name}, {arch}"
            chosen = not options.only or any(word in model.name for word in options.only)
            known = cell in results and results[cell][0] == commit
            if model.refused or known or not chosen or time.monotonic() > until:
                continue
            results[cell] = [commit, run_model(model, arch, options)]
            kept.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
            print(f"{cell}: {results[cell][1]}", flush=True)
    outcomes = {cell: result for cell, (_, result) in results.items()}
    PAGE.write_text(page(models, outcomes, table, Counter(one for one, _ in results.values())))
    return 0


def run_model(model: Model, arch: str, options: argparse.Namespace) -> str:
    """Runs it by `board.run`: ``largest difference N``, ``differs: …``, or what ohforge says against it."""
    described = invoke("model.inspect", model.path)
    if described.status:
        return _error(described)
    words: list[str | Path] = []
    for number, (value, stated) in enumerate(zip(model.inputs, described.answer["inputs"], strict=True)):
        file = options.work / "inputs" / f"{number}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, as_stated(value, stated, channels_last=model.channels_last))
        words += ["--input", f"{number}={file}"]
    said = invoke(
        *("board.run", model.path, "--board", BOARDS[arch], "--toolchain", "zig", *words),
        seconds=SECONDS,
        OHFORGE_DATA_DIR=str(options.work / "data"),
        OHFORGE_CACHE_DIR=str(options.cache),
        INVOKE_OHFORGE_BUILD_DIR=str(options.work / "build"),
        INVOKE_OHFORGE_RUNS_DIR=str(options.work / "runs"),
    )
    if said.status:
        return _error(said)
    outputs = sorted((Path(said.answer["record"]) / "outputs").glob("*.npy"), key=lambda p: int(p.name.split("-")[0]))
    return compare([np.load(path) for path in outputs], model)


def _error(said: Said) -> str:
    error = said.answer["error"]
    return f"{error['code']}: {error['message']}"


def page(models: Sequence[Model], results: dict[str, str], table: dict[str, Any], commits: Counter[str]) -> str:
    """The table, as Markdown."""
    taken = [model for model in models if not model.refused]
    ran = [model for model in taken if all(f"{model.name}, {arch}" in results for arch in BOARDS)]
    agree = [m for m in ran if all(results[f"{m.name}, {arch}"].startswith(AGREES) for arch in BOARDS)]
    lines = [
        "# Published test models",
        "",
        f"Made by `scripts/models_matrix.py` on {datetime.now(UTC):%Y-%m-%d}, on {platform.system()} {platform.machine()}, with ohforge of the",
        f"commit {', '.join(f'{name} ({number} runs)' for name, number in commits.items())}: of {len(models)} models",
        f"MindSpore Lite's converter refused {len(models) - len(taken)}; {len(ran)} were tried on both arches, and {len(agree)} gave the published numbers on both.",
        "",
        "Each was run by `invoke board.run` with `--toolchain zig`, which is our reference runtime and no engine of a board, on the emulated",
        "`dayu200` (arm32) and `dayu200-arm64`, with the published inputs, and its outputs were compared with the published ones within",
        "the tolerance of who published them. The table has the largest difference.",
        "",
        f"Published as `.ms` are {len(table['files'])}, in the sources of OpenHarmony and MindSpore. The rest are the test models of the Python package onnx,",
        f"`{table['onnx']['file']}`, in its folders {', '.join(f'`{name}`' for name in FOLDERS)}:",
        "small ones of PyTorch's layers with their weights, turned into `.ms` by MindSpore Lite 2.0.0's own converter.",
        "",
        f"| model | {' | '.join(BOARDS)} |",
        f"|---|{'---|' * len(BOARDS)}",
    ]
    lines += [
        f"| {model.name} | {' | '.join(_word(results.get(f'{model.name}, {arch}')) for arch in BOARDS)} |"
        for model in taken
    ]
    reasons: dict[str, list[str]] = {}
    for cell, result in results.items():
        if not result.startswith(AGREES):
            reasons.setdefault(f"{cell.rpartition(', ')[0]}: {_short(result)}", []).append(cell.rpartition(", ")[2])
    lines += ["", "What did not give them, and what ohforge said:", ""] if reasons else []
    lines += [f"- {reason} ({', '.join(arches)})" for reason, arches in reasons.items()]
    lines += ["", f"Refused by the converter: {', '.join(model.name for model in models if model.refused)}."]
    return "\n".join(lines) + "\n"


def _word(result: str | None) -> str:
    if result is None:
        return "not run"
    return result.removeprefix(AGREES) if result.startswith(AGREES) else "**no**"


def _short(result: str) -> str:
    """In one line, without the folders of this machine; of a failed run what the runtime has said of it."""
    result = re.sub(r"(?s)^(\w+): .*(cannot load the model: [^\n]*).*", r"\1: \2", result)
    words = (word.rsplit("/", 1)[-1] if word.startswith("/") else word for word in result.split())
    return " ".join(words)[:300]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=Path)
    parser.add_argument("--cache", type=Path, default=Settings().cache, help="folder of archives and built programs")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing new after that")
    parser.add_argument("--work", type=Path, default=ROOT / "build/models-matrix", help="folder of models and runs")
    parser.add_argument("--only", nargs="*", default=[], help="only models with one of these words in the name")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
