"""A place is acquired for as long as something is done on its board, and given back after any end."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytest.importorskip("labgrid", reason="labgrid is not installed: make test-setup")

from core.errors import BoardBusy
from core.patience import Patience
from core.session import PROJECT, Session
from deploy.lab import lend
from deploy.lab.coordinator import connect
from deploy.lab.lend import PlaceLender
from deploy.lease.lease import hold_board
from tests.support.lab import ANNA, Lab
from tests.support.local_board import LocalBoard
from tests.support.waiting import wait_until

ME = f"{socket.gethostname()}/{getpass.getuser()}"


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lend, "LOOKS", Patience(pause=0.05))


@pytest.fixture
def session(session: Session) -> Session:
    return session.with_settings(timeouts=dataclasses.replace(session.settings.timeouts, lease=0.2))


@pytest.fixture
def board(lab: Lab, place: str, tmp_path: Path) -> LocalBoard:
    board = LocalBoard(tmp_path / "board")
    board.lender = PlaceLender(address=lab.address, place=place)
    return board


@contextlib.contextmanager
def holder(lab: Lab, place: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process of ohforge that has the place."""
    words = [sys.executable, "-m", "tests.support.lab_holder", lab.address, place, str(folder)]
    with subprocess.Popen(words, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until("its start", lambda: lab.holder(place) or process.poll() is not None, 60, pause=0.2)
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_place_is_acquired_while_it_is_held_and_free_afterwards(
    session: Session, lab: Lab, place: str, board: LocalBoard
) -> None:
    with hold_board(session, board, "a test"), hold_board(session, board, "within it"):
        held = lab.client("show", place=place)
        assert f"-{os.getpid()}-" in held
        assert f"allowed: {ME}" in held
    assert lab.holder(place) == ""


def test_a_place_of_somebody_else_is_waited_for_and_then_named(
    session: Session, lab: Lab, place: str, board: LocalBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.client("acquire", place=place, who=ANNA)
    with pytest.raises(BoardBusy, match=r"Waited 0.2 s for place .*: anna \(on desk\) has it") as busy:
        hold_board(session, board, "a test").__enter__()
    assert busy.value.exit_status == 78
    said = capsys.readouterr()
    assert "waiting up to" in said.out
    assert said.err == ""
    patient = session.with_settings(timeouts=dataclasses.replace(session.settings.timeouts, lease=100.0))
    release = threading.Thread(target=lambda: lab.client("release", place=place, who=ANNA))
    release.start()
    with hold_board(patient, board, "a test"):
        assert f"-{os.getpid()}-" in lab.holder(place)
    release.join(timeout=60)


def test_what_this_user_has_acquired_already_is_used_and_stays_acquired(
    session: Session, lab: Lab, place: str, board: LocalBoard
) -> None:
    lab.client("acquire", place=place)
    with hold_board(session, board, "a test"):
        pass
    assert lab.holder(place) == ME


def test_who_is_allowed_at_somebody_elses_place_uses_it_and_leaves_it(
    session: Session, lab: Lab, place: str, board: LocalBoard
) -> None:
    lab.client("acquire", place=place, who=ANNA)
    lab.client("allow", ME, place=place, who=ANNA)
    with hold_board(session, board, "a test"):
        pass
    assert lab.holder(place) == "desk/anna"


def test_a_reservation_is_for_who_has_made_it(session: Session, lab: Lab, place: str, board: LocalBoard) -> None:
    annas = reserve(lab, place, ANNA)
    with pytest.raises(BoardBusy, match=r"it is reserved by anna \(on desk\)"):
        hold_board(session, board, "a test").__enter__()
    lab.client("cancel-reservation", annas)
    mine = reserve(lab, place)
    with connect(lab.address) as coordinator:
        assert coordinator.find(f"+{mine}").name == place
    with hold_board(session, board, "a test"):
        assert lab.holder(place) == ME
    assert lab.holder(place) == ""
    assert mine in lab.client("reservations")


def reserve(lab: Lab, place: str, who: Mapping[str, str] | None = None) -> str:
    """The token of a reservation that has got the place."""
    return lab.client("reserve", "--shell", f"name={place}", who=who).strip().partition("=")[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_place_is_free_after_any_end_of_the_process(
    lab: Lab, place: str, tmp_path: Path, number: signal.Signals
) -> None:
    with holder(lab, place, tmp_path / "board") as process:
        process.send_signal(number)
        process.wait(timeout=60)
    wait_until("the release", lambda: lab.holder(place) == "", 60, pause=0.2)


def test_a_place_that_a_dead_process_has_left_is_taken_over(
    session: Session, lab: Lab, place: str, board: LocalBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(["true"]) as dead:
        dead.wait(timeout=60)
    namespace = "".join(filter(str.isdigit, str(Path("/proc/self/ns/pid").readlink())))
    left = {"LG_HOSTNAME": f"{socket.gethostname()}.ohforge-{namespace}-{dead.pid}-1"}
    lab.client("acquire", place=place, who=left)
    with hold_board(session, board, "a test"):
        assert f"-{os.getpid()}-" in lab.holder(place)
    assert "is taken over" in capsys.readouterr().out


def test_a_place_that_is_taken_away_is_told_and_left_to_its_new_holder(
    session: Session, lab: Lab, place: str, board: LocalBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_board(session, board, "a test"):
        lab.client("release", "--kick", place=place, who=ANNA)
        lab.client("acquire", place=place, who=ANNA)
    assert "was taken away: anna (on desk) has it" in capsys.readouterr().err
    assert lab.holder(place) == "desk/anna"
