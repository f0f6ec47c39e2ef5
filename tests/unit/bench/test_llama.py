"""A whole bench on a board that is a folder, with a script in place of llama-bench."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from bench import cooling, measure
from bench.conditions import parse_conditions
from bench.llama import measure_llama, read_axes
from bench.record import read_bench
from bench.series import read_series
from core.errors import (
    ConditionsNotMet,
    Interrupted,
    LostConnection,
    NotEnoughMemory,
    ProgramFailed,
    RunError,
    TakesTooLong,
    UsageError,
)
from core.patience import Patience
from core.record_folder import check_record
from core.session import Session
from tests.shared.ms_models import add_softmax
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


def test_a_model_that_does_not_fit_is_measured_when_it_is_asked_for_anyway_and_the_record_keeps_what_was_foreseen(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    board.replies = {r"MemAvailable: +\d+ kB": "MemAvailable: 8192 kB"}
    with pytest.raises(NotEnoughMemory, match="does not fit"):
        measure_llama(session, bench_of(model, repetitions="1"))
    assert not list(session.settings.runs.glob("*")) and "send" not in board.calls
    outcome = measure_llama(session, bench_of(model, repetitions="1", anyway=True))
    (said,) = outcome.as_json()["fit"]["models"]
    assert (said["model"], said["verdict"]) == ("tiny", "does not fit")
    assert read_bench(outcome.record)["fit"]["available"] == 8 << 20


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


def test_one_repetition_that_lies_apart_makes_the_result_not_valid(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The probe and the warm-up are the first two calls.
    use_bench(monkeypatch, write_bench(tmp_path, decode_ns="(c == 7 ? 200000000 : 100000000)"), board)
    content = measure_llama(session, bench_of(model, threads=(1,), repetitions="9")).content
    assert [(flag["name"], flag["sentence"]) for flag in content["flags"]] == [
        ("outliers", "decode of repetition 5 lies apart from the others")
    ]


def test_without_thread_counts_only_the_best_of_a_sweep_is_measured(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four threads disturb each other: ten times as slow.
    slow = "(t == 4 ? 1000000000 : 100000000)"
    use_bench(monkeypatch, write_bench(tmp_path, decode_ns=slow), board)
    content = measure_llama(session, bench_of(model, threads=(), repetitions="1")).content
    assert {row["threads"] for row in content["results"]} == {2}
    rows = {row["threads"]: (row["seconds"], row["chosen"]) for row in content["sweep"]}
    # Two tokens of 100 ms, divided by the threads.
    assert rows == {1: (0.2, False), 2: (0.1, True), 4: (0.5, False)}
    assert content["plan"]["threads"] == [1, 2, 4] and content["plan"]["sweep"] is True


def test_settings_are_measured_in_every_combination_and_stand_beside_each_number(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    axes = read_axes(batch="64,512", repack="off")
    content = measure_llama(session, bench_of(model, threads=(1,), repetitions="1", n_prompt=0, axes=axes)).content
    assert {(row["configuration"], row["settings"]["batch"]) for row in content["results"]} == {
        ("tiny, 1 thread, batch 64, repack off", 64),
        ("tiny, 1 thread, batch 512, repack off", 512),
    }


def test_the_hosts_clock_may_jump_without_harm(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    moments = itertools.cycle(["2026-01-01T00:00:00.000Z", "1970-01-01T00:00:01.000Z", "2038-01-19T00:00:00.000Z"])
    monkeypatch.setattr(measure, "now", lambda: next(moments))
    content = measure_llama(session, bench_of(model, threads=(1,))).content
    assert (content["valid"], content["rounds"]) == (True, 6)
    samples = read_series(only_record(session))
    assert [sample.position for sample in samples] == list(range(1, 15))
    assert len({sample.at for sample in samples}) == 3


def test_a_board_without_clocks_and_temperatures_has_null_and_never_0(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = parse_conditions("@@memory\n@@paging\n@@end")
    use_bench(monkeypatch, write_bench(tmp_path), board, lambda: bare)
    content = measure_llama(session, bench_of(model, threads=(1,))).content
    before = content["conditions"]["before"]
    assert (before["policies"], before["temperatures"], before["cooling"]) == ((), {}, {})
    others = {
        key: value
        for key, value in before.items()
        if key not in ("policies", "temperatures", "cooling", "other_clocks", "supplies")
    }
    assert set(others.values()) == {None}
    sample = read_series(only_record(session))[0]
    assert (sample.cpu_hz, sample.hottest, sample.began_at, sample.read_bytes) == (None, None, None, None)
    assert "does not show its clocks" in content["notes"][0]
    with pytest.raises(ConditionsNotMet, match="shows no temperature"):
        measure_llama(session, bench_of(model, threads=(1,), start_below=50.0))


def test_a_board_that_does_not_become_cool_in_time_is_measured_and_not_valid(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board, lambda: changed(temperatures={"soc": 61.5, "gpu": None}))
    content = measure_llama(session, bench_of(model, threads=(1,), start_below=50.0, cool_within=0.0)).content
    assert [(flag["name"], flag["sentence"]) for flag in content["flags"]] == [
        ("warm-start", "the board had 61.5 °C at the start of repetition 1, 2, 3, 4, 5, 6; below 50 was asked for")
    ]
    assert {sample.began_at for sample in read_series(only_record(session))} == {61.5}


def test_a_board_is_waited_for_until_it_is_cool(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    degrees = itertools.chain([70.0, 60.0, 50.0], itertools.repeat(49.9))
    monkeypatch.setattr(cooling, "read_conditions", lambda *_: changed(temperatures={"soc": next(degrees)}))
    monkeypatch.setattr(cooling, "LOOKS", Patience(pause=0.001))
    content = measure_llama(session, bench_of(model, threads=(1,), repetitions="6", start_below=50.0)).content
    assert content["valid"] is True
    assert {sample.began_at for sample in read_series(only_record(session))} == {49.9}


@pytest.mark.parametrize(("answer", "goes_on"), [(True, True), (None, True), (False, False)])
def test_on_a_terminal_it_is_asked_before_much_time_is_spent(
    session: Session,
    board: LocalBoard,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: bool | None,
    goes_on: bool,
) -> None:
    # The probe says 10 s for each token, so minutes for each repetition; the repetitions themselves are quick.
    use_bench(monkeypatch, write_bench(tmp_path, decode_ns="(c == 1 ? 10000000000 : 1000)"), board)
    asked: list[str] = []
    monkeypatch.setattr(session.console, "confirm", lambda question, seconds: asked.append(question) or answer)
    request = bench_of(model, threads=(1,), repetitions="1", n_prompt=0, ask=True)
    if goes_on:
        assert measure_llama(session, request).content["rounds"] == 1
    else:
        with pytest.raises(Interrupted, match="the answer was not yes"):
            measure_llama(session, request)
        assert read_bench(only_record(session))["results"] == []
    # Twice (the warm-up and one repetition) 4 + 1 tokens of 10 s; the start of the program, which is less than a second.
    assert asked == ["Spend about 2 min on it?"]


def test_completions_count_in_what_is_foreseen(
    session: Session, board: LocalBoard, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path, decode_ns="10000000000"), board)
    monkeypatch.setattr(measure, "build_server", lambda *_: None)
    monkeypatch.setattr(measure, "measure_completions", lambda *_: [])
    request = bench_of(model, threads=(1,), n_prompt=0, repetitions="1", completions=3)
    # Two repetitions and four completions of 4 + 1 tokens of 10 s, and the starts of the program.
    assert measure_llama(session, request).content["forecast_seconds"] == pytest.approx([300.0, 300.0], rel=0.2)


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


def test_a_model_of_another_kind_is_refused_and_the_task_for_it_is_named(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), board)
    (tmp_path / "tiny.ms").write_bytes(add_softmax().to_bytes())
    with pytest.raises(UsageError, match=r"bench\.llama measures \.gguf models") as caught:
        measure_llama(session, bench_of(tmp_path / "tiny.ms"))
    assert "bench.mslite" in caught.value.remedy and board.calls == []


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
