"""Runs for tests: a recipe of a program, its record, and what it leaves on the board."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from deploy.run.options import RunOptions
from deploy.run.request import RunRequest
from deploy.transfer.placement import FileToPlace
from native.recipe.runspec import MetricPattern, RunSpec
from tests.support.local_board import LocalBoard

SPEC = RunSpec(
    model="gguf",
    product="program",
    arguments=(),
    metrics=(MetricPattern(pattern=re.compile(r"speed = (?P<speed>[\w.]+)"), units={"speed": "tokens/s"}),),
    facts=(re.compile(r"cpu: (?P<cpu>.*)"),),
    complete=(re.compile(r"^the end$", re.MULTILINE),),
)


def make_request(program: Path, **changes: Any) -> RunRequest:
    """A run of the file `program` under its own name; `further` are files beside it, the rest fields and options."""
    file = FileToPlace(local=program, name=program.name, executable=True)
    options = {field.name for field in dataclasses.fields(RunOptions)} & set(changes)
    values: dict[str, Any] = {
        "program": "demo",
        "engine": "demo 1.0",
        "executable": program.name,
        "files": (file, *changes.pop("further", ())),
        "options": RunOptions(**{"timeout": 20.0, **{name: changes.pop(name) for name in options}}),
    }
    return RunRequest(**{**values, **changes})


def folders_left(board: LocalBoard) -> list[str]:
    return [path.name for path in (board.folder / "ohforge/runs").glob("*")]
