"""Going on with a bench after whatever ended it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import measure
from bench.conditions import Conditions
from bench.llama import measure_llama
from bench.record import read_bench, verify_record
from bench.request import BenchRequest
from bench.resume import request_of
from bench.series import read_series
from core.errors import InvalidData, LostConnection, RecordChanged, UnlikeRecords, UsageError
from core.session import Session
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.bench_board import CALM, POLICY, bench_of, changed, use_bench, write_bench
from tests.support.local_board import LocalBoard

PROBE, WARM_UP, ROUND = 1, 2, 2
"""Runs of a bench of one model with two thread counts."""


class Cut:
    """Cuts the link at the start of a run, counted from 1."""

    def __init__(self, board: LocalBoard, at: int) -> None:
        self.at, self.seen = at, 0
        board.on_shell = self._look

    def _look(self, script: str) -> None:
        is_run = "./llama-bench" in script
        self.seen += is_run
        if is_run and self.seen == self.at:
            raise LostConnection("The link is cut.")


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def cut_bench(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A bench whose link was cut in its fourth round, of which one configuration was measured."""
    use_bench(monkeypatch, write_bench(tmp_path), board)
    Cut(board, PROBE + WARM_UP + 3 * ROUND + 2)
    with pytest.raises(LostConnection) as caught:
        measure_llama(session, bench_of(model))
    board.on_shell = lambda script: None
    folder = Path(caught.value.details["record"])
    assert caught.value.remedy.endswith(f"Go on with `ohforge bench.llama --resume {folder.name}`.")
    return folder


def again(folder: Path) -> BenchRequest:
    return request_of(folder, "llama", at_most=3600.0, ask=False)


def kill(folder: Path) -> None:
    """Leaves the record as it is when ohforge is killed while it writes a sample."""
    content = json.loads((folder / "record.json").read_text())
    ended = {"state": "running", "error": None, "times": {**content["times"], "ended": None}}
    (folder / "record.json").write_text(json.dumps({**content, **ended}))
    (folder / "SHA256SUMS").unlink()
    with (folder / "samples.jsonl").open("a") as file:
        file.write('{"position": 19, "round": 4, "mod')


@pytest.mark.parametrize("killed", [False, True])
def test_a_bench_goes_on_where_it_was_and_measures_nothing_twice(
    session: Session, board: LocalBoard, cut_bench: Path, killed: bool
) -> None:
    whole = (cut_bench / "samples.jsonl").read_text()
    if killed:
        kill(cut_bench)
    count = Cut(board, 0)
    content = measure_llama(session, again(cut_bench)).content
    # The probe and the warm-up again, the other configuration of the fourth round, and two rounds.
    assert count.seen == PROBE + WARM_UP + 1 + 2 * ROUND
    assert (cut_bench / "samples.jsonl").read_text().startswith(whole)
    samples = read_series(cut_bench)
    counted = [(sample.round, sample.threads, sample.test) for sample in samples if sample.counts]
    assert sorted(counted) == [(n, t, test) for n in range(1, 7) for t in (1, 2) for test in ("decode", "prefill")]
    assert [sample.position for sample in samples] == list(range(1, len(samples) + 1))
    assert (content["state"], content["rounds"], content["valid"], content["error"]) == ("done", 6, True, None)
    assert [part["state"] for part in content["parts"]] == ["killed" if killed else "lost"]
    assert {row["n"] for row in read_bench(cut_bench)["results"]} == {6}
    assert verify_record(cut_bench).is_unchanged


def test_the_order_of_the_rounds_is_the_one_that_it_would_have_been(
    session: Session, cut_bench: Path, tmp_path: Path, model: Path
) -> None:
    measure_llama(session, again(cut_bench))
    whole = measure_llama(session, bench_of(model)).record

    def order(folder: Path) -> list[tuple[int, int]]:
        return [(sample.round, sample.threads) for sample in read_series(folder) if sample.counts]

    assert order(cut_bench) == order(whole)


@pytest.mark.parametrize(("at", "rounds"), [(PROBE, 3), (PROBE + 2, 3), (PROBE + WARM_UP + 1 + 1, 4)])
def test_a_bench_can_be_gone_on_with_after_a_second_cut(
    session: Session, board: LocalBoard, cut_bench: Path, at: int, rounds: int
) -> None:
    Cut(board, at)
    with pytest.raises(LostConnection):
        measure_llama(session, again(cut_bench))
    assert read_bench(cut_bench)["rounds"] == rounds
    board.on_shell = lambda script: None
    content = measure_llama(session, again(cut_bench)).content
    assert [part["state"] for part in content["parts"]] == ["lost", "lost"]
    assert (content["rounds"], content["valid"]) == (6, True)


def test_what_spoke_against_the_first_part_still_does(
    session: Session,
    board: LocalBoard,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def swapping() -> Conditions:
        nonlocal looks
        looks += 1
        return changed(swapped_out=7 if looks > 3 else 0)

    use_bench(monkeypatch, write_bench(tmp_path), board, swapping)
    Cut(board, PROBE + WARM_UP + 3 * ROUND + 1)
    with pytest.raises(LostConnection) as caught:
        measure_llama(session, bench_of(model))
    use_bench(monkeypatch, write_bench(tmp_path), board)
    board.on_shell = lambda script: None
    content = measure_llama(session, again(Path(caught.value.details["record"]))).content
    assert [flag["sentence"] for flag in content["flags"]] == ["the board moved 7 pages to or from swap meanwhile"]


def test_a_bench_that_ended_because_of_the_time_goes_on_with_more_of_it(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    clock = itertools.count(step=10)  # Seconds; a run asks twice, a round once.
    with monkeypatch.context() as patch:
        patch.setattr(measure, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
        first = measure_llama(session, bench_of(model, at_most=200.0))
    assert (first.content["ended_because"], first.content["valid"]) == ("time", False)
    assert 1 <= first.content["rounds"] < 6
    content = measure_llama(session, again(first.record)).content
    assert (content["rounds"], content["plan"]["at_most"], content["valid"]) == (6, 3600.0, True)
    assert [part["state"] for part in content["parts"]] == ["done"]


def test_a_bench_that_has_come_to_its_end_is_not_gone_on_with(session: Session, cut_bench: Path) -> None:
    measure_llama(session, again(cut_bench))
    with pytest.raises(UsageError, match=r"has come to its end \(repetitions\)"):
        again(cut_bench)
    with pytest.raises(UsageError, match=r"was measured by bench\.llama"):
        request_of(cut_bench, "mslite", at_most=1.0, ask=False)


def test_another_model_program_or_clock_is_refused_and_named(
    session: Session, board: LocalBoard, cut_bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower = changed(policies=(dataclasses.replace(POLICY, highest_hz=1_104_000_000),))
    use_bench(monkeypatch, write_bench(tmp_path), board, lambda: slower)
    with pytest.raises(UnlikeRecords, match=r"clocks: .*1800000000.* then, .*1104000000.* now"):
        measure_llama(session, again(cut_bench))
    use_bench(monkeypatch, write_bench(tmp_path, end="true"), board, lambda: CALM)
    with pytest.raises(UnlikeRecords, match="The program is no longer the one"):
        measure_llama(session, again(cut_bench))
    use_bench(monkeypatch, write_bench(tmp_path), board)
    write_tiny_gguf(tmp_path / "tiny.gguf", seed=9)
    with pytest.raises(UnlikeRecords, match="models: "):
        measure_llama(session, again(cut_bench))


def test_a_record_that_was_changed_since_is_not_gone_on_with(session: Session, cut_bench: Path) -> None:
    samples = cut_bench / "samples.jsonl"
    samples.write_text(samples.read_text().replace('"round": 1', '"round": 2', 1))
    with pytest.raises(RecordChanged, match=r"samples\.jsonl"):
        measure_llama(session, again(cut_bench))


def test_a_record_that_is_cut_short_itself_is_told(cut_bench: Path) -> None:
    content = (cut_bench / "record.json").read_text()
    (cut_bench / "record.json").write_text(content[: len(content) // 2])
    with pytest.raises(InvalidData, match="is no JSON"):
        again(cut_bench)
