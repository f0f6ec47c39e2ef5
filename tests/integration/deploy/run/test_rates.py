"""`board.info --measure` on the emulated board: the agent finds no more than the kernel of this computer was told to allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import HostUnsupported
from core.session import Session
from deploy.board.survey import survey_board
from deploy.emulator.board.boards import EmulatedBoard, create_board, start_board, stop_board
from deploy.hdc.choose import choose_board
from deploy.run import rates
from deploy.run.rates import Rates, find_rates, measure_rates
from tests.support.emulated import emulated_home

MIB = 1024 * 1024
RATE = 24 * MIB


@pytest.fixture
def limited(shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedBoard]:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", str(shared_cache))
    monkeypatch.setattr(rates, "MOST_BYTES", 24 * MIB)
    monkeypatch.setattr(rates, "PASSES", 1)
    with emulated_home(tmp_path / "home") as home:
        for name, value in home.items():
            monkeypatch.setenv(name, value)
        board = create_board("emulated-dayu200", storage_rate=RATE)
        try:
            start_board(board)
        except HostUnsupported as error:
            pytest.skip(error.message)
        yield board


def kept(session: Session) -> Rates | None:
    board = choose_board(session, "dayu200")
    survey = survey_board(session, board)
    return find_rates(session, board, machine=survey.machine, kernel=survey.kernel)


def test_the_rates_of_a_limited_board_are_those_of_its_limits(session: Session, limited: EmulatedBoard) -> None:
    board = choose_board(session, "dayu200")
    measured = measure_rates(session, board)
    assert measured.storage is not None, measured.storage_why
    # On a busy computer less comes through than is allowed, but never more.
    assert 0 < measured.storage < 1.2 * RATE
    assert measured.memory is not None
    assert measured.emulated
    assert kept(session) == measured
    left = board.shell("ls -A /data/local/tmp/ohforge", deadline=Deadline.after(60, "the listing")).text
    assert "measure" not in left
    stop_board(limited)
    create_board(limited.serial, storage_rate=2 * RATE)
    assert kept(session) is None, "they were measured with another limit"
