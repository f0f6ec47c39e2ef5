"""``bench.export``: a bench for other programs: a table of its samples, its results as Markdown, or as llama-bench prints them."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report.bench_sections import speed_blocks, verdict_blocks
from bench.report.document import Document, Section, readable
from bench.report.markdown import render_markdown
from bench.report.measured import RATE, Measured, Point, read_measured
from bench.report.write import check_place, write_page
from core.dry import Would
from core.errors import UsageError, unknown_name

CSV, MARKDOWN, LLAMA_BENCH = "csv", "md", "llama-bench"
ENDINGS = {CSV: "csv", MARKDOWN: "md", LLAMA_BENCH: "json"}
LOGS = ("stdout.log", "output.log")
LARGEST_LOG = 1 << 20
FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet computes if a cell begins with it."""
LLAMA_BENCH_FIELDS = (
    *("build_commit", "build_number", "cpu_info", "gpu_info", "backends"),
    *("model_filename", "model_type", "model_size", "model_n_params"),
    *("n_batch", "n_ubatch", "n_threads", "cpu_mask", "cpu_strict", "poll", "type_k", "type_v", "n_gpu_layers"),
    *("n_cpu_moe", "split_mode", "main_gpu", "no_kv_offload", "flash_attn", "devices", "tensor_split"),
    *("tensor_buft_overrides", "load_mode", "lazy_mode", "embeddings", "no_op_offload", "no_host", "repack"),
    *("fit_target", "fit_min_ctx", "n_prompt", "n_gen", "n_depth", "test_time"),
    *("avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns", "samples_ts"),
)
"""As the pinned llama.cpp's ``tools/llama-bench/llama-bench.cpp`` names and orders them."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """A file that was written."""

    path: Path
    size: int
    format: str
    emulated: bool


def export_bench(folder: Path, form: str, output: str = "", *, force: bool = False) -> Export:
    """Writes the bench in `folder` to `output`; without one, to a file here that is called as the record.

    Raises UsageError for a file in the way, or nothing to export; UnknownName for another format; InvalidData.
    """
    measured, path = _plan(folder, form, output, force)
    size = write_page(path, WRITERS[form](measured))
    return Export(path=path.resolve(), size=size, format=form, emulated=measured.emulated)


def would_export(folder: Path, form: str, output: str = "", *, force: bool = False) -> list[Would]:
    """What `export_bench` would do. Raises as it does."""
    measured, path = _plan(folder, form, output, force)
    size = len(WRITERS[form](measured).encode("utf-8"))
    return [Would(action="write", what=f"{measured.content['id']} as {form}", size=size, where=str(path.resolve()))]


def _plan(folder: Path, form: str, output: str, force: bool) -> tuple[Measured, Path]:
    if form not in WRITERS:
        raise unknown_name("format (--format)", form, WRITERS)
    measured = read_measured(folder)
    name = readable(measured.content["id"], 120).replace("/", "-")
    mark = "-emulated" if measured.emulated and "emulated" not in name else ""
    path = Path(output or f"{name}{mark}.{ENDINGS[form]}").expanduser()
    check_place(path, force=force)
    return measured, path


# samples -----------------------------------------------------------------------------------------


def as_csv(measured: Measured) -> str:
    """Every sample, warm-up and all, one a line; each says whether it is emulated, and whether the bench is valid."""
    names = list(dict.fromkeys(name for point in measured.points for name in point.said))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["record", "board", "emulated", "valid", "flags", *names])
    content = measured.content
    flags = " ".join(sorted({flag["name"] for flag in content["flags"]}))
    of_all = (content["id"], content["board"]["serial"], measured.emulated, content["valid"], flags)
    for point in measured.points:
        writer.writerow(map(_csv_cell, (*of_all, *(point.said.get(name) for name in names))))
    return text.getvalue()


def _csv_cell(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            text = readable(value)
            return f"'{text}" if text.startswith(FORMULA) else text
        case _:
            return json.dumps(value)


# results -----------------------------------------------------------------------------------------


def as_markdown(measured: Measured) -> str:
    """Verdict and speeds, without drawings."""
    blocks = [*verdict_blocks(measured), *speed_blocks(measured)]
    mark = "EMULATED: " if measured.emulated else ""
    return render_markdown(
        Document(
            title=f"{mark}{measured.models} on {measured.board}",
            lead=f"Bench {measured.content['id']}, {measured.content['engine']}.",
            emulated=measured.emulated,
            sections=[Section(title="Results", blocks=blocks)],
        )
    )


# as llama-bench ----------------------------------------------------------------------------------


def as_llama_bench(measured: Measured) -> str:
    """What ``llama-bench -o json`` would have printed of all repetitions, and whether it is emulated and valid.

    Settings are those that it did print in each run. Where a run's output is not there, what only that said is null.
    """
    tests = list(_llama_bench_tests(measured))
    if not tests:
        raise UsageError("Nothing in this record was measured by llama-bench.", remedy="Take --format csv.")
    return json.dumps(tests, indent=2) + "\n"


def _llama_bench_tests(measured: Measured) -> Iterator[dict[str, Any]]:
    content = measured.content
    for result in measured.results:
        points = measured.counted(result)
        counts = _llama_bench_counts(result)
        if not points or counts is None:
            continue
        printed = _printed(measured.folder, points, counts)
        n_prompt, n_gen = counts
        nanoseconds = [round(point.seconds * 1e9) for point in points]
        speeds = [1e9 * (n_prompt + n_gen) / time for time in nanoseconds]
        many = len(points) > 1
        said = {
            "model_filename": result["model"],
            "n_threads": result["threads"],
            "n_depth": (result.get("settings") or {}).get("depth", 0),
            **printed,
            "n_prompt": n_prompt,
            "n_gen": n_gen,
            "test_time": printed.get("test_time") or points[0].said["at"][:19] + "Z",
            "avg_ns": round(statistics.mean(nanoseconds)),
            "stddev_ns": round(statistics.stdev(nanoseconds)) if many else 0,
            "avg_ts": statistics.mean(speeds),
            "stddev_ts": statistics.stdev(speeds) if many else 0.0,
            "samples_ns": nanoseconds,
            "samples_ts": speeds,
        }
        if measured.emulated:
            # Programs that take the file leave out fields that they do not know, but show this one.
            said["cpu_info"] = f"EMULATED by qemu on {said.get('cpu_info') or 'this computer'}"
        yield {
            **{name: said.get(name) for name in LLAMA_BENCH_FIELDS},
            "emulated": measured.emulated,
            "valid": content["valid"],
            "flags": [
                flag["name"] for flag in content["flags"] if flag["configuration"] in ("", result["configuration"])
            ],
            "ohforge_record": content["id"],
        }


def _llama_bench_counts(result: Mapping[str, Any]) -> tuple[int, int] | None:
    """Tokens of the prompt and to generate; None for what is no test of llama-bench."""
    if result["unit"] != RATE or not result["tokens"]:
        return None
    return {"prefill": (result["tokens"], 0), "decode": (0, result["tokens"])}.get(result["test"])


def _printed(folder: Path, points: Sequence[Point], counts: tuple[int, int]) -> dict[str, Any]:
    """What llama-bench itself printed of that test in the first run whose output is there."""
    for point in points:
        if Path(point.run).name != point.run:
            continue
        for name in LOGS:
            for said in _objects_in(folder / "runs" / point.run / name):
                if (said.get("n_prompt"), said.get("n_gen")) == counts:
                    return {key: said[key] for key in LLAMA_BENCH_FIELDS if key in said}
    return {}


def _objects_in(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file() or path.is_symlink() or path.stat().st_size > LARGEST_LOG:
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("{"):
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(said, dict):
                yield said


WRITERS: Mapping[str, Callable[[Measured], str]] = {CSV: as_csv, MARKDOWN: as_markdown, LLAMA_BENCH: as_llama_bench}
