"""A document as Markdown: its tables and words; drawings are told in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bench.report.document import (
    Block,
    Chart,
    Command,
    Document,
    Facts,
    Figures,
    Notice,
    Section,
    Table,
    Text,
    readable,
)
from bench.report.html import GENERATOR, LONGEST

MARK = f"<!-- {GENERATOR} -->"


def render_markdown(document: Document) -> str:
    lines = [MARK, "", f"# {escape(document.title)}", "", escape(document.lead), ""]
    for section in document.sections:
        lines += _section(section, 2)
    return "\n".join(lines).rstrip() + "\n"


def escape(text: str) -> str:
    """`text` as it stands, though some of it would mean something in Markdown or HTML."""
    line = re.sub(r"([\\`*_{}\[\]<>#|~&!$])", r"\\\1", readable(text, LONGEST))
    return re.sub(r"^(\s*)([-+]|\d+[.)])(?=\s|$)", r"\1\\\2", line)


def _section(section: Section, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {escape(section.title)}", "")
    for block in section.blocks:
        yield from (*_block(block), "")
    for part in section.parts:
        yield from _section(part, level + 1)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Text(text=text):
            yield escape(text)
        case Notice(title=title, lines=lines):
            yield f"> **{escape(title)}**"
            for line in lines:
                yield from (">", f"> {escape(line)}")
        case Figures(figures=figures):
            yield from (f"- {escape(each.name)}: **{escape(each.value)}** ({escape(each.note)})" for each in figures)
        case Facts(rows=rows):
            yield from _table(("", ""), rows, frozenset())
        case Table(caption=caption, columns=columns, rows=cells, numeric=numeric):
            yield from (escape(caption), "")
            yield from _table(columns, [[cell.text for cell in row] for row in cells], numeric)
        case Chart(told=told, caption=caption):
            yield f"**Drawing** ({escape(caption)}) {escape(told)}"
        case Command(line=line, note=note):
            yield from ("```sh", readable(line, LONGEST), "```", "", escape(note))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: frozenset[int]) -> Iterator[str]:
    yield f"| {' | '.join(map(escape, columns))} |"
    yield f"|{'|'.join('---:' if place in numeric else '---' for place in range(len(columns)))}|"
    for row in rows:
        yield f"| {' | '.join(map(escape, row))} |"
