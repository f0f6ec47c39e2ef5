"""How cells are done: by the functions of the tasks, each going on with what an earlier end has left of it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.study.crew import Crew
from bench.study.run import Do, Earlier
from bench.study.spec import BENCH, EVALUATE, QUANTIZE, Cell
from core.errors import IntegrityError, InvalidData, ModelError, UsageError
from core.files import sha256_file
from core.record_folder import FILE, SUMS, write_sums
from core.session import Session

SEED = 1
BENCH_DEFAULTS = {"prompt": 128, "generate": 32, "repetitions": "5%", "at_most_minutes": 120}


def identify_source(name: str) -> str:
    """SHA-256 of a file, or the one that is pinned for a model of that name; empty when neither is known."""
    from native.models.models import find_entry

    path = Path(name).expanduser()
    if path.is_file():
        return sha256_file(path)
    with contextlib.suppress(UsageError, ModelError):
        return find_entry(name).sha256
    return ""


def do_quantize(session: Session, cell: Cell, earlier: Earlier) -> Mapping[str, Any]:
    """Makes the file anew: of a half one nothing can be used."""
    from native.models.quantize import QuantizeRequest, quantize_model

    folder = session.settings.runs
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    known = cell.parameters
    request = QuantizeRequest(
        model=known["source"],
        types=(known["type"],),
        folder=str(folder),
        allow_requantize=bool(known.get("allow_requantize")),
    )
    (made,) = quantize_model(session, request).quantised
    return {"path": str(made.path), "sha256": made.sha256, "size": made.size, "source": known["source"]}


def do_bench(session: Session, cell: Cell, earlier: Earlier) -> Mapping[str, Any]:
    from bench.llama import check_tokens, measure_llama, read_axes
    from bench.plan import read_repetitions
    from bench.record import read_bench
    from bench.request import BenchRequest
    from bench.resume import request_of

    asked = {**BENCH_DEFAULTS, **cell.parameters["bench"]}
    check_tokens(asked["prompt"], asked["generate"])
    at_most = 60.0 * asked["at_most_minutes"]
    axes = {name.replace("-", "_"): ",".join(map(str, values)) for name, values in asked.get("settings", {}).items()}
    request = BenchRequest(
        models=(_file_of(cell, earlier),),
        board=cell.parameters["board"],
        threads=tuple(asked.get("threads", ())),
        axes=read_axes(**axes),
        n_prompt=asked["prompt"],
        n_gen=asked["generate"],
        repetitions=read_repetitions(str(asked["repetitions"])),
        seed=SEED,
        at_most=at_most,
        completions=asked.get("completions", 0),
    )

    def begin() -> Path:
        return measure_llama(session, request).record

    def go_on(folder: Path) -> Path:
        return measure_llama(session, request_of(folder, "llama", at_most=at_most, ask=False)).record

    return {"record": str(_continue(session, read_bench, begin, go_on))}


def do_evaluate(session: Session, cell: Cell, earlier: Earlier, crew: Crew | None = None) -> Mapping[str, Any]:
    """With a crew, the questions of a board's cell are spread over the boards that answer in its place."""
    from bench.eval.evaluate import evaluate
    from bench.eval.record import read_eval
    from bench.eval.request import EvalPlan, EvalRequest

    known = cell.parameters
    plan = EvalPlan(
        data=known["data"],
        limit=known["limit"],
        seed=known["seed"],
        prompt=known["prompt"],
        budgets=(known["budget"],) if "budget" in known else tuple(known["budgets"]),
        max_tokens=known["max_tokens"],
        concurrency=max(known["concurrency"], cell.settings.slots),
        settings=cell.settings,
    )
    alone = EvalRequest(
        model=known["served_as"] if "url" in known else _file_of(cell, earlier),
        endpoint=known.get("url", ""),
        on_host=bool(known.get("on_host")),
        board=known.get("board", ""),
        threads=known.get("threads", 0),
        plan=plan,
    )
    request = alone
    if crew is not None and alone.board:
        request = dataclasses.replace(alone, board="", boards=crew.lanes[alone.board], scheduler=crew.scheduler)

    def go_on(folder: Path) -> Path:
        # What one server has begun is gone on with by it: too little is known of it to add boards.
        before = request if "parts" in read_eval(folder) else alone
        return evaluate(session, dataclasses.replace(before, resume=folder)).record

    return {"record": str(_continue(session, read_eval, lambda: evaluate(session, request).record, go_on))}


WAYS: Mapping[str, Do] = {QUANTIZE: do_quantize, BENCH: do_bench, EVALUATE: do_evaluate}


def ways_of(crew: Crew) -> Mapping[str, Do]:
    """The same with several boards."""
    return {**WAYS, EVALUATE: functools.partial(do_evaluate, crew=crew)}


def find_record_of(folder: Path, read: Callable[[Path], Mapping[str, Any]]) -> tuple[Path, Mapping[str, Any]] | None:
    """The newest record in a cell's folder that can be read."""
    for file in sorted(folder.glob(f"*/{FILE}"), reverse=True):
        with contextlib.suppress(InvalidData, OSError):
            return file.parent, read(file.parent)
    return None


def _continue(
    session: Session,
    read: Callable[[Path], Mapping[str, Any]],
    begin: Callable[[], Path],
    go_on: Callable[[Path], Path],
) -> Path:
    """The record of a cell: as it is when it came to its end, else gone on with; begun anew when that cannot be."""
    found = find_record_of(session.settings.runs, read)
    if found is None:
        return begin()
    folder, content = found
    if content["state"] == "done":
        if not (folder / SUMS).is_file():  # It was killed right before its very last step.
            write_sums(folder)
        return folder
    try:
        session.console.info(f"going on with {folder}")
        return go_on(folder)
    except (UsageError, IntegrityError) as error:
        session.console.warn(f"{error.message} It is begun anew; {folder.name} stays as it is.")
        return begin()


def _file_of(cell: Cell, earlier: Earlier) -> str:
    """The model's file, or the name by which it is found."""
    made = [earlier[key]["path"] for key in cell.after]
    return str(made[0] if made else cell.parameters["source"])
