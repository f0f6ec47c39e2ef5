"""``study.report``: the page of a study, of what was measured and evaluated so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report.bench_sections import bench_section
from bench.report.build import HTML, ReportRequest, choose_format
from bench.report.comparison import comparison_section
from bench.report.document import BAD, GOOD, NOTE, Block, Cell, Document, Notice, Section, Table, Text
from bench.report.html import GENERATOR, render_html
from bench.report.markdown import render_markdown
from bench.report.measured import Measured, read_measured
from bench.report.svg import drawing
from bench.report.write import check_place, write_page
from bench.study.answers_sections import accuracy_section, comparison_with
from bench.study.evidence import Evidence, gather
from bench.study.latency_sections import latency_section, models_section, settings_section
from bench.study.spec import Study
from bench.study.state import CellState, Progress, StudyFolder, find_progress
from bench.study.versus import Versus, compare_models
from core.dry import Would
from core.session import Session


@dataclass(frozen=True, kw_only=True)
class StudyReportRequest:
    """Where the page is to go; empty text means "not said"."""

    output: str = ""
    format: str = ""
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class StudyReport:
    """A page that was written."""

    path: Path
    size: int
    format: str
    emulated: bool
    progress: Progress
    versus: Versus | None
    """The planned comparison; None when none is planned."""


def report_study(session: Session, study: Study, request: StudyReportRequest) -> StudyReport:
    """Writes the page of what is done. Raises UsageError for a file in the way, InvalidData for a record that cannot be read."""
    progress, benches, evidence = _read(session, study)
    emulated = _is_emulated(benches, evidence)
    form, path = _place(study, request, emulated)
    versus = None
    if "compare" in study.content and "evaluate" in study.content:
        versus = compare_models(study.content["compare"], study.asked["prompts"], evidence, study.compared_settings)
    with drawing(session):
        document = _document(session, study, progress, benches, evidence, versus, emulated)
    text = render_html(document) if form == HTML else render_markdown(document)
    size = write_page(path, text)
    return StudyReport(path=path.resolve(), size=size, format=form, emulated=emulated, progress=progress, versus=versus)


def would_report_study(session: Session, study: Study, request: StudyReportRequest) -> list[Would]:
    """What `report_study` would do. Raises as it does."""
    _, benches, evidence = _read(session, study)
    _, path = _place(study, request, _is_emulated(benches, evidence))
    return [Would(action="write", what=study.title, where=str(path.resolve()))]


def _read(session: Session, study: Study) -> tuple[Progress, list[Measured], Evidence]:
    progress = find_progress(StudyFolder.of(session.settings.runs, study.path), study.cells())
    evidence = gather(progress.done)
    return progress, [read_measured(folder) for folder in evidence.benches.values()], evidence


def _is_emulated(benches: Sequence[Measured], evidence: Evidence) -> bool:
    return any(each.emulated for each in benches) or any(each.emulated for each in evidence.answered)


def _place(study: Study, request: StudyReportRequest, emulated: bool) -> tuple[str, Path]:
    form = choose_format(ReportRequest(records=(), output=request.output, format=request.format))
    mark = "-emulated" if emulated else ""
    path = Path(request.output or f"{study.path.stem}{mark}.{form}").expanduser()
    check_place(path, mark=GENERATOR, force=request.force)
    return form, path


def _document(
    session: Session,
    study: Study,
    progress: Progress,
    benches: Sequence[Measured],
    evidence: Evidence,
    versus: Versus | None,
    emulated: bool,
) -> Document:
    sections = [_state_section(study, progress, emulated)]
    if evidence.answered:
        sections += [models_section(evidence), accuracy_section(evidence)]
        if versus is not None:
            sections.append(comparison_with(versus))
        sections += filter(None, (settings_section(evidence), latency_section(evidence)))
    if len(benches) > 1:
        sections.append(comparison_section(benches))
    for place, measured in enumerate(benches):
        sections.append(bench_section(measured, f"r{place}"))
    return Document(
        title=f"{'EMULATED: ' if emulated else ''}{study.title}",
        lead=f"Report of ohforge on the study {study.path.name}.",
        emulated=emulated,
        sections=sections,
    )


def _state_section(study: Study, progress: Progress, emulated: bool) -> Section:
    return Section(title="The study", blocks=list(_state_blocks(study, progress, emulated)))


def _state_blocks(study: Study, progress: Progress, emulated: bool) -> Iterator[Block]:
    done, failed, left = progress.done, progress.failed, progress.left
    if emulated:
        yield Notice(
            tone=BAD,
            title="EMULATED",
            lines=[
                "Times in it are those of qemu on this computer, and none of a board. What the models answered holds all "
                "the same."
            ],
        )
    if failed or left:
        counted = f"{len(done)} of {len(done) + len(failed) + len(left)} cells are done"
        yield Notice(tone=NOTE, title=f"Not whole: {counted}", lines=["`study.run` goes on with it."])
    else:
        yield Notice(tone=GOOD, title=f"Whole: all {len(done)} cells are done")
    if "compare" in study.content:
        planned = study.content["compare"]
        yield Text(text=f"Planned before: {planned['first']} against {planned['second']}.")
    rows = [_row(state) for state in (*done, *failed)]
    rows += [[Cell(text=cell.title), Cell(text="left"), Cell(text=""), Cell(text="")] for cell in left]
    yield Table(caption="Its cells.", columns=["cell", "state", "minutes", "record"], rows=rows, numeric=frozenset({2}))


def _row(state: CellState) -> list[Cell]:
    record = Path(state.result.get("record") or state.result.get("path") or "").name
    return [
        Cell(text=state.cell.title),
        Cell(text=state.state, tone=GOOD if state.state == "done" else BAD),
        Cell(text=f"{state.seconds / 60:.1f}", value=state.seconds),
        Cell(text=state.error or record),
    ]
