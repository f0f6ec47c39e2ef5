"""What a page consists of, whatever it is written as: sections of blocks."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

LONGEST = 300
"""Letters of a text out of a record that are shown."""
UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Categories of characters that are nothing to read: some are not allowed in HTML, others turn the text around."""
GOOD: Final = "good"
BAD: Final = "bad"
NOTE: Final = "note"
Tone = Literal["good", "bad", "note"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of a table. `value` is what rows are sorted by; None: the text."""

    text: str
    value: float | None = None
    tone: Tone | None = None


@dataclass(frozen=True, kw_only=True)
class Text:
    text: str


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something that a reader must not miss."""

    tone: Tone
    title: str
    lines: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names and what they are."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number that says the most, such as the best speed."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Figures:
    figures: Sequence[Figure]


@dataclass(frozen=True, kw_only=True)
class Table:
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: frozenset[int] = frozenset()
    """Places of the columns that hold numbers."""
    sortable: bool = True
    """Whether the order of the rows means nothing."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawing. `told` says in words what it shows, for those who cannot see it."""

    title: str
    told: str
    caption: str
    """What it was measured on, how often, and what the marks are."""
    svg: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A line for a shell."""

    line: str
    note: str


Block = Text | Notice | Facts | Figures | Table | Chart | Command


@dataclass(frozen=True, kw_only=True)
class Section:
    """`parts` are sections below it."""

    title: str
    blocks: Sequence[Block] = ()
    parts: Sequence[Section] = ()


@dataclass(frozen=True, kw_only=True)
class Document:
    title: str
    lead: str
    emulated: bool
    """Whether any number in it is a time of qemu."""
    sections: Sequence[Section]


def readable(text: str, longest: int = LONGEST) -> str:
    """`text` in one line, with a mark for every character that is nothing to read, and cut where it is too long."""
    line = "".join(
        " " if letter in "\r\n\t" else "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in UNSEEN else letter
        for letter in text[: 4 * longest]
    )
    return line if len(line) <= longest else line[: longest - 1] + "…"


def number(value: float | None, unit: str = "") -> str:
    """A number in four digits, for people."""
    if value is None:
        return "not known"
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{digits} {unit}".rstrip()
