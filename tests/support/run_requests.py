"""Runs for tests: a recipe of a program, its record, and what it leaves on the board."""

from __future__ import annotations

import re

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


def folders_left(board: LocalBoard) -> list[str]:
    return [path.name for path in (board.folder / "ohforge/runs").glob("*")]
