"""The table of faults and operations as it follows from ``tests/data/fault_rules.yaml``, without any code of ohforge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parents[1] / "data" / "fault_rules.yaml"
Table = dict[str, dict[str, str]]


def load_rules() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text()))


def derive_table(rules: dict[str, Any]) -> Table:
    """For each fault what becomes of each operation: ``ok`` or the error with its status, and what is left of it."""
    rows = {**{name: (name, 1) for name in rules["faults"]}, **_later(rules)}
    return {
        row: {operation: _cell(rules, fault, operation, first) for operation in rules["operations"]}
        for row, (fault, first) in rows.items()
    }


def expected_table(rules: dict[str, Any]) -> Table:
    """What the rules say, but for the deviations, each of which has a reason."""
    table = derive_table(rules)
    for row, cells in rules["deviations"].items():
        for operation, deviation in cells.items():
            table[row][operation] = deviation["cell"]
    return table


def _later(rules: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {row: (row.removesuffix(" later"), first) for row, first in rules["later"].items()}


def _cell(rules: dict[str, Any], fault: str, operation: str, first: int) -> str:
    rule = rules["faults"][fault]
    listed = rule.get("listed", "connected")
    if operation in ("list", "choose") and not rule.get("server", True):
        return _shown(rules, rules["known"][rule["shows"]], [])
    if operation == "list":
        return f"ok ({listed})"
    if operation == "choose":
        return str(rules["choose"][listed])
    error, left = _carry_out(rules, rule, rules["operations"][operation], first)
    if operation == "shell" and not error:
        left = []  # its status is known
    if operation == "run":
        left = [f"record: {rules['errors'][error]['record'] if error else 'done'}", *left]
    return _shown(rules, error, left)


def _carry_out(
    rules: dict[str, Any], rule: dict[str, Any], steps: list[dict[str, Any]], first: int
) -> tuple[str, list[str]]:
    """The error in which the steps end, empty for none, and what is left then."""
    left = [what for step in steps for what in step.get("removes", [])]
    for number, step in enumerate(steps, 1):
        spoilt = number >= first and _meets(rule, step)
        repeated = rule.get("once") and (step["step"] == "ask" or number > 1)
        spoilt = spoilt and not repeated
        if not spoilt or rule.get("done"):
            left = step.get("leaves", [] if "removes" in step else left)
        if spoilt:
            return rules["known"][rule["shows"]], left
    return "", left


def _meets(rule: dict[str, Any], step: dict[str, Any]) -> bool:
    meets = rule.get("meets", [])
    return step["step"] in meets or ("writes" in meets and (step["step"] == "send" or "removes" in step))


def _shown(rules: dict[str, Any], error: str, left: list[str]) -> str:
    how = f"{error} {rules['errors'][error]['status']}" if error else "ok"
    return how + (f" ({', '.join(left)})" if left else "")
