"""Leases one after the other, and after everything that can happen to a holder."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from pathlib import Path

import pytest

from core.errors import BoardBusy, Interrupted
from core.interrupts import termination_as_interrupt
from core.session import Session
from deploy.lease import lease
from deploy.lease.lease import LeasePlace, find_holder, hold_board, unlock_board
from deploy.lease.owner import current_user
from deploy.lease.shared_file import SharedFile
from tests.support.leases import holder, living, put
from tests.support.local_board import LocalBoard
from tests.support.waiting import wait_until

# one after the other -------------------------------------------------------------------------------


def test_a_board_is_held_while_the_block_runs_and_free_afterwards(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    with hold_board(impatient, board, "the block"):
        held = find_holder(place)
        assert held is not None
        assert (held.owner.pid, held.purpose) == (os.getpid(), "the block")
    assert find_holder(place) is None


def test_within_a_block_that_holds_the_board_it_is_held_already(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    with hold_board(impatient, board, "outer"):
        with hold_board(impatient, board, "inner"):
            pass
        held = find_holder(place)
        assert held is not None
        assert held.purpose == "outer"


def test_a_block_that_fails_gives_the_board_back(impatient: Session, board: LocalBoard, place: LeasePlace) -> None:
    with pytest.raises(KeyError), hold_board(impatient, board, "x"):
        raise KeyError
    assert find_holder(place) is None


def test_what_ends_ohforge_while_a_board_is_given_back_waits_until_that_is_done(
    impatient: Session, board: LocalBoard, place: LeasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_back = lease._Keeper._give_back

    def interrupted(keeper: lease._Keeper, shared: SharedFile) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise Interrupted("as a command on a host") from None
        give_back(keeper, shared)

    monkeypatch.setattr(lease._Keeper, "_give_back", interrupted)
    # What a shell starts in the background ignores SIGINT, tests too.
    with termination_as_interrupt(), pytest.raises(KeyboardInterrupt), hold_board(impatient, board, "x"):
        pass
    assert find_holder(place) is None


def test_another_process_is_named_with_purpose_and_times(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    with holder(place.folder, "run llama") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(BoardBusy, match=rf"process {process.pid} .*'run llama'") as caught,
            hold_board(impatient, board, "mine"),
        ):
            pytest.fail("two hold the board")
    assert caught.value.exit_status == 78
    assert caught.value.details["pid"] == process.pid
    assert set(caught.value.details) >= {"user", "purpose", "since", "until"}
    assert f"`ohforge board.unlock --board {board.serial} --force`" in caught.value.remedy


def test_who_waits_gets_the_board_as_soon_as_it_is_free(
    session: Session, board: LocalBoard, place: LeasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with holder(place.folder, "short") as process:
        assert process.stdout is not None
        held_open = process.stdin
        assert held_open is not None
        process.stdout.readline()

        def hear(text: str) -> None:
            said.append(text)
            held_open.close()

        monkeypatch.setattr(session.console, "info", hear)
        with hold_board(session, board, "mine"):
            held = find_holder(place)
            assert held is not None
            assert held.owner.pid == os.getpid()
    assert f"process {process.pid}" in said[0]
    assert "waiting up to" in said[0]


def test_eight_processes_never_hold_a_board_at_once(place: LeasePlace, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with contextlib.ExitStack() as running:
        processes = [running.enter_context(holder(place.folder, "count", str(counter), "5")) for _ in range(8)]
        assert [process.wait(timeout=60) for process in processes] == [0] * 8
    assert counter.read_text() == "40"


# holders that are gone -----------------------------------------------------------------------------


def test_the_lease_of_a_killed_process_is_taken_over_and_that_is_said(
    impatient: Session, board: LocalBoard, place: LeasePlace, capsys: pytest.CaptureFixture[str]
) -> None:
    with holder(place.folder, "killed") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # It is a zombie now: there, but dead.
        with hold_board(impatient, board, "next"):
            pass
    said = capsys.readouterr().out
    assert "taken over" in said
    assert f"process {process.pid}" in said
    assert "dead" in said


def test_a_number_that_another_process_has_now_does_not_keep_the_board(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    put(place, "running", dataclasses.replace(living(), started=living().started - 1))
    with hold_board(impatient, board, "next"):
        pass


def test_a_lease_from_before_a_restart_of_the_computer_is_void(place: LeasePlace) -> None:
    before = put(place, "running", dataclasses.replace(living(), boot="another start"))
    assert "dead" in before.why_void()
    locked = put(place, "standing", dataclasses.replace(current_user(), boot="another start"))
    assert "restart" in locked.why_void()
    assert find_holder(place) is None


def test_a_lease_that_has_not_been_renewed_is_taken_over_though_its_process_lives(
    impatient: Session, board: LocalBoard, place: LeasePlace, capsys: pytest.CaptureFixture[str]
) -> None:
    put(place, "running", living(), seconds=-1)
    with hold_board(impatient, board, "next"):
        pass
    assert "expired" in capsys.readouterr().out


@pytest.mark.parametrize("jump", [-10 * 365 * 86400.0, 10 * 365 * 86400.0])
def test_a_jump_of_the_clock_neither_ends_nor_lengthens_a_lease(
    place: LeasePlace, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    lives, expired = put(place, "running", living()), put(place, "standing", living(), seconds=-1)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert not lives.why_void()
    assert expired.why_void()


def test_a_process_that_cannot_be_seen_counts_until_its_lease_expires(place: LeasePlace) -> None:
    contained = dataclasses.replace(living(), namespace="pid:[1]", pid=2**22 + 1)
    assert not put(place, "running", contained).why_void()
    assert put(place, "running", contained, seconds=-1).why_void()


def test_a_lease_is_renewed_while_the_block_runs(
    impatient: Session, board: LocalBoard, place: LeasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    with hold_board(impatient, board, "long"):
        first = find_holder(place)
        assert first is not None
        wait_until("the renewal", lambda: (now := find_holder(place)) is not None and now.ends > first.ends)


def test_a_lease_that_was_taken_away_is_told_at_the_end_and_stays_with_the_other(
    impatient: Session, board: LocalBoard, place: LeasePlace, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_board(impatient, board, "mine"):
        unlock_board(place, force=True)
        put(place, "running", living())
    assert "anna" in capsys.readouterr().err
    held = find_holder(place)
    assert held is not None
    assert held.owner.user == "anna"
