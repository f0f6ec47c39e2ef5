"""The table of operators against what the reference runtime's own sources hold."""

from __future__ import annotations

import re

from native.formats.ms_operators import known_operators
from native.programs import PROGRAMS

ENTRY = re.compile(r'^\s*\{(\d+), "(\w+)", \d+, \d+, \d+, \w+, \w+, \w+, \w+\},$', re.MULTILINE)


def operators_of_the_runtime() -> dict[int, str]:
    sources = (PROGRAMS / "runtime" / "mslite").glob("ops_*.c")
    return {int(number): name for path in sources for number, name in ENTRY.findall(path.read_text())}


def test_the_table_says_of_each_operator_whether_the_reference_runtime_has_it() -> None:
    in_runtime = operators_of_the_runtime()
    assert len(in_runtime) > 40
    assert {number: entry.name for number, entry in known_operators().items() if entry.reference} == in_runtime
