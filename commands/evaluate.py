"""``ohforge eval.*``: how often language models answer right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command

if TYPE_CHECKING:
    from core.session import Session


@command(
    positional=("file",),
    help={"file": "JSON lines, each with text, gold and optionally truncated (true or false) and id."},
)
def grade(session: Session, file: str) -> Answer:
    """Judge answers that are there already, strictly and leniently; with --json one verdict a line."""
    from pathlib import Path

    from bench.eval.grade_file import grade_file
    from bench.eval.grading import tally
    from commands.show_eval import show_tally, tell_lines
    from core.errors import InvalidData

    broken: list[int] = []
    show_tally(session.console, tally(tell_lines(session.console, grade_file(Path(file).expanduser()), broken)))
    return Answer(exit_status=InvalidData.category.value if broken else 0, by_lines=True)
