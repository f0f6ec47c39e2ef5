"""study.run --boards: the cells of several boards at once, and boards that help."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.study.crew import Crew
from bench.study.run import Earlier, run_study
from bench.study.spec import BENCH, EVALUATE, QUANTIZE, Cell, Study, read_study
from core.errors import AllBoardsLost, BoardOffline, Interrupted, UsageError
from core.session import Session

TWO = """\
title: one model, two boards
models: {small: {source: model.gguf, quantisations: [Q4_0]}}
boards: [a, b]
bench: {prompt: 8, generate: 4}
evaluate: {data: example, limit: 5, prompts: [direct, aav, budget], budgets: [32]}
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    return read_study(path, lambda source: "")


class Doing:
    """Does cells; those of `lost` boards fail, and each first cell waits until one of every board in `meet` is begun."""

    def __init__(self, folder: Path, *, lost: tuple[str, ...] = (), meet: int = 0) -> None:
        self.done: list[str] = []
        self.folder, self.lost = folder, lost
        self.meeting = threading.Barrier(meet) if meet else None

    def __call__(self, session: Session, cell: Cell, earlier: Earlier) -> Mapping[str, Any]:
        if self.meeting is not None and cell.kind == BENCH:
            self.meeting.wait(60)
        if cell.place in self.lost:
            raise BoardOffline(f"Board {cell.place} has gone.")
        self.done.append(cell.title)
        record = self.folder / cell.key
        record.mkdir()
        return {"record": str(record)}

    @property
    def ways(self) -> dict[str, Doing]:
        return dict.fromkeys((QUANTIZE, BENCH, EVALUATE), self)


def test_the_boards_of_a_study_do_their_cells_at_the_same_time(session: Session, study: Study, tmp_path: Path) -> None:
    doing = Doing(tmp_path, meet=2)  # Neither bench ends before the other has begun.
    progress = run_study(session, study, doing.ways, Crew.of(study, ("a", "b")))
    assert (len(progress.done), progress.failed, progress.left) == (9, [], [])
    assert doing.done[0] == "quantize small/Q4_0"
    for board in "ab":
        assert [title for title in doing.done if title.endswith(f"on {board}")] == [
            f"{what} on {board}"
            for what in (
                "bench small/Q4_0",
                "evaluate small/Q4_0 direct",
                "evaluate small/Q4_0 aav",
                "evaluate small/Q4_0 budget at 32 tokens",
            )
        ]


def test_cells_of_boards_that_are_not_named_are_left(session: Session, study: Study, tmp_path: Path) -> None:
    progress = run_study(session, study, Doing(tmp_path).ways, Crew.of(study, ("b",)))
    assert (len(progress.done), {cell.place for cell in progress.left}) == (5, {"a"})


def test_a_board_that_is_lost_is_given_up_and_the_other_does_all_its_cells(
    session: Session, study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = run_study(session, study, Doing(tmp_path, lost=("a",)).ways, Crew.of(study, ("a", "b")))
    assert [state.cell.place for state in progress.failed] == ["a"] * 3
    assert ([cell.place for cell in progress.left], len(progress.done)) == (["a"], 5)
    assert "board a is given up" in capsys.readouterr().err
    again = run_study(session, study, Doing(tmp_path).ways, Crew.of(study, ("a", "b")))
    assert len(again.done) == 9


def test_when_every_board_is_lost_it_says_so_and_how_it_goes_on(session: Session, study: Study, tmp_path: Path) -> None:
    with pytest.raises(AllBoardsLost, match="a, b") as lost:
        run_study(session, study, Doing(tmp_path, lost=("a", "b")).ways, Crew.of(study, ("a", "b")))
    assert f"ohforge study.run {study.path}" in lost.value.remedy


def test_ctrl_c_reaches_what_every_board_does(session: Session, study: Study, tmp_path: Path) -> None:
    begun, told = threading.Barrier(2), []

    def wait(session: Session, cell: Cell, earlier: Earlier) -> Mapping[str, Any]:
        try:
            if begun.wait(60) == 0:
                raise Interrupted("Ctrl-C in one of them")
            while True:
                threading.Event().wait(0.05)
        except KeyboardInterrupt:
            told.append(cell.place)
            raise

    ways = {**Doing(tmp_path).ways, BENCH: wait}
    with pytest.raises(Interrupted):
        run_study(session, study, ways, Crew.of(study, ("a", "b")))
    assert len(told) == 1


@pytest.mark.parametrize("boards", [("a", "c"), ("c",)])
def test_a_board_helps_only_where_it_is_clear_whom(study: Study, boards: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="does not name c, and has 2 boards"):
        Crew.of(study, boards)


def test_others_answer_in_the_place_of_the_only_board(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(TWO.replace("[a, b]", "[a]"))
    study = read_study(path, lambda source: "")
    assert Crew.of(study, ("c", "a", "d")).lanes == {"a": ("a", "c", "d")}
