"""``report``: records become a page. A new kind of record is a line in `KINDS` with a function that tells of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.record import find_record
from bench.report.asked import asked_sections, boards_of_answers, read_asked
from bench.report.bench_sections import bench_section
from bench.report.comparison import comparison_section
from bench.report.document import Document, Section
from bench.report.html import GENERATOR, render_html
from bench.report.markdown import render_markdown
from bench.report.measured import Measured, read_measured
from bench.report.spread import boards_of_bench, read_spread, spread_sections
from bench.report.svg import drawing
from bench.report.write import check_place, write_page
from core.dry import Would
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
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """A page that was written."""

    path: Path
    size: int
    emulated: bool
    format: str
    boards: Mapping[str, Sequence[Mapping[str, Any]]]
    """By the records' ids, what each board has done, where several did."""


def make_report(session: Session, request: ReportRequest) -> Report:
    """Reads the records, draws, and writes the page as a whole.

    Raises UsageError for no record, one twice, or a file in the way that is no report; UnknownName for another format;
    InvalidData for a record that cannot be shown.
    """
    plan = _plan(request)
    document = _build_document(session, plan)
    text = render_html(document) if plan.format == HTML else render_markdown(document)
    size = write_page(plan.path, text)
    pairs = zip(plan.kinds, plan.measured, strict=True)
    boards = {each.content["id"]: found for kind, each in pairs if (found := kind.boards(each))}
    return Report(path=plan.path.resolve(), size=size, emulated=document.emulated, format=plan.format, boards=boards)


def would_report(request: ReportRequest) -> list[Would]:
    """What `make_report` would do. Raises as it does."""
    plan = _plan(request)
    return [Would(action="write", what=_title(plan.measured), where=str(plan.path.resolve()))]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What was read, and where the page is to go."""

    kinds: Sequence[Kind]
    measured: Sequence[Shown]
    format: str
    path: Path


def _plan(request: ReportRequest) -> _Plan:
    form = choose_format(request)
    if not request.records:
        raise UsageError(
            "There is no record to report on.", remedy="Name one, or latest; `ohforge bench.list` shows them."
        )
    if len({folder.resolve() for folder in request.records}) < len(request.records):
        raise UsageError("A record is named twice.")
    if len(request.records) > MOST_RECORDS:
        raise UsageError(f"A page holds {MOST_RECORDS} records at most.")
    kinds = [KINDS[kind_of(folder)] for folder in request.records]
    measured = [kind.read(folder) for kind, folder in zip(kinds, request.records, strict=True)]
    mark = "-emulated" if any(each.emulated for each in measured) else ""
    path = Path(request.output or f"report{mark}.{form}").expanduser()
    check_place(path, mark=GENERATOR, force=request.force)
    return _Plan(kinds=kinds, measured=measured, format=form, path=path)


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


def _build_document(session: Session, plan: _Plan) -> Document:
    measured = plan.measured
    with drawing(session):
        benches = [each for each in measured if isinstance(each, Measured)]
        sections = [comparison_section(benches)] if len(benches) > 1 else []
        for place, (kind, each) in enumerate(zip(plan.kinds, measured, strict=True)):
            sections += kind.sections(each, f"r{place}")
    return Document(
        title=_title(measured),
        lead=f"Report of ohforge on {', '.join(each.content['id'] for each in measured)}.",
        emulated=any(each.emulated for each in measured),
        sections=sections,
    )


def _title(measured: Sequence[Shown]) -> str:
    emulated = sum(each.emulated for each in measured)
    mark = "" if not emulated else "EMULATED: " if emulated == len(measured) else "EMULATED in part: "
    return f"{mark}{measured[0].models if len(measured) == 1 else f'{len(measured)} records'}"


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
            f"{folder} is the record of {what}; reports are about benches and evaluations.",
            remedy="`ohforge bench.list` shows benches.",
        )
    return str(kind)


class Shown(Protocol):
    """A record that was read, as far as every page needs it."""

    @property
    def content(self) -> Mapping[str, Any]: ...
    @property
    def emulated(self) -> bool: ...
    @property
    def models(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How records of a kind are read and told of. The other functions take what `read` gives."""

    read: Callable[[Path], Shown]
    sections: Callable[[Any, str], Sequence[Section]]
    boards: Callable[[Any], Sequence[Mapping[str, Any]]] = lambda shown: ()
    """What each board has done, for scripts; nothing where one board did all."""


KINDS: Mapping[str, Kind] = {
    "bench": Kind(read=read_measured, sections=lambda measured, name: [bench_section(measured, name)]),
    "bench-parts": Kind(read=read_spread, sections=spread_sections, boards=boards_of_bench),
    "eval": Kind(read=read_asked, sections=asked_sections, boards=boards_of_answers),
}


def find_shown(session: Session, name: str) -> Path:
    """The folder of a record that can be shown, by path or as it is called below ``runs/``; ``latest``: the newest one.

    Raises UsageError.
    """
    if name == "latest":
        for file in sorted(session.settings.runs.glob(f"*/{FILE}"), reverse=True):
            with contextlib.suppress(InvalidData, OSError):
                kind_of(file.parent)
                return file.parent
    return find_record(session, name)
