"""bench.eval.evaluate: forty questions to a server on loopback that answers well and badly."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from bench.endpoint.answer import Answer
from bench.endpoint.client import KEY_VARIABLE, Endpoint
from bench.eval import record as records
from bench.eval.evaluate import evaluate
from bench.eval.record import ANSWERS, find_eval, read_answers, read_eval
from bench.eval.request import EvalOutcome, EvalPlan, EvalRequest, read_budgets
from core.errors import (
    AnswerCut,
    EndpointRefused,
    IntegrityError,
    Interrupted,
    NotEnoughSpace,
    TemplateUnfit,
    UnlikeRecords,
    UsageError,
)
from core.record_folder import check_record
from core.session import Session
from tests.shared.model_server import ModelServer
from tests.support.asked_models import COUNT, known_answer, write_questions


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(answer=known_answer) as server:
        yield server


@pytest.fixture
def ask(session: Session, server: ModelServer, tmp_path: Path) -> Callable[..., EvalOutcome]:
    questions = write_questions(tmp_path / "forty.jsonl")

    def run(resume: bool = False, openai: bool = False, at_most: float | None = None, **plan: Any) -> EvalOutcome:
        request = EvalRequest(
            endpoint="" if resume else server.url,
            openai=openai,
            plan=EvalPlan(data=str(questions), **plan),
            resume=find_eval(session, "latest") if resume else None,
            at_most=at_most,
        )
        return evaluate(session, request)

    return run


def by_budget(outcome: EvalOutcome) -> dict[int, float]:
    return {row["budget"]: row["accuracy"]["strict"]["value"] for row in outcome.content["results"]}


def answers_of(outcome: EvalOutcome) -> list[dict[str, Any]]:
    return list(read_answers(outcome.record))


def test_each_budget_has_the_accuracy_that_was_worked_out_by_hand(ask: Callable[..., EvalOutcome]) -> None:
    outcome = ask(budgets=(2, 10, 20, 32))
    # Below 10 tokens the boxes of k = 0..7 are whole, below 20 those of k = 0..17, below 32 those of k = 0..29, of which
    # the last one is wrong.
    assert by_budget(outcome) == {2: 0.0, 10: 8 / 40, 20: 18 / 40, 32: 29 / 40, 1024: 29 / 40}
    ten, whole = outcome.content["results"][1], outcome.content["results"][-1]
    assert (ten["truncated"], ten["no_answer"], ten["source"]) == (33, 32, "cut")
    assert (whole["truncated"], whole["no_answer"], whole["source"]) == (0, 0, "whole")
    # z = 1.959964, centre (0.725 + 0.0480182) / 1.0960365, half width 0.133635: from 0.57165 to 0.83892.
    interval = whole["accuracy"]["lenient"]
    assert (round(interval["low"], 4), round(interval["high"], 4)) == (0.5717, 0.8389)
    assert outcome.content["valid"] is True
    assert outcome.content["prefix"]["verified"] == 2  # of 40 questions one in 20
    assert check_record(outcome.record).is_unchanged
    assert read_eval(outcome.record)["state"] == "done"


def test_one_long_answer_for_each_question_and_few_more(server: ModelServer, ask: Callable[..., EvalOutcome]) -> None:
    ask(budgets=(10, 20, 32))
    limits = [request.body["n_predict"] for request in server.asked()]
    assert limits.count(1024) == COUNT
    assert len(limits) == COUNT + 2


def test_what_was_sent_and_came_is_kept_to_the_token(server: ModelServer, ask: Callable[..., EvalOutcome]) -> None:
    outcome = ask(limit=1)
    [line] = answers_of(outcome)
    [sent] = server.asked()
    assert sent.body["prompt"] == line["prompt_tokens"] == server.tokenize(line["prompt"])
    assert (sent.body["temperature"], sent.body["cache_prompt"]) == (0, False)
    assert line["prompt"].startswith("<|im_start|>user\nHow much is 100 and ")
    assert line["prompt"].endswith("\\boxed{}.<|im_end|>\n<|im_start|>assistant\n")
    assert "".join(piece["text"] for piece in line["pieces"]) == line["text"] == "".join(known_answer(line["prompt"]))
    assert [piece["server_ms"] for piece in line["pieces"][:2]] == [0.001, 10.001]
    assert [piece["at"] for piece in line["pieces"]] == sorted(piece["at"] for piece in line["pieces"])
    assert line["verdicts"]["whole"]["rule"] == "box"
    assert (line["finish"], line["truncated"], line["generated"]) == ("stop", False, len(line["pieces"]))


def test_an_answer_under_a_budget_that_is_another_one_ends_the_cutting_and_every_budget_is_asked(
    server: ModelServer, ask: Callable[..., EvalOutcome]
) -> None:
    server.fault("swap", after=0, at_limit=10, times=-1)
    outcome = ask(budgets=(10, 20))
    prefix = outcome.content["prefix"]
    assert prefix["used"] is False
    assert [differs["budget"] for differs in prefix["differs"]] == [10]
    # Where fewer than 10 tokens were given, nothing was cut and the whole answer holds: k = 0..6.
    assert by_budget(outcome) == {10: 7 / 40, 20: 18 / 40, 1024: 29 / 40}
    assert outcome.content["results"][0]["source"] == "asked"
    limits = [request.body["n_predict"] for request in server.asked()]
    assert (limits.count(1024), limits.count(10), limits.count(20)) == (40, 33, 23)
    assert any("every budget is therefore asked for" in note for note in outcome.content["notes"])


def test_a_server_that_sends_several_tokens_at_once_is_asked_for_every_budget(
    server: ModelServer, ask: Callable[..., EvalOutcome]
) -> None:
    server.merged = 3
    outcome = ask(openai=True, budgets=(10,))
    assert by_budget(outcome) == {10: 8 / 40, 1024: 29 / 40}
    assert outcome.content["prefix"]["used"] is False
    assert "several tokens in one piece" in outcome.content["prefix"]["why"]


def test_a_told_budget_stands_in_the_prompt_and_has_answers_of_its_own(
    server: ModelServer, ask: Callable[..., EvalOutcome]
) -> None:
    outcome = ask(limit=5, prompt="budget", budgets=(10, 33))
    told = [(line["limit"], line["told"]) for line in answers_of(outcome)]
    assert told == [(10, 5), (33, 16)] * 5
    for line in answers_of(outcome):
        assert f"below {line['told']} tokens" in line["prompt"]
    assert [row["told"] for row in outcome.content["results"]] == [5, 16]
    assert {request.body["n_predict"] for request in server.asked()} == {10, 33}


def test_an_openai_server_is_asked_several_questions_at_once_and_counts_the_same(
    server: ModelServer, ask: Callable[..., EvalOutcome]
) -> None:
    server.counts_end = True
    outcome = ask(openai=True, concurrency=4, budgets=(10, 20))
    assert by_budget(outcome) == {10: 8 / 40, 20: 18 / 40, 1024: 29 / 40}
    assert server.most_at_once <= 4
    assert outcome.content["server"]["interface"] == "/v1/chat/completions"
    assert outcome.content["model"]["name"] == "stub"
    assert outcome.content["prefix"]["used"] is True


def test_a_llama_server_is_asked_one_question_at_a_time(ask: Callable[..., EvalOutcome]) -> None:
    with pytest.raises(UsageError, match="several questions at once"):
        ask(concurrency=2)


def test_a_cut_answer_ends_it_and_the_rest_is_asked_later(
    server: ModelServer, ask: Callable[..., EvalOutcome], session: Session
) -> None:
    server.fault("cut", after=2, skip=12)
    with pytest.raises(AnswerCut) as failed:
        ask(budgets=(10,))
    folder = find_eval(session, "latest")
    assert failed.value.details["record"] == str(folder)
    half = read_eval(folder)
    assert (half["state"], half["valid"], half["answers"]["count"]) == ("failed", None, 12)
    outcome = ask(resume=True)
    assert outcome.record == folder
    assert by_budget(outcome) == {10: 8 / 40, 1024: 29 / 40}
    asked = [(line["id"], line["limit"]) for line in answers_of(outcome)]
    assert len(asked) == len(set(asked)) == len(server.asked()) - 1
    with pytest.raises(UsageError, match="has come to its end"):
        ask(resume=True)


def test_ctrl_c_keeps_the_answers_and_says_how_to_go_on(
    ask: Callable[..., EvalOutcome], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, calls = Endpoint.answer, iter(range(100))

    def stopped(self: Endpoint, *arguments: Any) -> Answer:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return answer(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Endpoint, "answer", stopped)
        with pytest.raises(Interrupted, match="3 answers are kept") as end:
            ask(limit=5)
    folder = find_eval(session, "latest")
    assert f"--resume {folder.name}" in end.value.remedy
    assert (read_eval(folder)["state"], read_eval(folder)["answers"]["count"]) == ("interrupted", 3)
    assert ask(resume=True).content["results"][-1]["n"] == 5


def test_a_server_that_was_not_there_is_asked_when_it_is(
    server: ModelServer, ask: Callable[..., EvalOutcome], session: Session
) -> None:
    server.fault("status", code=400, said="loading went wrong")
    with pytest.raises(EndpointRefused):
        ask(limit=2, openai=True)
    server.is_llama = False
    outcome = ask(resume=True)
    assert (outcome.content["results"][-1]["n"], outcome.content["server"]["kind"]) == (2, "openai")


def test_a_password_in_an_address_comes_into_no_record(session: Session) -> None:
    with pytest.raises(UsageError):
        EvalRequest(endpoint="http://me:sk-1@127.0.0.1:9")
    assert not session.settings.runs.exists()


def test_a_full_disk_at_the_seventh_answer_loses_none_of_the_six(
    server: ModelServer, ask: Callable[..., EvalOutcome], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(100))

    def fill(descriptor: int) -> None:
        if next(calls) == 6:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(records, "flush_to_disk", fill)
        with pytest.raises(NotEnoughSpace):
            ask()
    assert len(list(read_answers(find_eval(session, "latest")))) == 6
    outcome = ask(resume=True)
    assert by_budget(outcome) == {1024: 29 / 40}
    assert len(answers_of(outcome)) == COUNT


def test_half_a_line_of_a_killed_process_is_asked_again(
    server: ModelServer, ask: Callable[..., EvalOutcome], session: Session
) -> None:
    server.fault("cut", after=0, skip=3)
    with pytest.raises(AnswerCut):
        ask(limit=5)
    file = find_eval(session, "latest") / ANSWERS
    file.write_bytes(file.read_bytes()[:-40])
    outcome = ask(resume=True)
    assert len({line["id"] for line in answers_of(outcome)}) == len(answers_of(outcome)) == 5


def test_another_template_or_other_questions_are_not_gone_on_with(
    server: ModelServer, ask: Callable[..., EvalOutcome], tmp_path: Path
) -> None:
    server.fault("cut", after=0, skip=3)
    with pytest.raises(AnswerCut):
        ask(limit=5)
    template = server.template
    server.template = template.replace("user", "person") + " "
    with pytest.raises(UnlikeRecords, match="template was"):
        ask(resume=True)
    server.template = template
    (tmp_path / "forty.jsonl").write_text('{"question": "What is 1 + 1?", "answer": 2}\n')
    with pytest.raises(IntegrityError, match="not the file of questions"):
        ask(resume=True)


def test_markers_that_the_vocabulary_does_not_have_are_named_before_the_first_question(
    server: ModelServer, ask: Callable[..., EvalOutcome]
) -> None:
    server.markers = ("<|begin_of_text|>", "<|eot_id|>", "<s>")
    with pytest.raises(TemplateUnfit, match=r"<\|im_start\|> \(12 tokens\), <\|im_end\|> \(10 tokens\)"):
        ask(limit=2)
    assert server.asked() == []
    outcome = ask(limit=2, anyway=True)
    assert outcome.content["valid"] is False
    assert [flag["name"] for flag in outcome.content["flags"]] == ["template"]


@pytest.mark.parametrize(("template", "by"), [("<s>[{{ messages[0].content }}]", "template"), (None, "tokenizer")])
def test_each_prompt_begins_with_one_token_of_beginning_whoever_adds_it(
    server: ModelServer, ask: Callable[..., EvalOutcome], template: str | None, by: str
) -> None:
    server.adds_bos = True
    server.template = template or server.template
    outcome = ask(limit=2)
    bos = server.markers.index("<s>")
    assert outcome.content["template"]["bos"] == {"id": bos, "count": 1, "by": by}
    for request in server.asked():
        assert request.body["prompt"].count(bos) == 1
        assert request.body["prompt"][0] == bos


def test_it_stops_when_the_interval_is_as_narrow_as_was_asked(ask: Callable[..., EvalOutcome]) -> None:
    outcome = ask(until_width=0.35)
    assert outcome.content["ended_because"] == "narrow enough"
    [row] = outcome.content["results"]
    assert row["n"] == 30  # the least; the interval of 30 at 0.725 is 0.31 wide
    assert ask(until_width=0.01).content["ended_because"] == "all items"


def test_it_ends_when_its_time_is_over_and_can_be_gone_on_with(
    server: ModelServer, ask: Callable[..., EvalOutcome], capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = ask(at_most=0.0)
    assert outcome.content["ended_because"] == "time"
    [row] = outcome.content["results"]
    assert row["n"] == 1
    assert "40 questions: where 60% are right, the 95 % interval is 29 points wide" in capsys.readouterr().out
    again = ask(resume=True)
    assert (again.record, again.content["ended_because"]) == (outcome.record, "all items")
    assert len({line["id"] for line in answers_of(again)}) == len(answers_of(again)) == len(server.asked()) == COUNT
    out = capsys.readouterr().out
    assert "for the other 36 questions" in out
    with pytest.raises(UsageError, match="nothing to go on with"):
        ask(resume=True)


def test_too_little_time_is_told_with_how_many_questions_fit_and_what_that_costs(
    ask: Callable[..., EvalOutcome], capsys: pytest.CaptureFixture[str]
) -> None:
    # By its clock the server takes 10 ms a token, and 37 more answers of 4 to 43 tokens take some 8 s.
    ask(at_most=6.0)
    said = re.search(
        r"about (\d+) of 40 questions will be asked, and the interval is then (\d+) points wide instead of 29; "
        r"`--limit (\d+)`",
        " ".join(capsys.readouterr().err.split()),
    )
    assert said is not None
    fitting, points, limit = map(int, said.groups())
    assert 3 <= fitting == limit < 40
    interval = binomtest(round(0.6 * fitting), fitting).proportion_ci(method="wilson")
    assert points == round(100 * (interval.high - interval.low))


def test_the_key_stands_in_no_file_of_the_record(
    server: ModelServer, ask: Callable[..., EvalOutcome], monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-0123456789")
    outcome = ask(limit=2)
    assert all(request.headers["authorization"] == "Bearer sk-0123456789" for request in server.seen)
    server.fault("status", code=401, said="no such key: sk-0123456789")
    with pytest.raises(EndpointRefused, match="no such key"):
        ask(limit=2)
    for folder in (outcome.record, find_eval(session, "latest")):
        for file in folder.iterdir():
            assert b"sk-0123456789" not in file.read_bytes()


def test_other_conditions_that_change_answers_are_told(server: ModelServer, ask: Callable[..., EvalOutcome]) -> None:
    server.cached = 5
    outcome = ask(limit=2, max_tokens=6)
    assert [flag["name"] for flag in outcome.content["flags"]] == ["prompt-cache"]
    assert outcome.content["valid"] is False


def test_whole_answers_that_the_limit_cuts_are_told(ask: Callable[..., EvalOutcome]) -> None:
    outcome = ask(max_tokens=20)
    assert any(note.startswith("23 of 40 whole answers were cut at 20 tokens") for note in outcome.content["notes"])


def test_plans_that_make_no_sense_are_refused() -> None:
    for plan in (
        {"prompt": "budget"},
        {"budgets": (64, 2048)},
        {"max_tokens": 0},
        {"told_share": 1.5},
        {"until_width": 2.0},
    ):
        with pytest.raises(UsageError):
            EvalPlan(**plan)  # type: ignore[arg-type]
    assert read_budgets("128, 64,128") == (64, 128)
    for text in ("64,x", "0", "-3", "1.5"):
        with pytest.raises(UsageError):
            read_budgets(text)


def test_the_record_keeps_how_it_is_done_again(ask: Callable[..., EvalOutcome]) -> None:
    content = ask(limit=3, seed=7).content
    again = ask(limit=3, seed=7).content
    assert content["data"]["ids"] == again["data"]["ids"]
    assert content["data"]["sha256"] == again["data"]["sha256"]
    other = ask(limit=3, seed=8).content
    assert content["data"]["ids"] != other["data"]["ids"]
