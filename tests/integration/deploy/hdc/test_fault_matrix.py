"""Every fault with every operation: the client says ``ok`` only when it is, and nothing hangs. docs/emulated-board.md shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.patience import Patience
from deploy.board import survey as inspect
from deploy.hdc import board as hdc
from deploy.hdc import targets
from deploy.transfer import chunks
from tests.shared.fault_rules import derive_table, expected_table, load_rules
from tests.support.fault_matrix import CHUNK, HANGING, OPERATIONS, ROWS, Bench

HURRY, PATIENCE = (5.0, 25.0), (90.0,)
"""Deadlines in seconds where they must expire, and where they must not. What comes before the fault must be done within
them, so there is a longer one for a machine that is busy."""


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Bench]]:
    """A board for each operation, so that waiting for a deadline with one does not hold up the others."""
    root = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        # Other tests' homes are named by variables, these by settings.
        for name in ("OHFORGE_DATA_DIR", "OHFORGE_CACHE_DIR", "OHFORGE_EMULATOR_HOME"):
            patch.delenv(name, raising=False)
        found = dict(
            zip(OPERATIONS, pool.map(lambda name: Bench(root / name.replace(" ", "-")), OPERATIONS), strict=True)
        )
    yield found
    for bench in found.values():
        bench.close()


def try_each(benches: dict[str, Bench], monkeypatch: pytest.MonkeyPatch, fault: str, seconds: float) -> dict[str, str]:
    """What the fault does to each operation; all are tried at once."""
    for name in ("OHFORGE_DATA_DIR", "OHFORGE_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hdc, "RETRIES", Patience(pause=0.01, times=3))
    monkeypatch.setattr(hdc, "STOP_SECONDS", 3.0 if fault in HANGING else 15.0)
    monkeypatch.setattr(inspect, "SURVEY_SECONDS", seconds)
    monkeypatch.setattr(targets, "LIST_SECONDS", seconds)
    monkeypatch.setattr(hdc, "RESTARTS", Patience(pause=0.01, times=6))
    monkeypatch.setattr(chunks, "CHUNKED_FROM", CHUNK)
    monkeypatch.setattr(chunks, "SMALLEST_CHUNK", CHUNK)
    monkeypatch.setattr(chunks, "LARGEST_CHUNK", CHUNK)

    def measure(operation: str) -> str:
        started = time.monotonic()
        cell = benches[operation].measure(fault, operation, seconds)
        # The deadline, the end of what runs on the board, and room for a computer that is busy.
        assert time.monotonic() - started < seconds + 60, f"{operation} hangs"
        return cell

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(OPERATIONS, pool.map(measure, OPERATIONS), strict=True))


@pytest.mark.parametrize("row", ROWS)
def test_every_operation_ends_as_the_rules_say(
    benches: dict[str, Bench], monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    expected = expected_table(load_rules())[row]
    for seconds in HURRY if row in HANGING else PATIENCE:
        cells = try_each(benches, monkeypatch, row, seconds)
        if cells == expected:
            break
    assert cells == expected


def test_there_are_rules_for_every_fault_and_every_operation() -> None:
    table = derive_table(load_rules())
    assert list(table) == list(ROWS)
    for row in table.values():
        assert list(row) == list(OPERATIONS)


def test_every_deviation_is_one_and_has_a_reason() -> None:
    rules = load_rules()
    derived = derive_table(rules)
    for row, cells in rules["deviations"].items():
        for operation, deviation in cells.items():
            assert deviation["why"]
            assert deviation["cell"] != derived[row][operation]
