"""What the end of a program means, in words: from what it printed and its exit status (``<program>/status.yaml``)."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from core.data_file import read_data
from core.errors import InvalidData
from native.programs import PROGRAMS

FILE = "status.yaml"
SHELL_FILE = Path(__file__).with_name("exit_status.yaml")


def _low_byte(code: int) -> int:
    return code & 0xFF


def _add_100(code: int) -> int:
    return code + 100 if code else 0


ENGINE_EXITS: Mapping[str, Callable[[int], int]] = {"low_byte": _low_byte, "add_100": _add_100}
"""How a program turns the engine's status into its own, by the word in ``engine_exit``."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a run ended as it did. `name` and `code` are those of the engine's call `function`, where one failed."""

    sentence: str
    remedy: str
    name: str = ""
    code: int | None = None
    function: str = ""


@dataclass(frozen=True, kw_only=True)
class StatusTable:
    """The statuses of one program."""

    printed: tuple[tuple[re.Pattern[str], Explanation], ...] = ()
    """Lines that say more than any number, and what they mean."""
    failed_call: re.Pattern[str] | None = None
    by_code: Mapping[int, Explanation]
    """By the status that the engine returned."""
    by_exit: Mapping[int, Explanation]
    """By exit status: the engine's, the program's own, the shell's."""


def explain_exit(program: str, exit_status: int, output: str = "") -> Explanation:
    """The meaning of an exit status (0 to 255) of `program`, the name of a recipe or of its only program.

    What was printed counts more than the number, which can have two meanings. A program without a table of its own
    gets the shell's meanings, and an empty sentence for any other status. Raises InvalidData when a table has another form.
    """
    table = load_statuses(program)
    for pattern, explanation in table.printed:
        if exit_status != 0 and pattern.search(output):
            return explanation
    failed = table.failed_call.search(output) if table.failed_call else None
    known = table.by_code.get(int(failed["code"])) if failed else None
    if failed and known and table.by_exit.get(exit_status) == known:
        return replace(known, function=failed["function"])
    return table.by_exit.get(exit_status) or _unknown(exit_status, own=table.failed_call is not None)


@cache
def load_statuses(program: str) -> StatusTable:
    """The table of `program` together with the shell's. Raises InvalidData when one has another form."""
    shell = {int(row["exit"]): _explanation(row) for row in _read(SHELL_FILE, list)}
    file = PROGRAMS / program / FILE
    if not file.is_file():
        return StatusTable(by_code={}, by_exit={0: Explanation(sentence="Done.", remedy=""), **shell})
    value = _read(file, dict)
    try:
        by_code = {int(row["code"]): _explanation(row) for row in value["engine"]}
        to_exit = ENGINE_EXITS[value["engine_exit"]]
        exits = {to_exit(code): explanation for code, explanation in by_code.items()}
        own = {int(row["exit"]): _explanation(row) for row in value["program"]}
        return StatusTable(
            printed=tuple((re.compile(row["pattern"], re.MULTILINE), _explanation(row)) for row in value["printed"]),
            failed_call=re.compile(value["failed_call"], re.MULTILINE),
            by_code=by_code,
            by_exit={**shell, **exits, **own},
        )
    except (KeyError, TypeError, ValueError, re.error) as error:
        raise InvalidData(f"{file} is not a table of statuses: {error!r}") from error


def _read(file: Path, kind: type) -> Any:
    value = read_data(file)
    if not isinstance(value, kind):
        raise InvalidData(f"{file} must hold a {kind.__name__}.")
    return value


def _explanation(row: Mapping[str, Any]) -> Explanation:
    code = row.get("code")
    return Explanation(
        sentence=str(row["sentence"]),
        remedy=str(row["remedy"]),
        name=str(row.get("name", "")),
        code=None if code is None else int(code),
    )


def _unknown(exit_status: int, own: bool) -> Explanation:
    """`own`: the program has a table, in which the status is not."""
    if exit_status > 128:
        number = exit_status - 128
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return Explanation(sentence=f"The program was ended by {name}.", remedy="")
    if own:
        return Explanation(sentence=f"The program ended with status {exit_status}, which it does not use.", remedy="")
    # What the status of any other program means is its own affair.
    return Explanation(sentence="", remedy="")
