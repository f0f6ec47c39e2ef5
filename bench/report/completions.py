"""What a page says of completions: the wait for the first token, and the time of every further one as the board went on."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.plan import human_threads
from bench.report.charts import finish, label, source_of
from bench.report.document import Block, Cell, Chart, Table, number
from bench.report.measured import Measured, is_number
from bench.report.svg import INK, LETTERS, SERIES, new_figure, to_svg
from core.errors import InvalidData
from core.files import human_bytes

METRICS = {
    "load": "loading the model",
    "ttft": "until the first token",
    "token": "a further token, all of them",
    "tpot": "a further token, mean of a completion",
    "peak_memory": "most memory",
    "minor_faults_per_token": "minor page faults for a token",
    "major_faults_per_token": "major page faults for a token",
    "read_per_token": "read from storage for a token",
}
LARGEST_SAMPLES = 1 << 26
"""Bytes of a run's samples that are read."""
LEAST_GAP = 0.12
"""Part of the axis of time that a label takes."""
MOST_TOKENS = 4000
"""Of one completion that are drawn."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One answer. Times in seconds since the request."""

    round: int
    model: str
    threads: int
    load_seconds: float
    arrivals: Sequence[float]
    token_seconds: Sequence[float]
    """From the second token on."""
    run: str


def completion_blocks(measured: Measured, name: str) -> Iterator[Block]:
    """Nothing for a bench without completions. Raises InvalidData."""
    said = measured.content.get("completion")
    if not said:
        return
    if said["results"]:
        yield _table(measured, said)
    completions = list(_read(measured.folder / Path(said["file"]).name))
    for place, model in enumerate(dict.fromkeys(each.model for each in completions)):
        counted = [each for each in completions if each.model == model and each.round > 0]
        if counted:
            yield _draw(measured, counted, f"{name}k{place}")


def _table(measured: Measured, said: Mapping[str, Any]) -> Table:
    mark = " EMULATED" if measured.emulated else ""
    rows = [
        [
            Cell(text=result["configuration"]),
            Cell(text=METRICS.get(result["metric"], result["metric"])),
            Cell(text=f"{_amount(result['median'], result['unit'])}{mark}", value=result["median"]),
            Cell(
                text=f"{_amount(result['low'], result['unit'])} to {_amount(result['high'], result['unit'])}"
                if result["low"] is not None
                else "none",
                value=result["low"],
            ),
            Cell(text=_amount(result["p5"], result["unit"]), value=result["p5"]),
            Cell(text=_amount(result["p95"], result["unit"]), value=result["p95"]),
            Cell(text=str(result["n"]), value=result["n"]),
        ]
        for result in said["results"]
    ]
    return Table(
        caption=f"Completions through llama-server: a prompt of {said['prompt_tokens']} tokens, {said['tokens']} written; "
        f"every one is in {said['file']} of the record.",
        columns=["Configuration", "What", "Median", "95 % interval", "p5", "p95", "n"],
        rows=rows,
        numeric=frozenset({2, 3, 4, 5, 6}),
    )


def _amount(value: float, unit: str) -> str:
    return human_bytes(round(value)) if unit == "bytes" else number(value, "s" if unit == "s" else "")


def _read(path: Path) -> Iterator[Completion]:
    """All whole lines; one that was cut short at the end is left out, as the record then says that it did not end."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    for place, line in enumerate(text.split("\n")[:-1], 1):
        try:
            yield _checked(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise InvalidData(f"{path}, line {place}, is no completion: {str(error) or repr(error)}.") from error


def _checked(said: Mapping[str, Any]) -> Completion:
    arrivals, tokens = said["arrivals"], said["token_seconds"]
    times = [*arrivals, *tokens, said["load_seconds"]]
    if not all(map(is_number, times)) or not arrivals or len(tokens) != len(arrivals) - 1:
        raise ValueError("its times are none, or not those of its tokens")
    if not all(isinstance(said[name], str) for name in ("model", "run")):
        raise TypeError("a name in it is no text")
    return Completion(
        round=int(said["round"]),
        model=said["model"],
        threads=int(said["threads"]),
        load_seconds=said["load_seconds"],
        arrivals=arrivals[:MOST_TOKENS],
        token_seconds=tokens[: MOST_TOKENS - 1],
        run=said["run"],
    )


def _draw(measured: Measured, completions: Sequence[Completion], name: str) -> Chart:
    """One completion token by token, with the board's temperature and clock; the others behind it."""
    one = sorted(completions, key=lambda each: sum(each.token_seconds))[len(completions) // 2]
    tracks = _tracks(measured, one)
    ratios = (2.4, *([1.0] * len(tracks)))
    figure, (top, *below) = new_figure(190 + 78 * len(tracks), 1 + len(tracks), ratios)
    for each in completions:
        if each is not one:
            top.plot(
                *(each.arrivals[1:], [1000 * seconds for seconds in each.token_seconds]),
                linestyle="",
                marker=".",
                markersize=3,
                color=SERIES[5],
                alpha=0.5,
            )
    top.plot(
        *(one.arrivals[1:], [1000 * seconds for seconds in one.token_seconds]),
        linewidth=1.0,
        marker="o",
        markersize=3,
        color=SERIES[0],
    )
    top.set_title("Time of each token, ms", fontsize=LETTERS - 0.5, fontweight="normal")
    top.set_ylim(bottom=0)
    for axes, (title, track) in zip(below, tracks.items(), strict=True):
        axes.plot(*zip(*track, strict=True), color=INK, linewidth=1.2, marker="." if len(track) < 60 else "")
        axes.set_title(title, fontsize=LETTERS - 0.5, fontweight="normal")
    places = sorted({round(1 + share * (len(one.arrivals) - 1)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
    # Where a label would lie over the one before it, it is left away.
    nearest = LEAST_GAP * one.arrivals[-1]
    times = {place: one.arrivals[place - 1] for place in places}
    places = [
        place
        for place, before in zip(places, [None, *places], strict=False)
        if before is None or times[place] - times[before] > nearest
    ]
    figure.axes[-1].set_xticks(
        [one.arrivals[place - 1] for place in places],
        [f"{one.arrivals[place - 1]:.3g}\n#{place}" for place in places],
    )
    figure.axes[-1].set_xlabel("seconds since the request, and which token")
    finish(measured, figure)
    milliseconds = [1000 * seconds for each in completions for seconds in each.token_seconds]
    ranges = "; ".join(
        f"{title}: {number(min(value for _, value in track))} to {number(max(value for _, value in track))}"
        for title, track in tracks.items()
    )
    title = f"Every token of {label(one.model)}"
    told = (
        f"{title}. The first token came after {number(one.arrivals[0], 's')}; half of the others took "
        f"{number(statistics.median(milliseconds), 'ms')} or less, the longest {number(max(milliseconds), 'ms')}. {ranges}"
    ).strip()
    return Chart(
        title=title,
        told=told,
        caption=f"{source_of(measured)} {len(completions)} completions with {human_threads(one.threads)}, n = {len(milliseconds)} tokens; "
        "dark is the one of middle length, light are the others. Times of the tokens are the server's, places those of their "
        "arrival here.",
        svg=to_svg(figure, name, title, told),
    )


def _tracks(measured: Measured, completion: Completion) -> dict[str, list[tuple[float, float]]]:
    """Temperature and clock from the server's own run, from the request to the last token."""
    found: dict[str, list[tuple[float, float]]] = {"Highest temperature, °C": [], "Clock, MHz": []}
    for said in _run_samples(measured.folder, completion.run):
        seconds = said.get("seconds")
        # The run's samples count from the server's start, and the request came when it was ready.
        since = seconds - completion.load_seconds if is_number(seconds) else -1.0
        if not 0 <= since <= completion.arrivals[-1]:
            continue
        for title, key, scale in (
            ("Highest temperature, °C", "temperatures", 1.0),
            ("Clock, MHz", "cpu_frequencies", 1e6),
        ):
            values = said.get(key)
            known = [value for value in values.values() if is_number(value)] if isinstance(values, dict) else []
            if known:
                found[title].append((since, max(known) / scale))
    return {title: track for title, track in found.items() if track}


def _run_samples(folder: Path, run: str) -> Iterator[Mapping[str, Any]]:
    path = folder / "runs" / run / "samples.jsonl"
    if Path(run).name != run or not path.is_file() or path.stat().st_size > LARGEST_SAMPLES:
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict):
            yield said
