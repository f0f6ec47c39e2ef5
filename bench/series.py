"""Single measurements, and how they are kept in ``samples.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.plan import Configuration, Value
from core.errors import InvalidData
from core.files import write_atomic

FILE = "samples.jsonl"
PREFILL, DECODE = "prefill", "decode"
RATE, TIME = "tokens/s", "ms"
"""Units; of the first more is better, of the second less."""


def is_better(value: float, other: float, unit: str) -> bool:
    """Whether a value is the quicker one of two."""
    return value > other if unit == RATE else value < other


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One test of one repetition, as a program timed it on the board."""

    test: str
    tokens: int | None
    """None: what was timed is not counted in tokens."""
    seconds: float
    """Where a program repeats its work, the median of its loops."""
    loops_ms: tuple[float, ...] | None = None
    """Milliseconds of each loop."""

    @property
    def per_second(self) -> float | None:
        """Tokens per second."""
        return self.tokens / self.seconds if self.tokens is not None else None


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One timing, with what it belongs to and what the board did meanwhile; None: the board does not tell."""

    position: int
    """In the order of the whole bench, from 1."""
    round: int
    """0: the warm-up, which is kept and does not count."""
    model: str
    threads: int
    settings: dict[str, Value] = field(default_factory=dict)
    """Of the configuration, beside the threads."""
    test: str
    tokens: int | None
    seconds: float
    tokens_per_second: float | None
    loops_ms: tuple[float, ...] | None = None
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
    began_at: float | None = None
    """Temperature in °C at the start, where one was waited for."""
    device: str | None = None
    """What computed, of a program that may choose: ``cpu``, ``nnrt``, ``mixed`` or ``unknown``."""

    @property
    def configuration(self) -> Configuration:
        return Configuration(model=self.model, threads=self.threads, settings=tuple(self.settings.items()))

    @property
    def value(self) -> float:
        """What is told of it, in its unit."""
        return self.tokens_per_second if self.tokens_per_second is not None else self.seconds * 1000

    @property
    def unit(self) -> str:
        return RATE if self.tokens_per_second is not None else TIME

    @property
    def counts(self) -> bool:
        return self.round > 0


class SeriesFile:
    """``samples.jsonl`` of a record, which grows by a line for every sample."""

    def __init__(self, folder: Path, samples: Sequence[Sample] = ()) -> None:
        self._path = folder / FILE
        self._path.touch()
        self.samples = list(samples)

    def add(self, samples: Sequence[Sample]) -> None:
        """The samples of one run, in one piece."""
        self.samples += samples
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_lines(samples))


def write_series(folder: Path, samples: Sequence[Sample]) -> None:
    """All samples of a record in place of those that were there."""
    write_atomic(folder / FILE, _lines(samples))


def _lines(samples: Sequence[Sample]) -> str:
    return "".join(json.dumps(asdict(sample), ensure_ascii=False) + "\n" for sample in samples)


def read_series(folder: Path) -> list[Sample]:
    """All samples of a record. Raises InvalidData for a file that is none of ours, or is cut short."""
    try:
        return list(_read_lines((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidData(f"{folder / FILE} cannot be read: {error}.") from error


def cut_series(folder: Path) -> list[Sample]:
    """As `read_series`, of a file that may end within a line because its writer was killed; what is not whole is cut off."""
    path = folder / FILE
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        write_atomic(path, whole)
    return read_series(folder)


def _read_lines(text: str) -> Iterator[Sample]:
    for line in text.splitlines():
        yield Sample(**json.loads(line))
