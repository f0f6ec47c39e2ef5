"""Runs for tests: a recipe of a program, its record, and what it leaves on the board."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from core.errors import OhforgeError
from deploy.record import validate_record
from deploy.run import RunOutcome
from native.runspec import MetricPattern, RunSpec
from tests.support.local_board import LocalBoard

SPEC = RunSpec(
    model="gguf",
    product="program",
    arguments=(),
    metrics=(MetricPattern(pattern=re.compile(r"speed = (?P<speed>[\w.]+)"), units={"speed": "tokens/s"}),),
    facts=(re.compile(r"cpu: (?P<cpu>.*)"),),
    complete=(re.compile(r"^the end$", re.MULTILINE),),
)


def read_record(where: RunOutcome | OhforgeError) -> dict[str, Any]:
    folder = where.record if isinstance(where, RunOutcome) else Path(where.details["record"])
    content = json.loads((folder / "record.json").read_text())
    validate_record(content)
    return dict(content)


def folders_left(board: LocalBoard) -> list[str]:
    return [path.name for path in (board.folder / "ohforge/runs").glob("*")]
