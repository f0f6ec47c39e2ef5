"""A whole bench on a board that is a folder, with a script in place of llama-bench."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from bench.llama import measure_llama
from bench.record import read_bench
from bench.series import read_series
from core.errors import Interrupted, LostConnection, ProgramFailed, RunError, TakesTooLong, UsageError
from core.record_folder import check_record
from core.session import Session
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.bench_board import bench_of, changed, use_bench, write_bench
from tests.support.local_board import LocalBoard


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


def only_record(session: Session) -> Path:
    (file,) = session.settings.runs.glob("*/record.json")
    return file.parent


def test_a_bench_gives_the_medians_of_its_samples_and_a_record_that_holds(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    outcome = measure_llama(session, bench_of(model))
    content = read_bench(outcome.record)
    # 10 ms and 100 ms per token and thread
    assert {(row["threads"], row["test"]): (row["median"], row["n"]) for row in content["results"]} == {
        (1, "prefill"): (100.0, 6),
        (1, "decode"): (10.0, 6),
        (2, "prefill"): (200.0, 6),
        (2, "decode"): (20.0, 6),
    }
    assert (content["state"], content["valid"], content["flags"]) == ("done", True, [])
    assert (content["rounds"], content["ended_because"]) == (6, "repetitions")
    assert content["conditions"]["before"]["policies"][0]["governor"] == "performance"
    assert content["models"][0]["sha256"] and content["board"]["emulated"] is False
    answer = outcome.as_json()
    assert answer["metrics"]["tiny, 2 threads, decode"]["median"] == 20.0
    assert {"record", "valid", "flags", "series"} <= set(answer)


def test_the_warm_up_is_kept_apart_and_every_run_has_its_own_record(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first calls, which are the probe and the warm-up of two configurations, take ten times as long.
    use_bench(monkeypatch, write_bench(tmp_path, decode_ns="(c > 3 ? 100000000 : 1000000000)"), board)
    outcome = measure_llama(session, bench_of(model))
    samples = read_series(outcome.record)
    assert [sample.position for sample in samples] == list(range(1, 29))
    assert {sample.tokens_per_second for sample in samples if sample.test == "decode" and not sample.counts} == {1, 2}
    assert {sample.tokens_per_second for sample in samples if sample.test == "decode" and sample.counts} == {10, 20}
    runs = {path.name for path in (outcome.record / "runs").iterdir()}
    assert len(runs) == 1 + 7 * 2 and {sample.run for sample in samples} < runs
    words = json.loads((outcome.record / "runs" / samples[0].run / "record.json").read_text())["command"]["words"]
    threads = str(samples[0].threads)
    assert words == ["./llama-bench", *f"-m tiny.gguf -t {threads} -p 8 -n 4 -r 1 -o jsonl".split()]


def test_configurations_take_turns_and_no_sample_is_lost(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    other = write_tiny_gguf(tmp_path / "other.gguf", seed=7)
    outcome = measure_llama(session, bench_of(model, other, n_prompt=0, repetitions="8"))
    samples = read_series(outcome.record)
    orders = [[(s.model, s.threads) for s in samples if s.round == number] for number in range(9)]
    every = sorted((name, threads) for name in ("tiny", "other") for threads in (1, 2))
    assert all(sorted(order) == every for order in orders)
    assert len(set(map(tuple, orders))) > 3


def test_repetitions_go_on_until_the_median_is_known_well_enough(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    steady = measure_llama(session, bench_of(model, repetitions="1%"))
    assert (steady.content["rounds"], steady.content["ended_because"]) == (6, "narrow enough")
    # Now every other call takes half as long again: of n samples no two ranks near the middle are alike.
    use_bench(monkeypatch, write_bench(tmp_path, decode_ns="(c % 2 ? 100000000 : 150000000)"), board)
    rough = measure_llama(session, bench_of(model, repetitions="1%", threads=(1,), n_prompt=0))
    assert (rough.content["rounds"], rough.content["ended_because"], rough.content["valid"]) == (
        30,
        "repetitions",
        False,
    )
    (flag,) = rough.content["flags"]
    assert flag["name"] == "imprecise" and "±1.0% was asked for" in flag["sentence"]


def test_a_board_that_slows_down_is_not_valid_and_the_sentence_says_why(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path, decode_ns="(100000000 + c * 10000000)"), board)
    content = measure_llama(session, bench_of(model, threads=(1,), repetitions="9")).content
    assert content["valid"] is False
    assert {flag["name"] for flag in content["flags"]} == {"drift"}
    assert "decode became" in content["flags"][0]["sentence"]


def test_conditions_after_the_bench_are_looked_at(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before the probe, after it, and then after each round: what the probe moved to swap is not the repetitions'.
    first = [changed(load=(0.1, 0.1, 0.1)), changed(load=(9, 9, 9), swapped_out=5)]
    states = itertools.chain(first, itertools.repeat(changed(swapped_out=9)))
    use_bench(monkeypatch, write_bench(tmp_path), board, lambda: next(states))
    content = measure_llama(session, bench_of(model)).content
    assert [flag["name"] for flag in content["flags"]] == ["swap"]
    assert "moved 4 pages" in content["flags"][0]["sentence"]
    assert content["conditions"]["after"]["swapped_out"] == 9
    before = content["conditions"]["before"]
    assert (before["load"], before["swapped_out"]) == ((0.1, 0.1, 0.1), 5)


@pytest.mark.parametrize(
    ("stop", "raised", "state"),
    [(KeyboardInterrupt(), Interrupted, "interrupted"), (LostConnection("The link is cut."), LostConnection, "lost")],
)
def test_an_interrupted_bench_keeps_its_samples(
    session: Session,
    board: LocalBoard,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: BaseException,
    raised: type[Any],
    state: str,
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    seen = 0

    def cut(script: str) -> None:
        nonlocal seen
        seen += "./llama-bench" in script
        if seen == 1 + 2 + 2 * 3 + 1:  # the probe, the warm-up, three repetitions, and the first of the fourth
            raise stop

    board.on_shell = cut
    with pytest.raises(raised) as caught:
        measure_llama(session, bench_of(model))
    folder = only_record(session)
    content = read_bench(folder)
    assert caught.value.details["record"] == str(folder)
    assert (content["state"], content["rounds"], content["valid"]) == (state, 3, None)
    assert {row["n"] for row in content["results"]} == {3}
    assert len(read_series(folder)) == content["series"]["count"] == (1 + 3) * 2 * 2
    assert check_record(folder).is_unchanged


def test_a_bench_that_would_take_too_long_is_refused_after_the_probe(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Half a second per token with two threads: 2 x 8 + 5 of them are 10.5 s, with one thread up to twice that; by seven
    # rounds 220 s.
    program = write_bench(tmp_path, prefill_ns="500000000 * t", decode_ns="500000000 * t")
    use_bench(monkeypatch, program, board)
    with pytest.raises(TakesTooLong, match="about 4 min, but 2 min is allowed"):
        measure_llama(session, bench_of(model, at_most=120.0))
    content = read_bench(only_record(session))
    assert (content["state"], content["results"], content["error"]["code"]) == ("timeout", [], "OHF7303")


@pytest.mark.parametrize(
    ("end", "prefill", "raised"),
    [("exit 1", "1", ProgramFailed), ("", "0", RunError), ("echo '{'", "1", RunError)],
)
def test_a_program_that_fails_or_prints_nonsense_gives_no_number(
    session: Session,
    board: LocalBoard,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    prefill: str,
    raised: type[Any],
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path, prefill_ns=prefill, end=end), board)
    with pytest.raises(raised):
        measure_llama(session, bench_of(model))
    assert read_bench(only_record(session))["results"] == []


def test_models_that_cannot_be_measured_or_told_apart_are_refused_before_anything_runs(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    (tmp_path / "sub").mkdir()
    twin = write_tiny_gguf(tmp_path / "sub/tiny.gguf", seed=3)
    for models, sentence in (((), "There is no model"), ((model, twin), "have one name")):
        with pytest.raises(UsageError, match=sentence):
            measure_llama(session, bench_of(*models))
    assert board.calls == []
