"""How a recipe's program is run with a model: its command line, and what its output says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from core.errors import UsageError, unknown_name
from native.recipe.flags import Flag

Value = str | int | float
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, kw_only=True)
class MetricPattern:
    """A regular expression whose named groups are metrics; `units` gives each one's unit."""

    pattern: re.Pattern[str]
    units: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One number that a program printed."""

    value: float
    unit: str


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One ``run`` section of a recipe: which program runs models of one kind, and how."""

    model: str
    """Kind of model file: ``gguf``, ``ms``."""
    product: str
    """Name of the product that is started."""
    arguments: tuple[tuple[str, ...], ...]
    """Groups of words with placeholders; a group whose placeholder is empty is left out."""
    defaults: Mapping[str, Value] = field(default_factory=dict)
    """Parameters and what they are when nothing is said."""
    flags: tuple[Flag, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    """Glob patterns, below the working directory, of files that the program leaves."""
    merged_output: bool = False
    """Whether the patterns need standard output and error in the order of writing, as in one file."""
    metrics: tuple[MetricPattern, ...] = ()
    facts: tuple[re.Pattern[str], ...] = ()
    """Patterns whose named groups are texts worth keeping, such as the CPU features that the program found."""
    complete: tuple[re.Pattern[str], ...] = ()
    """Patterns that must all be in the output of a run that was not cut short, whatever its exit status."""

    def command(self, model: str, parameters: Mapping[str, Value] | None = None) -> list[str]:
        """The arguments for `model` (its path on the board), with `parameters` in place of the defaults.

        Raises UnknownName for a parameter that the section lacks, UsageError for text where a number belongs.
        """
        values: dict[str, Value] = {**self.defaults, "model": model}
        for name, value in (parameters or {}).items():
            values[name] = _checked(name, value, self.defaults)
        words: list[str] = []
        for group in self.arguments:
            if all(str(values[name]) for word in group for name in PLACEHOLDER.findall(word)):
                words += [fill(word, values) for word in group]
        return words

    def read_metrics(self, output: str) -> dict[str, Metric]:
        """The numbers in a program's output; of several matches the last counts, ``inf`` and ``nan`` never do."""
        found: dict[str, Metric] = {}
        for metric in self.metrics:
            for match in metric.pattern.finditer(output):
                for name, unit in metric.units.items():
                    number = _number(match[name])
                    if number is not None:
                        found[name] = Metric(value=number, unit=unit)
        return found

    def read_facts(self, output: str) -> dict[str, str]:
        """The texts that `facts` find in a program's output; of several matches the last counts."""
        return {
            name: text
            for pattern in self.facts
            for match in pattern.finditer(output)
            for name, text in match.groupdict(default="").items()
        }

    def missing_proof(self, output: str) -> list[str]:
        """The patterns of `complete` that `output` lacks; empty when it is whole.

        A program may end with status 0 and still have lost its last lines, so the status proves nothing.
        """
        return [pattern.pattern for pattern in self.complete if not pattern.search(output)]


def fill(text: str, values: Mapping[str, Value]) -> str:
    """Puts `values` in place of ``{name}``; what a value contains is not looked at again, what has none stays."""
    return PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), text)


def find_unknown_placeholders(text: str, known: Mapping[str, object]) -> Iterator[str]:
    """A sentence for each placeholder of `text` that is not among `known`."""
    for name in PLACEHOLDER.findall(text):
        if name not in known:
            yield unknown_name("placeholder", name, known).message


def _checked(name: str, value: Value, defaults: Mapping[str, Value]) -> Value:
    if name not in defaults:
        raise unknown_name("run parameter", name, defaults)
    if isinstance(defaults[name], str) or value == "":
        return value
    kind = type(defaults[name])
    try:
        return kind(value)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise UsageError(f"The run parameter {name} must be {what}, not {value!r}.") from None


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
