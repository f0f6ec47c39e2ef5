"""How answers look to people, and how a few words of the command line are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from core.errors import UsageError
from core.files import human_bytes

if TYPE_CHECKING:
    from core.console import Console
    from deploy.run import RunOutcome


def show_outcome(console: Console, outcome: RunOutcome) -> None:
    """The end of a run: its metrics, labelled with how they came about, and where the record is."""
    how = "emulated: says nothing about a real board" if outcome.emulated else "measured on the board"
    for name, metric in outcome.metrics.items():
        console.info(f"{name.replace('_', ' ')}: {metric['value']:g} {metric['unit']} ({how})")
    if outcome.exit_code:
        console.warn(f"the program ended with status {outcome.exit_code}")
    if not outcome.complete:
        console.warn("the end of the program's output is missing, so its figures may be too")
    for path in outcome.outputs:
        console.info(f"output: {path}")
    console.info(f"record: {outcome.record}")


def show_board(console: Console, facts: Mapping[str, Any]) -> None:
    """A board's facts, one a line."""
    rows = [[name.replace("_", " "), _fact(name, value)] for name, value in facts.items() if name != "cpuinfo"]
    console.table(["FACT", "VALUE"], rows)
    for difference in facts["differs"]:
        console.warn(f"the profile {facts['profile']} does not fit: {difference}")


def _fact(name: str, value: Any) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return human_bytes(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={entry}" for key, entry in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def read_parameters(words: Iterable[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping. Raises UsageError for a word of another form."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise UsageError(f"--param {word!r} is not of the form NAME=VALUE.")
        found[name] = value
    return found
