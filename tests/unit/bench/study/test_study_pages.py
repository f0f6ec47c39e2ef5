"""What a study tells: before it starts, and of what it has found."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.eval.evaluate import evaluate
from bench.eval.request import EvalPlan, EvalRequest
from bench.study.evidence import Evidence, gather
from bench.study.forecast import plan_study
from bench.study.report import StudyReportRequest, report_study
from bench.study.spec import BENCH, EVALUATE, Study, read_study
from bench.study.state import DONE, CellState, StudyFolder
from bench.study.times import token_times
from bench.study.versus import compare_models
from core.session import PROJECT, Session
from tests.shared.bench_records import write_bench_record
from tests.shared.model_server import ModelServer
from tests.support.asked_models import COUNT, known_answer, write_questions

HALF = """\
title: two files of one model
models: {small: {source: small.gguf}, large: {source: large.gguf}}
boards: [dayu200]
bench: {prompt: 128, generate: 32, threads: [1]}
evaluate: {data: DATA, prompts: [direct], budgets: [10, 20, 32], on_host: true}
compare: {first: small, second: large, budget: 20}
"""


@pytest.fixture
def study(session: Session, tmp_path: Path) -> Study:
    """Both models give the same answers; the large one's board takes twice as long."""
    return write_study(session, tmp_path, HALF)


def write_study(session: Session, tmp_path: Path, text: str) -> Study:
    """A study all of whose cells are done; benches are of servers without settings."""
    questions = write_questions(tmp_path / "forty.jsonl")
    path = tmp_path / "half.yaml"
    path.write_text(text.replace("DATA", str(questions)))
    study = read_study(path, lambda source: "")
    folder = StudyFolder.of(session.settings.runs, path)
    with ModelServer(answer=known_answer) as server:
        plan = EvalPlan(data=str(questions), budgets=(10, 20, 32))
        answers = evaluate(session, EvalRequest(endpoint=server.url, plan=plan)).record
    for cell in study.cells():
        name = cell.parameters["model"]
        if cell.kind == EVALUATE:
            record = answers
        else:
            record = write_bench_record(
                tmp_path / name,
                models=(name,),
                threads=(1,),
                emulated=True,
                serial="emulated-dayu200",
                speed=1.0 if name == "small" else 0.5,
            )
        folder.write(CellState(cell=cell, state=DONE, result={"record": str(record)}, seconds=60))
    return study


def test_the_studys_days_on_its_board_are_those_that_were_worked_out(session: Session) -> None:
    plan = plan_study(session, read_study(PROJECT / "studies" / "equal-time.yaml", lambda source: ""))
    days = {each.cell.title: (each.seconds or 0) / 86400 for each in plan.forecasts}
    # 1319 answers of 150 tokens at 18.18 and at 49.73 s a token: 41.6 and 113.9 days, less a first token, with a prefill.
    assert days["evaluate small/Q2_K budget at 200 tokens on dayu200-1"] == pytest.approx(41.6, rel=0.01)
    assert days["evaluate large/Q8_0 budget at 200 tokens on dayu200-1"] == pytest.approx(113.9, rel=0.01)
    # A prompt that names no limit is asked once for all, and a part of it twice.
    assert days["evaluate small/Q2_K direct on dayu200-1"] == pytest.approx(41.6 * 1.05, rel=0.01)
    assert plan.unknown == ["quantize small/Q2_K", "quantize large/Q8_0"]


def test_too_long_a_plan_says_what_can_be_dropped(session: Session) -> None:
    study = read_study(PROJECT / "studies" / "equal-time.yaml", lambda source: "")
    assert plan_study(session, study).savings == []
    savings = plan_study(session, study, hours=24 * 100).savings
    assert savings[0].fits
    assert "of 1319 items" in savings[0].what


def test_what_nobody_knows_is_left_out_of_the_sum(session: Session) -> None:
    plan = plan_study(session, read_study(PROJECT / "studies" / "demo.yaml", lambda source: ""))
    assert (len(plan.left), len(plan.unknown), plan.seconds) == (6, 6, 0)
    asked = [each for each in plan.forecasts if each.cell.kind == EVALUATE]
    # Eight questions, one in twenty of them again, each up to 96 tokens.
    assert [(each.answers, each.tokens) for each in asked] == [(pytest.approx(8.4), pytest.approx(8.4 * 96))] * 2


def test_times_of_the_board_are_given_to_answers_from_elsewhere(session: Session, study: Study) -> None:
    evidence = evidence_of(session, study)
    found = {each.model: each for each in evidence.answered}
    small, large = (evidence.timed(found[name])[0] for name in ("small", "large"))
    assert small.emulated
    assert small.source.startswith("answers from host, times from board (board emulated-dayu200; 1 thread")
    assert "emulated" in small.source
    assert large.seconds_per_token == pytest.approx(2 * small.seconds_per_token, rel=0.05)


def test_the_same_answers_in_twice_the_time(session: Session, study: Study) -> None:
    versus = compare_models(study.content["compare"], ["direct"], evidence_of(session, study))
    assert versus.in_tokens is not None
    assert [share.value for share in versus.in_tokens.differences] == [0, 0, 0, 0]
    assert (versus.planned.first_only, versus.planned.second_only) == (0, 0) if versus.planned else False
    (in_time,) = versus.in_time
    # Half as many tokens are never more right ones, and in between they are fewer.
    values = [share.value for share in in_time.differences]
    assert max(values) <= 0
    assert min(values) < -0.1
    assert in_time.crossing.at is None
    assert in_time.crossing.before == "small"
    (ratio,) = versus.ratios
    assert (ratio.quick.model, ratio.slow.model) == ("small", "large")
    assert ratio.ratio == pytest.approx(2, rel=0.05)
    row = ratio.rows[1]
    # Within 20 tokens 18 of 40 are right, within 10 tokens 8; the prefill, twice as long as well, leaves still fewer.
    assert (row.quick_tokens, row.by_ratio) == (20, 10)
    assert (row.quick.value, row.slow_by_ratio.value) == (18 / COUNT, 8 / COUNT)
    assert row.by_time < row.by_ratio


@pytest.mark.parametrize("ending", ["html", "md"])
def test_the_page_names_where_times_are_from_and_that_they_are_emulated(
    session: Session, study: Study, tmp_path: Path, ending: str
) -> None:
    made = report_study(session, study, StudyReportRequest(output=str(tmp_path / f"page.{ending}")))
    text = made.path.read_text(encoding="utf-8").replace("\\", "")
    assert made.emulated
    assert "EMULATED" in text
    assert "nswers from host, times from board (board emulated-dayu200" in text
    assert "Whole: all 4 cells are done" in text
    assert "n = 40" in text
    assert "No crossing in range: small is ahead" in text


def evidence_of(session: Session, study: Study) -> Evidence:
    folder = StudyFolder.of(session.settings.runs, study.path)
    return gather([state for cell in study.cells() if (state := folder.read(cell))])


def test_answers_under_other_settings_are_neither_compared_nor_given_times_of_a_board_without_them(
    session: Session, tmp_path: Path
) -> None:
    servers = "on_host: true, servers: [{}, {cache-k: q8_0}]"
    study = write_study(session, tmp_path, HALF.replace("on_host: true", servers))
    evidence = evidence_of(session, study)
    assert len(evidence.answered) == 4
    plain, quantised = (evidence.find("small", "direct", settings) for settings in study.servers)
    assert (len(plain), len(quantised)) == (1, 1)
    assert [timed.place for timed in evidence.timed(plain[0])] == ["dayu200"]
    assert [timed.place for timed in evidence.timed(quantised[0])] == ["host"]
    made = report_study(session, study, StudyReportRequest(output=str(tmp_path / "page.md")))
    assert made.versus is not None
    # The first settings are compared where none are named: one pair, on the board that was measured with them.
    assert (str(made.versus.settings), [equal.place for equal in made.versus.in_time]) == ("", ["dayu200"])
    text = made.path.read_text(encoding="utf-8").replace("\\", "")
    assert "Prompt: direct; servers with cache-k q8_0" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| cache-k q8_0 |")][:1]
    # Both have the same record behind them: 29 of 40 right, all answers alike.
    assert "| 40 | 72.5% (57.2% to 83.9%) | 40 of 40 |" in row


def test_what_a_token_takes_is_that_of_the_server_with_its_interval(session: Session, study: Study) -> None:
    times = token_times(evidence_of(session, study).answered[0])
    assert times is not None
    # The server's clock says 10 ms for every further token, k + 3 of them in answer k.
    assert (times.token.median, times.token.low, times.token.high) == (pytest.approx(0.01),) * 3
    assert (times.token.n, times.single.n) == (COUNT, sum(k + 3 for k in range(COUNT)))
    assert [position.median for position in times.positions] == pytest.approx([0.01] * len(times.positions))
    assert times.positions[-1].at > 30


def test_the_page_has_models_side_by_side_what_was_cut_and_without_a_box_and_what_a_token_takes(
    session: Session, study: Study, tmp_path: Path
) -> None:
    made = report_study(session, study, StudyReportRequest(output=str(tmp_path / "page.md")))
    text = made.path.read_text(encoding="utf-8").replace("\\", "")
    assert "The models side by side" in text
    assert "Answers that were cut, and without a box" in text
    # Within 10 tokens 33 of 40 answers are cut; 8 boxes are whole, so that 32 have none.
    assert any("| 10 | 40 |" in line and "| 33 | 32 | 32 |" in line for line in text.splitlines())
    assert "Per-token latency" in text
    assert "EMULATED, bench, small, 1 thread, in RAM" in text


def test_a_page_of_half_a_study_says_what_is_left(session: Session, study: Study, tmp_path: Path) -> None:
    folder = StudyFolder.of(session.settings.runs, study.path)
    for cell in study.cells():
        if cell.parameters["model"] == "large" or cell.kind == BENCH:
            (folder.path / "cells" / f"{cell.key}.json").unlink()
    made = report_study(session, study, StudyReportRequest(output=str(tmp_path / "page.md")))
    text = made.path.read_text(encoding="utf-8").replace("\\", "")
    assert "Not whole: 1 of 4 cells are done" in text
    assert "Not compared: large has no answers yet" in text
    assert not made.emulated


def test_without_any_cell_done_there_is_a_page(session: Session, study: Study, tmp_path: Path) -> None:
    for cell in study.cells():
        (StudyFolder.of(session.settings.runs, study.path).path / "cells" / f"{cell.key}.json").unlink()
    made = report_study(session, study, StudyReportRequest(output=str(tmp_path / "page.html")))
    assert len(made.progress.left) == 4
