"""A bench's record as pages need it: read with suspicion, for whoever made it may have been stopped or be a stranger."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeGuard

from bench.plan import Configuration
from bench.record import read_bench
from bench.series import FILE
from core.errors import InvalidData
from core.record_folder import FILE as RECORD

LARGEST = 1e15
"""Of any number in a sample; more is no measurement."""
SUMMARY = ("median", "low", "high", "p5", "p95", "cv")
RATE, TIME = "tokens/s", "ms"


@dataclass(frozen=True, kw_only=True)
class Point:
    """One sample. `value` is what is told of it, in `unit`; None elsewhere: the board does not tell."""

    position: int
    round: int
    configuration: str
    """As results call it."""
    test: str
    tokens: int | None
    seconds: float
    value: float
    unit: str
    at: float
    """Seconds since 1970, by the host."""
    run: str
    hottest: float | None
    """°C"""
    hertz: float | None
    """Of the fastest CPU."""
    read_bytes: float | None
    said: Mapping[str, Any] = field(default_factory=dict)
    """All that its line says."""

    @property
    def counts(self) -> bool:
        return self.round > 0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A bench that can be shown. `points` are in the order in which they were taken."""

    folder: Path
    content: Mapping[str, Any]
    points: Sequence[Point]
    faults: Sequence[str]
    """What the record lacks, as sentences."""

    @property
    def emulated(self) -> bool:
        return bool(self.content["board"]["emulated"])

    @property
    def board(self) -> str:
        """Name and serial of the board, and that it is emulated when it is."""
        board = self.content["board"]
        title = board.get("title") or board["profile"]
        return f"{title}, {board['serial']}{', EMULATED' if self.emulated else ''}"

    @property
    def models(self) -> str:
        return ", ".join(model["name"] for model in self.content["models"])

    @property
    def tests(self) -> list[str]:
        return list(dict.fromkeys(result["test"] for result in self.results))

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.content["results"]
        return found

    def results_of(self, test: str) -> list[Mapping[str, Any]]:
        return [result for result in self.results if result["test"] == test]

    def counted(self, result: Mapping[str, Any]) -> list[Point]:
        """The samples that a result was made of."""
        return self._by_result.get((result["configuration"], result["test"]), [])

    @functools.cached_property
    def _by_result(self) -> dict[tuple[str, str], list[Point]]:
        found: dict[tuple[str, str], list[Point]] = {}
        for point in self.points:
            if point.counts:
                found.setdefault((point.configuration, point.test), []).append(point)
        return found

    def short(self, result: Mapping[str, Any]) -> str:
        """A configuration's name, without the model where there is one only."""
        name = str(result["configuration"])
        return name.removeprefix(f"{result['model']}, ") if len(self.content["models"]) == 1 else name

    def is_flagged(self, result: Mapping[str, Any]) -> bool:
        """Whether something speaks against this result, or against all."""
        return any(flag["configuration"] in ("", result["configuration"]) for flag in self.content["flags"])


@functools.lru_cache(maxsize=1000)
def _configuration(model: str, threads: int, settings: tuple[tuple[str, Any], ...]) -> str:
    return Configuration(model=model, threads=threads, settings=settings).name


def read_measured(folder: Path) -> Measured:
    """Reads the record of a bench, ended or not. Raises InvalidData for what cannot be shown, saying why."""
    try:
        content = read_bench(folder)
    except (UnicodeDecodeError, RecursionError) as error:
        raise InvalidData(f"{folder / RECORD} is no text of JSON: {error}.") from error
    try:
        for result in content["results"]:
            for name in SUMMARY:
                _number(result, name)
    except ValueError as error:
        raise InvalidData(f"{folder / RECORD} has a result that is none: {error}.") from error
    faults: list[str] = []
    points = list(_read_points(folder / FILE, faults))
    said = content["series"]["count"]
    if len(points) < said:
        faults.append(f"only {len(points)} of the {said} samples that the record speaks of are in {FILE}")
    return Measured(folder=folder, content=content, points=points, faults=faults)


def _read_points(path: Path, faults: list[str]) -> Iterator[Point]:
    """All samples; a last line that was cut short is left out and told, for a bench may be stopped at any moment."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    *lines, last = text.split("\n")
    if last:
        faults.append(f"the last line of {path.name} is cut short, and is left out")
    for place, line in enumerate(lines, 1):
        try:
            yield _read_point(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise InvalidData(f"{path}, line {place}, is no sample: {str(error) or repr(error)}.") from error


def _read_point(said: Mapping[str, Any]) -> Point:
    """Keys that are not known here are left alone. Raises what shows that it is no sample."""
    rate, clocks = _number(said, "tokens_per_second"), said.get("cpu_hz") or {}
    seconds = _number(said, "seconds")
    if seconds is None or seconds <= 0 or (rate is not None and rate <= 0):
        raise ValueError("its time or its speed is none")
    settings = tuple((said.get("settings") or {}).items())
    hertz = [value for name in clocks if (value := _number(clocks, name)) is not None]
    return Point(
        position=_count(said, "position"),
        round=_count(said, "round"),
        configuration=_configuration(_word(said, "model"), _count(said, "threads"), settings),
        test=_word(said, "test"),
        tokens=_count(said, "tokens") if said.get("tokens") is not None else None,
        seconds=seconds,
        value=rate if rate is not None else seconds * 1000,
        unit=RATE if rate is not None else TIME,
        at=seconds_at(_word(said, "at")),
        run=_word(said, "run"),
        hottest=_number(said, "hottest"),
        hertz=max(hertz, default=None),
        read_bytes=_number(said, "read_bytes"),
        said=said,
    )


def _number(said: Mapping[str, Any], name: str) -> float | None:
    value = said.get(name)
    if value is None:
        return None
    if not is_number(value):
        raise ValueError(f"{name} is {value!r:.50}")
    return float(value)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value out of a file can be computed with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _count(said: Mapping[str, Any], name: str) -> int:
    value = said[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST:
        raise ValueError(f"{name} is {value!r:.50}")
    return value


def _word(said: Mapping[str, Any], name: str) -> str:
    value = said[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r:.50}")
    return value


def seconds_at(time: str) -> float:
    """Seconds since 1970 of a time as records write it. Raises ValueError."""
    return datetime.fromisoformat(time).timestamp()
