"""`board.lock` and `board.unlock`."""

from __future__ import annotations

import dataclasses
import os

import pytest

from core.errors import BoardBusy, UsageError
from core.session import Session
from deploy.lease.lease import LeasePlace, find_holder, hold_board, lock_board, unlock_board
from deploy.lease.owner import current_user
from tests.support.leases import living, others, put
from tests.support.local_board import LocalBoard

# board.lock and board.unlock -----------------------------------------------------------------------


def test_a_locked_board_lets_its_users_runs_through_and_nobody_elses(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    lock_board(impatient, place, seconds=60, purpose="a series")
    with hold_board(impatient, board, "one of the series"):
        pass
    held = find_holder(place)
    assert held is not None
    assert held.purpose == "a series"
    put(place, "standing", others(current_user()), purpose="another series")
    with pytest.raises(BoardBusy, match=r"anna .*'another series'.* until "), hold_board(impatient, board, "x"):
        pytest.fail("the lock was passed")
    with pytest.raises(BoardBusy, match="anna"):
        lock_board(impatient, place, seconds=60, purpose="mine")


def test_a_user_may_lock_the_board_during_a_run_of_the_same_user_only(impatient: Session, place: LeasePlace) -> None:
    put(place, "running", dataclasses.replace(living(), uid=os.getuid()))
    lock_board(impatient, place, seconds=60, purpose="mine")
    unlock_board(place)
    put(place, "running", living())
    with pytest.raises(BoardBusy):
        lock_board(impatient, place, seconds=60, purpose="mine")


def test_unlock_releases_ones_own_lock_and_leaves_a_run_alone(impatient: Session, place: LeasePlace) -> None:
    put(place, "running", dataclasses.replace(living(), uid=os.getuid()))
    lock_board(impatient, place, seconds=60, purpose="mine")
    assert [gone.purpose for gone in unlock_board(place)] == ["mine"]
    assert unlock_board(place) == []
    assert find_holder(place) is not None


def test_anothers_lock_is_released_with_force_only(place: LeasePlace) -> None:
    put(place, "standing", others(current_user()))
    with pytest.raises(BoardBusy, match="anna"):
        unlock_board(place)
    put(place, "running", living())
    assert len(unlock_board(place, force=True)) == 2
    assert find_holder(place) is None


@pytest.mark.parametrize("seconds", [0, -5, 1e9])
def test_a_time_that_makes_no_sense_is_refused(impatient: Session, place: LeasePlace, seconds: float) -> None:
    with pytest.raises(UsageError):
        lock_board(impatient, place, seconds=seconds, purpose="x")


def test_what_another_user_writes_cannot_command_a_terminal(impatient: Session, place: LeasePlace) -> None:
    evil = dataclasses.replace(others(current_user()), user="\x1b[2Jroot")
    put(place, "standing", evil, purpose="\x1b]0;title\x07\nsecond line")
    with pytest.raises(BoardBusy) as caught:
        lock_board(impatient, place, seconds=1, purpose="x")
    assert caught.value.message.isprintable()
