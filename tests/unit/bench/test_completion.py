"""What is told of completions, with numbers worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bench.completion import (
    Completion,
    best_threads,
    blamed_on,
    check_times,
    computing_seconds,
    prompt_of,
    storage_flag,
    summaries_of,
)
from bench.endpoint.answer import Answer, Piece
from bench.plan import Configuration, Plan, read_repetitions
from core.errors import AnswerCut, ProgramCrashed, RunError

FIRST = Completion(
    position=2,
    round=1,
    model="tiny",
    threads=2,
    prompt_tokens=8,
    generated=4,
    load_seconds=2.0,
    ttft_seconds=0.5,
    arrivals=(0.5, 0.6, 0.7, 1.0),
    token_seconds=(0.1, 0.1, 0.3),
    peak_bytes=1000,
    minor_faults=40,
    major_faults=0,
    read_bytes=800,
    load_major_faults=3,
    load_read_bytes=5000,
    at="2026-01-31T12:00:00.000Z",
    run="a-run",
)
SECOND = dataclasses.replace(
    FIRST, position=3, round=2, load_seconds=4.0, ttft_seconds=0.7, token_seconds=(0.2, 0.2, 0.2), read_bytes=1600
)
ANSWER = Answer(
    pieces=tuple(
        Piece(text="w", at=at, tokens=(7,), server_ms=ms) for at, ms in ((0.5, 0.25), (0.6, 100.25), (0.9, 350.25))
    ),
    finish="length",
    generated=3,
    counted_by="server",
    prompt_tokens=8,
    cached_tokens=0,
    context_exceeded=False,
    seconds=1.0,
)


def test_medians_are_of_completions_and_of_all_their_tokens() -> None:
    found = summaries_of([FIRST, SECOND])
    assert {name: (one.median, one.n, one.unit) for name, one in found.items()} == {
        "load": (3.0, 2, "s"),
        "ttft": (pytest.approx(0.6), 2, "s"),
        # (0.1 + 0.1 + 0.3) / 3 and 0.2
        "tpot": (pytest.approx((0.5 / 3 + 0.2) / 2), 2, "s"),
        # 0.1 0.1 0.2 0.2 0.2 0.3
        "token": (0.2, 6, "s"),
        "peak_memory": (1000, 2, "bytes"),
        "minor_faults_per_token": (10, 2, "faults"),
        "major_faults_per_token": (0, 2, "faults"),
        # 800 / 4 and 1600 / 4
        "read_per_token": (300, 2, "bytes"),
    }
    assert (found["token"].low, found["token"].high) == (None, None)
    faults = "major_faults_per_token"
    assert found[faults].low is None
    assert summaries_of([FIRST] * 6)[faults].high == 0


def test_what_the_board_does_not_tell_is_left_out_and_not_zero() -> None:
    silent = dataclasses.replace(FIRST, read_bytes=None, peak_bytes=None)
    assert set(summaries_of([silent, SECOND])) == set(summaries_of([FIRST])) - {"read_per_token", "peak_memory"}
    assert summaries_of([]) == {}


def test_a_model_that_is_read_from_storage_for_each_token_is_flagged() -> None:
    configuration = Configuration(model="tiny", threads=2)
    # 1600 bytes for four tokens are 400 a token: more than a tenth of 3900, not of 4100.
    flag = storage_flag(configuration, 3900, [FIRST, SECOND])
    assert (
        flag is not None and flag.name == "storage" and "400 B were read from storage for each token" in flag.sentence
    )
    assert storage_flag(configuration, 4100, [FIRST, SECOND]) is None
    assert storage_flag(configuration, 1, [dataclasses.replace(FIRST, read_bytes=None)]) is None


def test_threads_are_those_of_the_quickest_decode() -> None:
    def row(threads: int, test: str, median: float, model: str = "tiny") -> dict[str, Any]:
        return {"model": model, "threads": threads, "test": test, "median": median}

    rows = [row(1, "prefill", 9.0), row(1, "decode", 3.0), row(2, "prefill", 20.0), row(2, "decode", 2.0)]
    rows += [row(4, "decode", 99.0, model="other")]
    assert best_threads(rows, "tiny") == 1
    assert best_threads([row for row in rows if row["test"] == "prefill"], "tiny") == 2


def test_how_long_a_completion_computes_is_foreseen_by_the_speeds_that_were_measured() -> None:
    def row(threads: int, test: str, median: float) -> dict[str, Any]:
        return {"model": "tiny", "threads": threads, "test": test, "median": median}

    rows = [row(2, "prefill", 4.0), row(2, "decode", 2.0), row(1, "decode", 99.0)]
    plan = Plan(threads=(2,), n_prompt=8, n_gen=6, repetitions=read_repetitions("6"), seed=1, at_most=60.0)
    # 8 / 4 and 6 / 2
    assert computing_seconds(rows, Configuration(model="tiny", threads=2), plan) == 5.0
    assert computing_seconds(rows[:1], Configuration(model="tiny", threads=2), plan) == 2.0


def test_times_of_tokens_are_the_servers_and_arrivals_are_ours() -> None:
    times = check_times(ANSWER, 8)
    assert times["token_seconds"] == pytest.approx((0.1, 0.25))
    assert (times["ttft_seconds"], times["arrivals"], times["generated"]) == (0.5, (0.5, 0.6, 0.9), 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"generated": 4}, "4 tokens in 3 pieces"),
        ({"prompt_tokens": 9}, "read 9 tokens, 0 of them from its cache, where 8 were to be read"),
        ({"cached_tokens": 7}, "7 of them from its cache"),
        ({"pieces": ANSWER.pieces[:1], "generated": 1}, "1 tokens in 1 pieces"),
        ({"pieces": tuple(dataclasses.replace(piece, server_ms=None) for piece in ANSWER.pieces)}, "every token"),
    ],
)
def test_times_that_belong_to_something_else_are_no_measurement(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RunError, match=said):
        check_times(dataclasses.replace(ANSWER, **changes), 8)


def test_a_prompt_has_exactly_as_many_tokens_as_were_asked_for() -> None:
    class Words:
        """A vocabulary of words, with a first token that is put before each text."""

        def tokenize(self, text: str, *, special: bool) -> tuple[int, ...]:
            return (0, *(len(word) for word in text.split()))

    for tokens in (1, 5, 400):
        prompt = prompt_of(Words(), tokens)  # type: ignore[arg-type]
        assert len(prompt) == tokens and prompt[0] == 0
    assert prompt_of(Words(), 5)[1:] == (3, 5, 2, 3)  # type: ignore[arg-type]  # The ferry to the


def test_an_answer_that_breaks_off_is_the_servers_fault_only_when_it_is() -> None:
    class Server:
        failure: Exception | None = None

        def check(self) -> None:
            if self.failure is not None:
                raise self.failure

    server = Server()
    with pytest.raises(AnswerCut), blamed_on(server):  # type: ignore[arg-type]
        raise AnswerCut("cut")
    server.failure = ProgramCrashed("killed")
    with pytest.raises(ProgramCrashed), blamed_on(server):  # type: ignore[arg-type]
        raise AnswerCut("cut")
    with pytest.raises(ValueError, match="ours"), blamed_on(server):  # type: ignore[arg-type]
        raise ValueError("ours")
