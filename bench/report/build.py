"""``report``: records become a page. A new kind of record is a line in `KINDS` with a function that tells of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report.bench_sections import bench_section
from bench.report.comparison import comparison_section
from bench.report.document import Document, Section
from bench.report.html import GENERATOR, render_html
from bench.report.markdown import render_markdown
from bench.report.measured import Measured, read_measured
from bench.report.memory import check_files, memory_blocks
from bench.report.svg import drawing
from bench.report.write import write_page
from core.errors import InvalidData, UsageError, unknown_name
from core.record_folder import FILE
from core.session import Session

HTML, MARKDOWN = "html", "md"
ENDINGS = {".html": HTML, ".htm": HTML, ".md": MARKDOWN, ".markdown": MARKDOWN}
MOST_RECORDS = 26
"""Records of one page; they are called A to Z."""


@dataclass(frozen=True, kw_only=True)
class ReportRequest:
    """What a user asked for. An empty text means "not said"."""

    records: tuple[Path, ...]
    output: str = ""
    format: str = ""
    models: tuple[Path, ...] = ()
    """Files of models that were measured, for what their headers tell."""
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page that was written."""

    path: Path
    size: int
    document: Document
    format: str


def make_report(session: Session, request: ReportRequest) -> Report:
    """Reads the records, draws, and writes the page as a whole.

    Raises UsageError for no record, one twice, or a file in the way that is no report; InvalidData for a record that
    cannot be shown.
    """
    form = choose_format(request)
    if not request.records:
        raise UsageError(
            "There is no record to report on.", remedy="Name one, or latest; `ohforge bench.list` shows them."
        )
    if len({folder.resolve() for folder in request.records}) < len(request.records):
        raise UsageError("A record is named twice.")
    if len(request.records) > MOST_RECORDS:
        raise UsageError(f"A page holds {MOST_RECORDS} records at most.")
    document = build_document(session, request.records, request.models)
    text = render_html(document) if form == HTML else render_markdown(document)
    path = Path(request.output or f"report{'-emulated' if document.emulated else ''}.{form}").expanduser()
    size = write_page(path, text, mark=GENERATOR, force=request.force)
    return Report(path=path.resolve(), size=size, document=document, format=form)


def choose_format(request: ReportRequest) -> str:
    """What was asked for, else by the ending of the output, else HTML. Raises UnknownName."""
    if request.format:
        if request.format not in (HTML, MARKDOWN):
            raise unknown_name("format (--format)", request.format, (HTML, MARKDOWN))
        return request.format
    ending = Path(request.output).suffix.lower()
    if ending and ending not in ENDINGS:
        raise unknown_name("ending of a report", ending, ENDINGS)
    return ENDINGS.get(ending, HTML)


def build_document(session: Session, folders: Sequence[Path], files: Sequence[Path] = ()) -> Document:
    """The page of all these records, in their order. Raises as `make_report`."""
    kinds = [KINDS[kind_of(folder)] for folder in folders]
    measured = [kind.read(folder) for kind, folder in zip(kinds, folders, strict=True)]
    check_files(measured, files)
    with drawing(session):
        sections = [comparison_section(measured)] if len(measured) > 1 else []
        for place, (kind, each) in enumerate(zip(kinds, measured, strict=True)):
            sections.append(kind.section(session, each, files, f"r{place}"))
    emulated = [each for each in measured if each.emulated]
    mark = "" if not emulated else "EMULATED: " if len(emulated) == len(measured) else "EMULATED in part: "
    return Document(
        title=f"{mark}{measured[0].models if len(measured) == 1 else f'{len(measured)} benches'}",
        lead=f"Report of ohforge on {', '.join(each.content['id'] for each in measured)}.",
        emulated=bool(emulated),
        sections=sections,
    )


def kind_of(folder: Path) -> str:
    """What a record is of. Raises InvalidData for one of no kind that can be shown."""
    try:
        content = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidData(
            f"{folder / FILE} is no JSON, perhaps because it was cut short: {error}.", remedy="Measure again."
        ) from error
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind not in KINDS:
        what = f"a {kind!r:.40}" if kind is not None else "a single run, or of nothing that ohforge knows"
        raise InvalidData(
            f"{folder} is the record of {what}; reports are about benches.", remedy="`ohforge bench.list` shows those."
        )
    return str(kind)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How records of a kind are read and told of."""

    read: Callable[[Path], Measured]
    section: Callable[[Session, Measured, Sequence[Path], str], Section]


def _tell_bench(session: Session, measured: Measured, files: Sequence[Path], name: str) -> Section:
    return bench_section(measured, name, memory_blocks(session, measured, files, name))


KINDS: Mapping[str, Kind] = {"bench": Kind(read=read_measured, section=_tell_bench)}
