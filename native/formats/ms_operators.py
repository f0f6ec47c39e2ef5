"""The operators of the .ms format, from ``ms_operators.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.data_file import read_data
from core.errors import InvalidData

OLD_SCHEMA_OPERATORS = 200
"""Operators of the schema of OpenHarmony 3.2."""
OPTIMISERS = ("Adam", "AdamWeightDecay", "ApplyMomentum", "SGD")
OPERATORS_FILE = Path(__file__).with_name("ms_operators.yaml")


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What our reference runtime takes of an operator: least and most inputs, most outputs, data types, attributes."""

    inputs: tuple[int, int]
    outputs: int
    takes: str
    """``floats``, ``float-first``, ``numbers``, ``alike`` or ``any``; the head of the file explains them."""
    values: Mapping[int, tuple[str, frozenset[int]]]
    """Slot of an attribute → its name, and those of its values that are known."""
    rank: int | None
    """How many dimensions the first input must have; None: any."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator that the format knows; `reference` when our reference runtime computes it."""

    number: int
    name: str
    reference: Signature | None

    @property
    def trains(self) -> bool:
        """True for what only a graph for training holds: a gradient, or an optimiser."""
        return "Grad" in self.name or "Backprop" in self.name or self.name in OPTIMISERS

    @property
    def newer(self) -> bool:
        """True when the runtime of OpenHarmony 3.2 cannot know it."""
        return self.number > OLD_SCHEMA_OPERATORS


@cache
def known_operators() -> Mapping[int, Operator]:
    """All operators by their number. Raises InvalidData when the table is not as it should be."""
    entries = read_data(OPERATORS_FILE)
    try:
        return {
            int(number): Operator(
                number=int(number), name=str(entry["name"]), reference=_read_signature(entry["reference"])
            )
            for number, entry in entries.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidData(f"{OPERATORS_FILE} must map numbers to name and reference: {error!r}") from error


def _read_signature(value: Any) -> Signature | None:
    if value is False:
        return None
    least, most = value["inputs"]
    named = [(int(slot), *known) for slot, names in value.get("values", {}).items() for known in names.items()]
    return Signature(
        inputs=(int(least), int(most)),
        outputs=int(value["outputs"]),
        takes=str(value["takes"]),
        values={slot: (str(name), frozenset(map(int, known))) for slot, name, known in named},
        rank=value.get("rank"),
    )


def find_operator(number: int) -> Operator:
    """The operator of that number; one that the table lacks gets a name made of the number."""
    return known_operators().get(number) or Operator(number=number, name=f"operator {number}", reference=None)
