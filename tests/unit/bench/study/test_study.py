"""A study as a file: its cells, what is kept of them, and how it goes on after any end."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.study.run import Earlier, run_study
from bench.study.spec import BENCH, EVALUATE, QUANTIZE, Cell, Study, read_study
from bench.study.state import StudyFolder, find_progress
from core.deadline import Deadline
from core.errors import Busy, Interrupted, InvalidData, NoSpaceOnBoard, NotEnoughSpace
from core.locks import hold
from core.session import Session

SMALL = """\
title: two sizes of one model
models:
  small:
    source: model.gguf
    quantisations: [Q4_0, Q8_0]
boards: [dayu200]
bench: {prompt: 8, generate: 4, threads: [1]}
evaluate:
  data: example
  limit: 5
  prompts: [direct, budget]
  budgets: [32, 64]
compare: {first: small/Q4_0, second: small/Q8_0, prompt: direct}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def study_of(path: Path, **hashes: str) -> Study:
    return read_study(path, lambda source: hashes.get(Path(source).stem, "0" * 64))


class Doing:
    """Does cells by noting them; `fails` gives what is raised for one, by a word of its title."""

    def __init__(self, folder: Path, **fails: Exception) -> None:
        self.done: list[str] = []
        self._folder = folder
        self._fails = fails

    def __call__(self, session: Session, cell: Cell, earlier: Earlier) -> Mapping[str, Any]:
        assert set(earlier) == set(cell.after)
        for word, error in self._fails.items():
            if word in cell.title.split():
                raise error
        self.done.append(cell.title)
        record = self._folder / cell.key
        record.mkdir(exist_ok=True)
        return {"record": str(record)}

    @property
    def ways(self) -> dict[str, Doing]:
        return dict.fromkeys((QUANTIZE, BENCH, EVALUATE), self)


def test_the_cells_of_a_study_in_the_order_in_which_they_can_be_done(file: Path) -> None:
    # By hand: two quantisations; each measured once, asked once without a limit, and once for each limit it is told.
    assert [cell.title for cell in study_of(file).cells()] == [
        "quantize small/Q4_0",
        "quantize small/Q8_0",
        *(
            f"{what} on dayu200"
            for kind in ("Q4_0", "Q8_0")
            for what in (
                f"bench small/{kind}",
                f"evaluate small/{kind} direct",
                f"evaluate small/{kind} budget at 32 tokens",
                f"evaluate small/{kind} budget at 64 tokens",
            )
        ),
    ]


def test_a_study_that_is_done_is_not_done_again(session: Session, file: Path, tmp_path: Path) -> None:
    first, second = Doing(tmp_path), Doing(tmp_path)
    progress = run_study(session, study_of(file), first.ways)
    assert (len(progress.done), progress.failed, progress.left) == (10, [], [])
    run_study(session, study_of(file), second.ways)
    assert (len(first.done), second.done) == (10, [])


def test_only_what_a_change_touches_is_done_again(session: Session, file: Path, tmp_path: Path) -> None:
    run_study(session, study_of(file), Doing(tmp_path).ways)
    file.write_text(SMALL.replace("generate: 4", "generate: 5").replace("title: two", "title: other"))
    again = Doing(tmp_path)
    run_study(session, study_of(file), again.ways)
    assert again.done == ["bench small/Q4_0 on dayu200", "bench small/Q8_0 on dayu200"]
    other_file = Doing(tmp_path)
    run_study(session, study_of(file, model="1" * 64), other_file.ways)
    assert len(other_file.done) == 10


def test_a_record_that_was_removed_is_made_again(session: Session, file: Path, tmp_path: Path) -> None:
    run_study(session, study_of(file), Doing(tmp_path).ways)
    cell = study_of(file).cells()[3]
    (tmp_path / cell.key).rmdir()
    again = Doing(tmp_path)
    run_study(session, study_of(file), again.ways)
    assert again.done == [cell.title]


def test_what_fails_stops_only_what_needs_it_and_is_tried_again(session: Session, file: Path, tmp_path: Path) -> None:
    broken = Doing(tmp_path, **{"small/Q8_0": NoSpaceOnBoard("the board is full")})
    progress = run_study(session, study_of(file), broken.ways)
    assert [state.error for state in progress.failed] == ["OHF7502: the board is full"]
    assert (len(progress.done), len(progress.left)) == (5, 4)
    mended = Doing(tmp_path)
    assert len(run_study(session, study_of(file), mended.ways).done) == 10
    assert len(mended.done) == 5


def test_an_end_says_how_the_study_goes_on_and_not_its_part(session: Session, file: Path, tmp_path: Path) -> None:
    end = Interrupted("Interrupted; 3 answers are kept.", remedy="Go on with `ohforge eval.gsm8k --resume x`.")
    with pytest.raises(Interrupted) as caught:
        run_study(session, study_of(file), Doing(tmp_path, direct=end).ways)
    assert caught.value.remedy == f"Go on with `ohforge study.run {file}`."


@pytest.mark.parametrize("end", [NotEnoughSpace("this disk is full"), KeyboardInterrupt()])
def test_after_an_end_in_the_middle_it_goes_on_with_what_is_left(
    session: Session, file: Path, tmp_path: Path, end: Exception
) -> None:
    with pytest.raises(type(end)):
        run_study(session, study_of(file), Doing(tmp_path, direct=end).ways)
    left = Doing(tmp_path)
    progress = run_study(session, study_of(file), left.ways)
    assert (len(progress.done), len(left.done)) == (10, 7)


def test_a_cell_file_that_cannot_be_read_counts_as_not_done(session: Session, file: Path, tmp_path: Path) -> None:
    run_study(session, study_of(file), Doing(tmp_path).ways)
    folder = StudyFolder.of(session.settings.runs, file)
    kept = sorted(folder.path.glob("cells/*.json"))
    kept[0].write_text("{")
    kept[1].write_text(json.dumps({"state": "done"}))
    assert len(find_progress(folder, study_of(file).cells()).left) == 2


def test_two_do_not_run_one_study_at_once(
    session: Session, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.study.run.LOCK_SECONDS", 0.1)
    lock = StudyFolder.of(session.settings.runs, file).path / "lock"
    with hold(lock, Deadline.after(1, "the test")), pytest.raises(Busy):
        run_study(session, study_of(file), Doing(tmp_path).ways)


SERVERS = "  servers: [{}, {cache-k: q8_0, cache-v: q8_0}, {draft: tiny.gguf}]\n"


def test_settings_of_servers_make_cells_of_their_own_and_leave_the_others_as_they_were(file: Path) -> None:
    before = study_of(file).cells()
    file.write_text(SMALL.replace("  limit: 5\n", f"  limit: 5\n{SERVERS}"))
    cells = study_of(file).cells()
    assert [cell.title for cell in cells if cell.title.startswith("evaluate small/Q4_0 direct")] == [
        "evaluate small/Q4_0 direct on dayu200",
        "evaluate small/Q4_0 direct on dayu200 with cache-k q8_0, cache-v q8_0",
        "evaluate small/Q4_0 direct on dayu200 with draft tiny.gguf",
    ]
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.key for cell in before} <= {cell.key for cell in cells}
    # Another draft model of the same name gives other answers, or the same ones in another time.
    others = {cell.key for cell in study_of(file, tiny="1" * 64).cells()} - {cell.key for cell in cells}
    assert len(others) == 2 * 3


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("title: two sizes of one model\n", "", 1, "title"),
        ("second: small/Q8_0", "second: small/Q8_1", 13, "there is no model 'small/Q8_1'; did you mean 'small/Q8_0'"),
        ("  budgets: [32, 64]\n", "", 11, "there are no budgets"),
        ("limit: 5", "limit: 0", 10, "limit"),
        ("boards: [dayu200]", "board: dayu200", 1, "board"),
        ("  limit: 5\n", "  servers:\n    - {}\n    - {cache-reuse: 8}\n", 12, "moves what the prompt cache has"),
        ("  limit: 5\n", "  servers: [{load-mode: mlook}]\n", 10, "is none of auto, none"),
        ("prompt: direct}", "server: {cache-k: q8_0}}", 13, "none of evaluate's servers"),
    ],
)
def test_a_mistake_is_named_with_its_line(file: Path, old: str, new: str, line: int, said: str) -> None:
    assert old in SMALL
    file.write_text(SMALL.replace(old, new))
    with pytest.raises(InvalidData) as caught:
        study_of(file)
    assert f"line {line}" in caught.value.message
    assert said in caught.value.message


def test_a_server_answers_for_the_model_that_it_has(file: Path) -> None:
    file.write_text(
        textwrap.dedent("""\
            title: a server
            models: {big: {source: big.gguf}, small: {source: small.gguf}}
            endpoints: [{url: "http://127.0.0.1:1", model: big}]
            evaluate: {data: example, prompts: [direct]}
        """)
    )
    assert [cell.title for cell in study_of(file).cells()] == ["evaluate big direct on http://127.0.0.1:1"]
