"""Which errors may be passed over, and which never."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.eval.servers import Server
from core.errors import Failure, Interrupted, LostConnection, all_errors

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("core", "toolchains", "native", "deploy", "bench", "commands")


def test_all_errors_but_the_users_own_stop_are_failures() -> None:
    assert [error.__name__ for error in all_errors() if not issubclass(error, Failure)] == ["Interrupted"]


def passed_over() -> Iterator[str]:
    """Where something of the product's source goes on after it has caught every OhforgeError."""
    for path in (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            if "OhforgeError" in map(ast.unparse, call.args) and ast.unparse(call.func).endswith("suppress"):
                yield f"{path.relative_to(ROOT)}:{call.lineno}"


def test_nothing_suppresses_an_interruption() -> None:
    assert list(passed_over()) == []


def test_a_server_that_is_asked_what_it_uses_passes_ctrl_c_on() -> None:
    def end_with(error: Exception) -> Server:
        def use() -> None:
            raise error

        nothing: Any = None
        return Server(endpoint=nothing, asker=nothing, model={}, about={}, check=nothing, use=use)

    assert end_with(LostConnection("The link is cut.")).used() is None
    with pytest.raises(Interrupted):
        end_with(Interrupted("Interrupted.")).used()
