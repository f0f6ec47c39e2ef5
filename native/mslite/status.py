"""What the end of mslite means, in words: from what it printed and its exit status (``status.yaml``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import InvalidData

STATUS_FILE = Path(__file__).with_name("status.yaml")
FAILED_CALL = re.compile(r"^(?P<function>OH_AI_\w+) failed, ret: (?P<code>-?\d+)\.\r?$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a run ended as it did. `name` and `code` are the engine's, `function` the call that failed; empty or None
    when the end was not the engine's doing."""

    sentence: str
    remedy: str
    name: str = ""
    code: int | None = None
    function: str = ""


@dataclass(frozen=True, kw_only=True)
class StatusTable:
    """The rows of ``status.yaml``, ready to be looked up."""

    printed: tuple[tuple[re.Pattern[str], Explanation], ...]
    by_code: dict[int, Explanation]
    by_exit: dict[int, Explanation]
    """The program's own statuses and the shell's; those of the engine are found by their code."""


def explain_exit(exit_status: int, output: str = "") -> Explanation:
    """The meaning of an exit status (0 to 255), the printed text first because 255 alone is ambiguous."""
    table = load_table()
    for pattern, explanation in table.printed:
        if pattern.search(output):
            return explanation
    if failed := FAILED_CALL.search(output):
        code = int(failed["code"])
        known = table.by_code.get(code)
        if known is not None and code & 0xFF == exit_status:
            return Explanation(
                sentence=known.sentence, remedy=known.remedy, name=known.name, code=code, function=failed["function"]
            )
    if exit_status in table.by_exit:
        return table.by_exit[exit_status]
    for code, explanation in table.by_code.items():
        if code & 0xFF == exit_status:
            return explanation
    return _unknown(exit_status)


@cache
def load_table() -> StatusTable:
    """Reads ``status.yaml``. Raises InvalidData when it has another form."""
    import yaml

    try:
        value = yaml.safe_load(STATUS_FILE.read_text(encoding="utf-8"))
        return StatusTable(
            printed=tuple((re.compile(row["pattern"], re.MULTILINE), _row(row)) for row in value["printed"]),
            by_code={int(row["code"]): _row(row) for row in value["engine"]},
            by_exit={int(row["exit"]): _row(row) for row in [*value["program"], *value["shell"]]},
        )
    except (yaml.YAMLError, KeyError, TypeError, ValueError, re.error) as error:
        raise InvalidData(f"{STATUS_FILE} is not a table of statuses: {error!r}") from error


def _row(row: dict[str, Any]) -> Explanation:
    code = row.get("code")
    return Explanation(
        sentence=str(row["sentence"]), remedy=str(row["remedy"]), name=str(row.get("name", "")), code=code
    )


def _unknown(exit_status: int) -> Explanation:
    if exit_status > 128:
        return Explanation(sentence=f"The program was ended by signal {exit_status - 128}.", remedy="")
    return Explanation(sentence=f"The program ended with status {exit_status}, which it does not use.", remedy="")
