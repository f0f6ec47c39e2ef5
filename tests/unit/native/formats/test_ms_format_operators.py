"""The table of operators against what the reference runtime's own sources hold."""

from __future__ import annotations

import re

from native.formats.ms_operators import known_operators
from native.programs import PROGRAMS

ENTRY = re.compile(r'^\s*\{(\d+), "(\w+)", (\d+), (\d+), (\d+), \w+, \w+, \w+, \w+\},$', re.MULTILINE)


def test_the_table_says_of_each_operator_what_the_reference_runtime_takes() -> None:
    sources = (PROGRAMS / "runtime" / "mslite").glob("ops_*.c")
    in_runtime = {
        int(number): (name, (int(least), int(most)), int(outputs))
        for path in sources
        for number, name, least, most, outputs in ENTRY.findall(path.read_text())
    }
    assert len(in_runtime) > 40
    assert {
        number: (entry.name, entry.reference.inputs, entry.reference.outputs)
        for number, entry in known_operators().items()
        if entry.reference is not None
    } == in_runtime
    kinds = {entry.reference.takes for entry in known_operators().values() if entry.reference is not None}
    assert kinds == {"floats", "float-first", "numbers", "alike", "any"}
