"""``ohforge data.*``: sets of questions, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command

if TYPE_CHECKING:
    from core.session import Session


@command(name="list", help={})
def list_(session: Session) -> Answer:
    """List the sets of questions that can be had by name, with their licences."""
    from bench.eval.data_sets import list_data

    sets = list_data(session)
    rows = [[s["name"], str(s["items"]), s["licence"], s["title"], s["path"] or "not fetched"] for s in sets]
    session.console.table(["NAME", "QUESTIONS", "LICENCE", "WHAT", "FILE"], rows)
    return Answer({"data_sets": sets})


@command(positional=("name",), changes=True, dry=True, help={"name": "A name that `ohforge data.list` shows."})
def fetch(session: Session, name: str) -> Answer:
    """Fetch a set of questions by name from the first source that has it; its hash is checked."""
    from bench.eval.data_sets import fetch_data, find_data_set, would_fetch_data
    from core.dry import tell

    if session.dry:
        return Answer(tell(session.console, [would_fetch_data(session, name)]))
    data, entry = fetch_data(session, name), find_data_set(name)
    session.console.info(f"{data.path}  sha256 {data.sha256}, {entry.items} questions, licence {data.licence}")
    session.console.info(f"made by {entry.origin}")
    answer = {"name": data.name, "path": str(data.path), "items": entry.items, "licence": data.licence}
    return Answer({**answer, "sha256": data.sha256, "origin": entry.origin})
