"""Records as answers with times, and a board's times for them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.eval.curves import time_curve, token_curve
from bench.eval.evaluate import evaluate
from bench.eval.record import ANSWER, read_answers
from bench.eval.request import EvalOutcome, EvalPlan, EvalRequest
from bench.eval.timed import board_latency, foresee, read_timed_answers
from bench.llama import measure_llama
from core.errors import UsageError
from core.session import Session
from tests.shared.model_server import ModelServer
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.asked_models import RIGHT, known_answer, write_questions
from tests.support.bench_board import bench_of, use_bench, write_bench
from tests.support.local_board import LocalBoard


def shares(curve: object) -> list[float]:
    return [point.strict.value for point in curve.points()]  # type: ignore[attr-defined]


def test_answers_of_a_record_are_right_under_the_limits_that_the_record_says_and_under_others(
    outcome: EvalOutcome,
) -> None:
    answers = read_timed_answers(outcome.record)
    assert [answer.id for answer in answers] == outcome.content["data"]["ids"]
    # The box of question k is whole after k + 3 tokens; a whole answer is not cut.
    assert shares(token_curve("m", answers, [10, 20, 25, 1024], "s")) == [8 / 40, 18 / 40, 23 / 40, 29 / 40]
    recorded = [row["accuracy"]["strict"]["value"] for row in outcome.content["results"]]
    assert shares(token_curve("m", answers, [10, 20, 1024], "s")) == recorded


def test_times_are_the_servers_behind_the_first_token(outcome: EvalOutcome) -> None:
    whole = next(line for line in read_answers(outcome.record) if line["purpose"] == ANSWER)
    answer = next(answer for answer in read_timed_answers(outcome.record) if answer.id == whole["id"])
    assert answer.seconds[0] == whole["pieces"][0]["at"]
    # The server that answers here says 10 ms for each token.
    assert np.diff(answer.seconds) == pytest.approx([0.01] * (len(answer.pieces) - 1))
    for piece in whole["pieces"]:
        piece["server_ms"] = None
    (outcome.record / "answers.jsonl").write_text(json.dumps(whole) + "\n")
    (again,) = read_timed_answers(outcome.record)
    assert list(again.seconds) == [piece["at"] for piece in whole["pieces"]]


def test_the_token_that_ends_an_answer_counts_although_it_has_no_piece(outcome: EvalOutcome) -> None:
    whole = next(line for line in read_answers(outcome.record) if line["purpose"] == ANSWER)
    count = len(whole["pieces"])
    whole.update(generated=count + 1, seconds=99.0)
    (outcome.record / "answers.jsonl").write_text(json.dumps(whole) + "\n")
    (answer,) = read_timed_answers(outcome.record)
    assert (len(answer.pieces), answer.seconds[-1]) == (count + 1, 99.0)
    assert [answer.within_tokens(tokens).truncated for tokens in (count, count + 1)] == [True, False]


def test_a_benchs_speeds_give_the_times_of_a_board_and_say_so(
    session: Session, tmp_path: Path, outcome: EvalOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bench(monkeypatch, write_bench(tmp_path), LocalBoard(tmp_path / "board"))
    bench = measure_llama(session, bench_of(write_tiny_gguf(tmp_path / "tiny.gguf"), threads=(1,))).record
    latency = board_latency(bench, "tiny")
    assert latency.source.startswith("answers from host, times from board (board ")
    assert latency.source.endswith("; 1 thread; regime not known)")
    timed = [latency.time(answer) for answer in read_timed_answers(outcome.record)]
    # That board reads 100 and writes 10 tokens a second: the box of question k is there after the prompt and k + 2 more.
    lengths = {line["question"]: len(line["prompt_tokens"]) for line in read_answers(outcome.record)}
    ready = [lengths[f"How much is 100 and {k}?"] / 100 + (k + 2) / 10 for k in range(RIGHT)]
    budgets = [0.01, 1.5, 2.5, 60.0]
    assert shares(time_curve("m", timed, budgets, latency.source)) == [
        sum(t <= budget for t in ready) / 40 for budget in budgets
    ]
    with pytest.raises(UsageError, match=r"no speeds of both prefill and decode for other; its models: tiny\.$"):
        board_latency(bench, "other")


def test_what_the_first_answers_took_says_what_the_others_will() -> None:
    # The first token after half a second, ten more of 10 ms each.
    pieces = [{"text": "x", "at": 0.5, "server_ms": 10.0 * place} for place in range(11)]
    line = {"id": "1", "gold": "7", "evaluated": 40, "generated": 11, "truncated": False, "token_in_each_piece": True}
    lines = [{**line, "pieces": pieces}] * 3
    need = foresee(EvalPlan(max_tokens=101), lines, 100, each=7.0)
    assert (need.tokens, need.seconds, need.most_seconds) == pytest.approx((1100, 100 * 0.6, 100 * 1.5))
    # One question in twenty is asked again where budgets are cut from whole answers.
    assert foresee(EvalPlan(budgets=(8,)), lines, 100, each=7.0).seconds == pytest.approx(105 * 0.6)
    # Of each budget that the prompt names there is an answer: 8 tokens, and all 11.
    told = EvalPlan(prompt="budget", budgets=(8, 32))
    assert foresee(told, lines, 100, each=7.0).seconds == pytest.approx(100 * (0.57 + 0.6))
    # Of these nothing is known but how long they took: no time of a token, no count of the prompt, no token.
    for lacks in (
        {"token_in_each_piece": False},
        {"evaluated": None, "prompt_tokens": None},
        {"generated": 0, "pieces": []},
    ):
        assert foresee(EvalPlan(), [{**each, **lacks} for each in lines], 100, each=7.0).seconds == pytest.approx(700)


@pytest.mark.parametrize(("merged", "prompt", "said"), [(3, "direct", "is not known"), (0, "budget", "none is whole")])
def test_answers_that_cannot_be_cut_are_refused(
    session: Session, tmp_path: Path, merged: int, prompt: str, said: str
) -> None:
    with ModelServer(answer=known_answer) as server:
        server.merged = merged or server.merged
        plan = EvalPlan(data=str(write_questions(tmp_path / "forty.jsonl")), limit=12, budgets=(8,), prompt=prompt)
        record = evaluate(session, EvalRequest(endpoint=server.url, openai=merged > 0, plan=plan)).record
    with pytest.raises(UsageError, match=said):
        read_timed_answers(record)


def test_answers_of_a_server_that_answers_otherwise_under_a_limit_are_refused(session: Session, tmp_path: Path) -> None:
    with ModelServer(answer=known_answer) as server:
        server.fault("swap", after=0, at_limit=8, times=-1)
        plan = EvalPlan(data=str(write_questions(tmp_path / "forty.jsonl")), limit=12, budgets=(8,))
        record = evaluate(session, EvalRequest(endpoint=server.url, plan=plan)).record
    with pytest.raises(UsageError, match="cannot be cut: an answer under a budget was not the beginning"):
        read_timed_answers(record)
