"""``ohforge study.*``: many benches and evaluations as one file, done once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command
from commands.words import SCHEDULER_HELP, read_boards
from core.errors import RunError, UsageError

if TYPE_CHECKING:
    from bench.study.spec import Study
    from core.session import Session

MOST_BOARDS = 10_000
FILE_HELP = "The study: a YAML file such as studies/demo.yaml."


def _read(file: str) -> Study:
    from pathlib import Path

    from bench.study.doers import identify_source
    from bench.study.spec import read_study

    return read_study(Path(file).expanduser(), identify_source)


def _read_counts(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdigit() and 0 < int(word) <= MOST_BOARDS for word in words):
        raise UsageError(f"--boards {text!r} are no numbers of boards.", remedy="Write them like 1,10,100.")
    return tuple(dict.fromkeys(map(int, words)))


@command(
    positional=("file",),
    help={
        "file": FILE_HELP,
        "hours": "Also list ways to bring what is left below so many hours, and what each costs.",
        "boards": "Also say how long it takes with so many boards in place of each, such as 1,10,100.",
    },
)
def plan(session: Session, file: str, hours: float = 0.0, boards: str = "") -> Answer:
    """Say what of a study is left to do, with tokens, hours and the width of intervals as far as they are known."""
    from bench.study.forecast import plan_study
    from commands.show_study import show_plan

    if hours < 0:
        raise UsageError(f"--hours {hours:g} is no time.", remedy="Name hours above 0.")
    planned = plan_study(session, _read(file), hours, _read_counts(boards))
    show_plan(session.console, planned)
    return Answer(planned.as_json())


@command(
    positional=("file",),
    changes=True,
    dry=True,
    help={
        "file": FILE_HELP,
        "boards": "Boards that work at once: those of the study do their own cells, others help it to answer. Needs Dask.",
        "scheduler": SCHEDULER_HELP,
    },
)
def run(session: Session, file: str, boards: str = "", scheduler: str = "") -> Answer:
    """Do what is left of a study, cell by cell; it goes on after any end, and what fails does not stop the others."""
    from bench.study.crew import Crew
    from bench.study.doers import WAYS, ways_of
    from bench.study.run import run_study, would_run
    from bench.study.state import StudyFolder
    from commands.show_study import show_progress
    from core.dry import tell

    study = _read(file)
    folder = StudyFolder.of(session.settings.runs, study.path)
    if session.dry:
        return Answer(tell(session.console, would_run(folder, study)))
    named = read_boards(boards, scheduler)
    crew = Crew.of(study, named, scheduler) if named else None
    progress = run_study(session, study, WAYS if crew is None else ways_of(crew), crew)
    show_progress(session.console, progress, folder.path)
    status = 0 if not progress.failed else RunError.category.value
    return Answer({"record": str(folder.path), "cells": progress.as_json()}, exit_status=status)


@command(positional=("file",), help={"file": FILE_HELP})
def status(session: Session, file: str) -> Answer:
    """Say which cells of a study are done, which failed and why, and which are left."""
    from bench.study.state import StudyFolder, find_progress
    from commands.show_study import show_progress

    study = _read(file)
    folder = StudyFolder.of(session.settings.runs, study.path)
    progress = find_progress(folder, study.cells())
    show_progress(session.console, progress, folder.path)
    return Answer({"record": str(folder.path), "cells": progress.as_json()})


@command(
    positional=("file",),
    changes=True,
    dry=True,
    help={
        "file": FILE_HELP,
        "output": "File to write; default: one here that is called as the study, with -emulated where times are qemu's.",
        "format": "html or md; default: by the ending of --output, else html.",
        "force": "Replace a file that is no report.",
    },
)
def report(session: Session, file: str, output: str = "", format: str = "", force: bool = False) -> Answer:
    """Make the page of a study: right answers against tokens and seconds, the planned comparison, and every bench."""
    from bench.study.report import StudyReportRequest, report_study, would_report_study
    from core.dry import tell

    study = _read(file)
    request = StudyReportRequest(output=output, format=format, force=force)
    if session.dry:
        return Answer(tell(session.console, would_report_study(session, study, request)))
    made = report_study(session, study, request)
    session.console.info(f"report: {made.path} ({made.size} bytes)")
    answer = {"report": str(made.path), "format": made.format, "bytes": made.size, "emulated": made.emulated}
    comparison = made.versus.as_json() if made.versus is not None else None
    return Answer({**answer, "cells": made.progress.as_json(), "comparison": comparison})
