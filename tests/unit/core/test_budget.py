"""A budget ends work that a hostile file asks for, by items and by time."""

from __future__ import annotations

from itertools import count

import pytest

from core.budget import Budget, Overdrawn


def test_the_items_are_those_that_were_given() -> None:
    budget = Budget(items=10)
    budget.spend(10, "the first list")
    with pytest.raises(Overdrawn, match="the second list brings the number of items to more than 10"):
        budget.spend(1, "the second list")


def test_the_time_begins_with_the_first_charge() -> None:
    seconds = count(100, 20)
    budget = Budget(seconds=40, clock=lambda: float(next(seconds)))
    for _ in range(3):
        budget.spend(1, "a list")
    with pytest.raises(Overdrawn, match="a list is reached after more than 40 s"):
        budget.spend(1, "a list")
