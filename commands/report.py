"""``ohforge report`` and ``ohforge bench.export``: what was measured, for people and for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command

if TYPE_CHECKING:
    from core.session import Session


@command(
    optional_positional="run",
    repeatable=("run",),
    changes=True,
    dry=True,
    help={
        "run": "Folder of the record of a bench or an evaluation, its name below runs/, or latest; may be given again.",
        "output": "File to write; default: report.html or report.md here, report-emulated.… where times are qemu's.",
        "format": "html or md; default: by the ending of --output, else html.",
        "force": "Replace a file that is no report.",
    },
)
def report(
    session: Session,
    run: list[str] | None = None,
    output: str = "",
    format: str = "",
    force: bool = False,
) -> Answer:
    """Make a page of benches and evaluations: verdict, speeds, drawings, right answers, boards, memory, environment."""
    from bench.report.build import ReportRequest, find_shown, make_report, would_report
    from core.dry import tell

    request = ReportRequest(
        records=tuple(find_shown(session, name) for name in run or ()),
        output=output,
        format=format,
        force=force,
    )
    if session.dry:
        return Answer(tell(session.console, would_report(request)))
    made = make_report(session, request)
    session.console.info(f"report: {made.path} ({made.size} bytes)")
    return Answer(
        {
            "report": str(made.path),
            "format": made.format,
            "bytes": made.size,
            "emulated": made.emulated,
            "records": list(run or ()),
            "boards": {record: list(boards) for record, boards in made.boards.items()},
        }
    )


@command(
    positional=("run",),
    changes=True,
    dry=True,
    help={
        "run": "Folder of a bench's record, its name below runs/, or latest.",
        "format": "csv: every sample; md: the results as Markdown; llama-bench: as `llama-bench -o json` prints them.",
        "output": "File to write; default: one here that is called as the record, with `emulated` in its name when it is.",
        "force": "Replace a file that is there.",
    },
)
def export(session: Session, run: str, format: str = "csv", output: str = "", force: bool = False) -> Answer:
    """Write a bench for other programs: samples as CSV, results as Markdown or in llama-bench's own JSON."""
    from bench.record import find_record
    from bench.report.export import export_bench, would_export
    from core.dry import tell

    folder = find_record(session, run)
    if session.dry:
        return Answer(tell(session.console, would_export(folder, format, output, force=force)))
    made = export_bench(folder, format, output, force=force)
    session.console.info(f"export: {made.path} ({made.size} bytes)")
    return Answer({"export": str(made.path), "format": made.format, "bytes": made.size, "emulated": made.emulated})
