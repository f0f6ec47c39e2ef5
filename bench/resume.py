"""Going on with a bench that did not come to its end, whatever ended it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.conditions import Conditions, clocks_of
from bench.plan import read_plan
from bench.record import BenchRecord, models_json, read_bench, verify_record
from bench.request import BenchRequest
from bench.series import Sample, cut_series, write_series
from core.errors import Interrupted, LostConnection, OhforgeError, UnlikeRecords, UsageError
from core.record_folder import SUMS, now
from deploy.board.protocol import Board
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from native.models.models import Model

REMEDY = "Begin a new bench; what is there of this one stays."


def request_of(folder: Path, instrument: str, *, at_most: float, ask: bool) -> BenchRequest:
    """What the bench in `folder` was asked for. Raises UsageError when there is nothing to go on with, and as `read_bench`."""
    content = read_bench(folder)
    if content["request"] is None:
        raise UsageError(f"{folder} was made by an ohforge that noted less; it cannot be gone on with.", remedy=REMEDY)
    if content["instrument"] != instrument:
        raise UsageError(f"{folder} was measured by bench.{content['instrument']}.", remedy="Use that to go on.")
    if content["state"] == "done" and content["ended_because"] != "time":
        raise UsageError(f"{folder} has come to its end ({content['ended_because']}).", remedy=REMEDY)
    asked, plan = content["request"], read_plan(content["plan"])
    return BenchRequest(
        models=tuple(asked["models"]),
        board=asked["board"],
        choice=ToolchainChoice(**asked["choice"]),
        threads=() if plan.sweep else plan.threads,
        axes=plan.axes,
        n_prompt=plan.n_prompt,
        n_gen=plan.n_gen,
        loops=plan.loops,
        warm_up=plan.warm_up,
        repetitions=plan.repetitions,
        seed=plan.seed,
        at_most=at_most,
        start_below=plan.start_below,
        cool_within=plan.cool_within,
        completions=plan.completions,
        pin=content["pin"]["asked"],
        ask=ask,
        resume=folder,
    )


def reopen_bench(
    request: BenchRequest, engine: str, models: Sequence[Model], board: Board, before: Conditions
) -> tuple[BenchRecord, list[Sample]]:
    """The record, made ready to be gone on with, and the samples of its whole repetitions.

    Raises UnlikeRecords when models, program, board or clocks are not what they were; RecordChanged when it was changed.
    """
    folder = request.resume
    assert folder is not None
    content = read_bench(folder)
    _check_alike(content, engine, models, board, before)
    if (folder / SUMS).is_file():
        verify_record(folder)
        (folder / SUMS).unlink()
    samples = _whole(cut_series(folder), len(content["tests"]))
    write_series(folder, samples)
    part = {
        "started": content["parts"][-1]["ended"] if content["parts"] else content["times"]["started"],
        "ended": now(),
        "state": content["state"] if content["state"] != "running" else "killed",
        "error": content["error"],
        "conditions": content["conditions"],
        "cpu_seconds": content["cpu_seconds"],
    }
    changed = {
        "state": "running",
        "error": None,
        "times": {**content["times"], "ended": None},
        "parts": [*content["parts"], part],
        "plan": {**content["plan"], "at_most": request.at_most},
        "conditions": {"before": None, "after": None},
        "ended_because": None,
        "valid": None,
        "flags": [],
    }
    return BenchRecord(folder, {**content, **changed}), samples


def tell_how_to_go_on(error: OhforgeError, record: BenchRecord) -> None:
    """Adds it to what may be done about an error that has cut a bench off."""
    words = f"Go on with `ohforge bench.{record.content['instrument']} --resume {record.folder.name}`."
    if isinstance(error, LostConnection):
        error.remedy = f"{error.remedy} {words}"
    elif isinstance(error, Interrupted) and error.remedy == Interrupted.default_remedy:
        error.remedy = words


def _whole(samples: Sequence[Sample], tests: int) -> list[Sample]:
    """Without those of a run of which not every test was written."""
    runs = [sample.run for sample in samples]
    return [sample for sample in samples if runs.count(sample.run) == tests]


def _check_alike(
    content: Mapping[str, Any], engine: str, models: Sequence[Model], board: Board, before: Conditions
) -> None:
    first = (content["parts"] or [content])[0]["conditions"]["before"]
    pairs = {
        "board": (content["board"]["serial"], board.serial),
        "engine": (content["engine"], engine),
        "models": (content["models"], models_json(models)),
        "clocks": (clocks_of(first or before.as_json()), clocks_of(before.as_json())),
    }
    if unlike := [f"{key}: {was} then, {now_} now" for key, (was, now_) in pairs.items() if was != now_]:
        raise UnlikeRecords(f"The bench cannot be gone on with: {'; '.join(unlike)}.", remedy=REMEDY)
