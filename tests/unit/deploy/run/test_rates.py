"""What a board's answer to `board.info --measure` means, and when it is forgotten."""

from __future__ import annotations

import json

import pytest

from core.errors import AgentUnavailable, BoardError
from core.session import Session
from deploy.agent.agent import NoAgent
from deploy.run import rates
from deploy.run.rates import measure_rates, read_rates
from tests.support.local_board import LocalBoard

ANSWER = {
    "threads": 4,
    "buffer_bytes": 67_108_864,
    "file_bytes": 67_108_864,
    "copied": [3_000_000_000, 3_100_000_000, 2_000_000_000],
    "read": [150_000_000, 161_600_000, 170_000_000],
    "cached": 0.0,
    "errno": 0,
}


def read(**changed: object) -> rates.Rates:
    return read_rates(json.dumps(ANSWER | changed), emulated=False, system={})


def test_copying_counts_both_ways_and_the_median_is_taken() -> None:
    found = read()
    assert (found.memory, found.storage, found.storage_why) == (6_000_000_000, 161_600_000, "")
    assert found.copied == (3e9, 3.1e9, 2e9)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"cached": 1.0}, "100% of the file stayed in memory"),
        ({"cached": -1}, "does not tell which pages"),
        ({"read": [], "errno": 28}, "errno 28"),
    ],
)
def test_a_rate_of_the_storage_that_could_not_be_measured_is_unknown_and_never_0(
    changed: dict[str, object], why: str
) -> None:
    found = read(**changed)
    assert found.storage is None
    assert why in found.storage_why
    assert found.memory == 6_000_000_000


def test_memory_that_could_not_be_copied_is_unknown() -> None:
    assert read(copied=[]).memory is None


@pytest.mark.parametrize("text", ["", "[]", '{"copied": [1]}', '{"copied": 1, "read": 2}', "not found"])
def test_another_answer_is_an_error(text: str) -> None:
    with pytest.raises(BoardError, match="cannot be understood"):
        read_rates(text, emulated=False, system={})


def test_a_board_without_an_agent_is_told_why(
    session: Session, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = LocalBoard(tmp_path_factory.mktemp("board"))
    monkeypatch.setattr(rates, "find_agent", lambda *_, **__: NoAgent(reason="it does not run there"))
    with pytest.raises(AgentUnavailable, match="it does not run there"):
        measure_rates(session, board)
