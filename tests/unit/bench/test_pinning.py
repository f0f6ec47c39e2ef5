"""What is said of clocks that were to be fixed: that they were not, did not stay so, or could not be set back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.pinning import Pinning
from bench.record import BenchRecord
from core.errors import AgentUnavailable, ConditionsNotMet
from deploy.run.result import RunOutcome


@pytest.fixture
def record(tmp_path: Path) -> BenchRecord:
    return BenchRecord(tmp_path, {"times": {}})


def outcome(**pin: list[str]) -> RunOutcome:
    return cast(RunOutcome, SimpleNamespace(pin={"policies": [], "lost": [], "left": [], **pin}))


def test_without_being_asked_for_nothing_is_pinned(record: BenchRecord) -> None:
    asked: list[bool] = []
    Pinning(record, asked=False).run(lambda pin: asked.append(pin) or outcome())  # type: ignore[func-returns-value]
    assert asked == [False]
    assert record.content["pin"] == {"asked": False, "held": False, "why": "not asked for", "policies": []}


@pytest.mark.parametrize("refused", [AgentUnavailable("There is no agent."), ConditionsNotMet("Only for root.")])
def test_where_it_cannot_be_had_it_is_said_once_and_done_without(record: BenchRecord, refused: Exception) -> None:
    asked: list[bool] = []

    def execute(pin: bool) -> RunOutcome:
        asked.append(pin)
        if pin:
            raise refused
        return outcome()

    pinning = Pinning(record, asked=True)
    for _ in range(2):
        pinning.run(execute)
    assert asked == [True, False, False]
    assert pinning.notes == [f"the clocks could not be pinned: {refused}"]
    assert (record.content["pin"]["held"], record.content["pin"]["why"]) == (False, str(refused))


def test_clocks_that_were_held_and_then_refuse_end_the_bench(record: BenchRecord) -> None:
    pinning = Pinning(record, asked=True)
    pinning.run(lambda pin: outcome())

    def refuse(pin: bool) -> Any:
        raise ConditionsNotMet("Somebody has taken the right away.")

    with pytest.raises(ConditionsNotMet, match="taken the right"):
        pinning.run(refuse)


def test_what_did_not_stay_and_what_could_not_be_set_back_are_named(record: BenchRecord) -> None:
    pinning = Pinning(record, asked=True)
    pinning.run(lambda pin: outcome(lost=["scaling_min_freq of policy0"], left=["scaling_governor of policy4"]))
    assert pinning.lost == ["scaling_min_freq of policy0 did not stay as it was pinned"]
    assert pinning.notes == ["THE BOARD IS NOT AS IT WAS: scaling_governor of policy4 could not be set back"]
