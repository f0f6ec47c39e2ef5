"""Single measurements: how llama-bench prints them, and how they are kept in ``samples.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.errors import InvalidData, RunError

FILE = "samples.jsonl"
PREFILL, DECODE = "prefill", "decode"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One test of one repetition, as llama-bench timed it on the board: random tokens, without sampling or text."""

    test: str
    """`PREFILL` or `DECODE`."""
    tokens: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One timing, with what it belongs to and what the board did meanwhile; None: the board does not tell."""

    position: int
    """In the order of the whole bench, from 1."""
    round: int
    """0: the warm-up, which is kept and does not count."""
    model: str
    threads: int
    test: str
    tokens: int
    seconds: float
    tokens_per_second: float
    at: str
    """Host's time at which the run had ended."""
    run: str
    """Folder of the run's own record, below ``runs/``."""
    peak_bytes: int | None = None
    major_faults: int | None = None
    read_bytes: int | None = None
    """From storage."""
    cpu_seconds: float | None = None
    cpu_hz: dict[str, float] | None = None
    """Median clock during the run, by CPU or policy."""
    hottest: float | None = None
    """Highest temperature that was seen, in °C."""

    @property
    def counts(self) -> bool:
        return self.round > 0


def read_timings(text: str) -> list[Timing]:
    """The tests in the output of ``llama-bench -r 1 -o jsonl``, one JSON object a line among other lines.

    Keys are those of ``tools/llama-bench/llama-bench.cpp``; unknown ones are left alone, for they change between
    versions. Raises RunError when a line cannot be understood, or there is none.
    """
    lines = [line for line in text.splitlines() if line.startswith("{")]
    try:
        timings = [_read_timing(json.loads(line)) for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"llama-bench printed something that cannot be understood: {error!r}.") from error
    if not timings:
        raise RunError("llama-bench ended well, but printed no measurement.")
    return timings


def _read_timing(said: dict[str, Any]) -> Timing:
    prompt, generated = int(said["n_prompt"]), int(said["n_gen"])
    (nanoseconds,) = said["samples_ns"]
    if (prompt > 0) == (generated > 0) or nanoseconds <= 0:
        raise ValueError(f"{prompt} prompt tokens and {generated} generated ones in {nanoseconds} ns")
    return Timing(test=PREFILL if prompt else DECODE, tokens=prompt or generated, seconds=nanoseconds / 1e9)


class SeriesFile:
    """``samples.jsonl`` of a record, which grows by a line for every sample and is whole at every moment."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._path.touch()
        self.samples: list[Sample] = []

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(sample), ensure_ascii=False) + "\n")


def read_series(folder: Path) -> list[Sample]:
    """All samples of a record. Raises InvalidData for a file that is none of ours, or is cut short."""
    try:
        return list(_read_lines(folder / FILE))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidData(f"{folder / FILE} cannot be read: {error}.") from error


def _read_lines(path: Path) -> Iterator[Sample]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield Sample(**json.loads(line))
