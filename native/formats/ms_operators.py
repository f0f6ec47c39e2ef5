"""The operators of the .ms format, from ``ms_operators.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.data_file import read_data
from core.errors import InvalidData

OLD_SCHEMA_OPERATORS = 200
"""Operators of the schema of OpenHarmony 3.2."""
OPERATORS_FILE = Path(__file__).with_name("ms_operators.yaml")


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator that the format knows; `reference` when our reference runtime computes it."""

    number: int
    name: str
    reference: bool

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
            int(number): Operator(number=int(number), name=str(entry["name"]), reference=entry["reference"] is True)
            for number, entry in entries.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidData(f"{OPERATORS_FILE} must map numbers to name and reference: {error!r}") from error


def find_operator(number: int) -> Operator:
    """The operator of that number; one that the table lacks gets a name made of the number."""
    return known_operators().get(number) or Operator(number=number, name=f"operator {number}", reference=False)
