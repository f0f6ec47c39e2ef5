"""Two benches against each other: only what was measured under like conditions is compared, unless that is asked for."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.conditions import clocks_of
from bench.plan import Configuration, Value
from bench.record import read_bench
from bench.series import is_better, read_series
from bench.stats import compare_medians
from core.errors import InvalidData, UnlikeRecords

LONGEST = 60
HASH = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{56}\b")
NEEDED = {"state": "done", "valid": True}
"""What both records must be, and not only alike."""


@dataclass(frozen=True, kw_only=True)
class Unlike:
    """A condition that is not the same, or not what it must be."""

    key: str
    a: Any
    b: Any

    @property
    def sentence(self) -> str:
        if self.a == self.b:
            return f"{self.key}: {_shown(self.a)} in both"
        return f"{self.key}: {_shown(self.a)} against {_shown(self.b)}"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that both have measured. Medians in `unit`; the change is that from A to B as a share of A."""

    model: str
    threads: int
    settings: dict[str, Value]
    test: str
    a: float
    b: float
    change: float
    low: float | None
    high: float | None
    """With `low` the 95 % interval of the change; None for too few samples."""
    unit: str

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves no doubt which one is faster."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def is_faster(self) -> bool:
        """Whether B is the faster one."""
        return is_better(self.b, self.a, self.unit)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    differs: tuple[Unlike, ...]
    differences: tuple[Difference, ...]
    emulated: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "comparable": not self.differs,
            "emulated": self.emulated,
            "differs": [asdict(entry) for entry in self.differs],
            "differences": [{**asdict(entry), "clear": entry.is_clear} for entry in self.differences],
        }


def compare_benches(first: Path, second: Path, *, anyway: bool = False) -> Comparison:
    """Compares the bench in folder `second` with that in `first`.

    Raises UnlikeRecords, unless `anyway`, when a condition of R8 differs, and in any case when nothing was measured in
    both; InvalidData for what is no bench's record, or one of another version.
    """
    a, b = read_bench(first), read_bench(second)
    differs = find_unlike(a, b)
    if differs and not anyway:
        raise UnlikeRecords(
            f"{first.name} and {second.name} are not alike: {'; '.join(entry.sentence for entry in differs)}.",
            comparable=False,
            differs=[asdict(entry) for entry in differs],
        )
    differences = tuple(_differences(a, b, first, second))
    if not differences:
        raise UnlikeRecords(f"{first.name} and {second.name} have measured nothing in common.", remedy="")
    emulated = any(content["board"]["emulated"] for content in (a, b))
    return Comparison(differs=tuple(differs), differences=differences, emulated=emulated)


def find_unlike(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Unlike]:
    """All conditions that stand against a comparison."""
    keys_of_a, keys_of_b = conditions_of(a), conditions_of(b)
    found = [Unlike(key=key, a=a[key], b=b[key]) for key, value in NEEDED.items() if a[key] != value or b[key] != value]
    return found + [
        Unlike(key=key, a=keys_of_a[key], b=keys_of_b[key]) for key in keys_of_a if keys_of_a[key] != keys_of_b[key]
    ]


def conditions_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same in two benches whose numbers are compared; the serial is not among it."""
    board, before = content["board"], content["conditions"]["before"] or {}
    facts, program = board["facts"] or {}, content["program"] or {}
    artifact = program.get("artifact") or {}
    return {
        "emulated": board["emulated"],
        "board": board["profile"],
        "machine": facts.get("machine"),
        "CPU features": facts.get("cpu_features"),
        "memory": facts.get("memory_bytes"),
        "online CPUs": before.get("online_cpus"),
        "clocks": clocks_of(before),
        "pinned clocks": content["pin"]["policies"] if content["pin"]["held"] else None,
        "instrument": content["instrument"],
        "engine": content["engine"],
        "computed by": content["computed_by"],
        "arch": artifact.get("arch"),
        "CPU tuning": artifact.get("cpu"),
        "program": program.get("sha256"),
        "models": [[model["sha256"], *model.get("pieces", ())] for model in content["models"]],
        "prompt tokens": content["plan"]["n_prompt"],
        "generated tokens": content["plan"]["n_gen"],
        "loops": content["plan"].get("loops", 0),
    }


Key = tuple[int, Configuration, str]
"""Place of the model in the call, the configuration without its name, and the test."""


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], first: Path, second: Path) -> list[Difference]:
    """Matches results by the place of their model in the call, configuration and test."""
    values_of_a, values_of_b = _values(a, first), _values(b, second)
    found = []
    for key, (values, unit) in values_of_a.items():
        if key not in values_of_b:
            continue
        place, configuration, test = key
        others = values_of_b[key][0]
        change, low, high = compare_medians(values, others)
        names = dict.fromkeys(content["models"][place]["name"] for content in (a, b))
        found.append(
            Difference(
                model=" / ".join(names),
                threads=configuration.threads,
                settings=dict(configuration.settings),
                test=test,
                a=statistics.median(values),
                b=statistics.median(others),
                change=change,
                low=low,
                high=high,
                unit=unit,
            )
        )
    return found


def _values(content: Mapping[str, Any], folder: Path) -> dict[Key, tuple[list[float], str]]:
    samples = read_series(folder)
    if len(samples) != content["series"]["count"]:
        raise InvalidData(
            f"{folder} has {len(samples)} samples, and its record speaks of {content['series']['count']}: it was cut short."
        )
    places = {model["name"]: place for place, model in enumerate(content["models"])}
    values: dict[Key, tuple[list[float], str]] = {}
    for sample in samples:
        if sample.counts:
            key = (places[sample.model], dataclasses.replace(sample.configuration, model=""), sample.test)
            values.setdefault(key, ([], sample.unit))[0].append(sample.value)
    return values


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "not known", True: "yes", False: "no"}[value]
    text = HASH.sub(r"\1…", str(value))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
