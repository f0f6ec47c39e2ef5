"""study.plan --boards: how long a study takes with more boards, by hand."""

from __future__ import annotations

import pytest

from bench.study.forecast import plan_study
from bench.study.spec import read_study
from core.session import PROJECT, Session

SMALL, LARGE = 18.18, 49.73
PREFILL = 128 * 0.14
"""Of a prompt with its question, for which 128 tokens are taken."""


def test_six_models_and_three_prompts_over_1319_questions_on_1_10_and_100_boards(session: Session) -> None:
    study = read_study(PROJECT / "studies" / "lab.yaml", lambda source: "")
    plan = plan_study(session, study, boards=(1, 10, 100))
    assert len(plan.left) == 18
    # An answer has 150 tokens, of which the first comes with the prefill; one in twenty questions is asked again, but
    # not where the limit is told. Of each speed there are three models.
    answers = [PREFILL + 149 * speed for speed in (SMALL, LARGE)]
    one_question = 3 * sum(2 * 1.05 * answer + answer for answer in answers)
    for boards, rounds in ((1, 1319), (10, 132), (100, 14)):
        assert plan.seconds_with(boards) == pytest.approx(rounds * one_question)
    # In days: 1441.7, 144.3 and 15.3.
    assert [round(plan.seconds_with(boards) / 86400, 1) for boards in (1, 10, 100)] == [1441.7, 144.3, 15.3]
    assert plan.seconds == pytest.approx(plan.seconds_with(1))
    assert plan.as_json()["with_boards"]["10"] == {"seconds": plan.seconds_with(10)}
