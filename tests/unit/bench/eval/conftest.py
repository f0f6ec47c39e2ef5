"""An evaluation that has come to its end, of a model whose right answers are known by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.eval.evaluate import evaluate
from bench.eval.request import EvalOutcome, EvalPlan, EvalRequest
from core.session import Session
from tests.shared.model_server import ModelServer
from tests.support.asked_models import known_answer, write_questions


@pytest.fixture
def outcome(session: Session, tmp_path: Path) -> EvalOutcome:
    """Forty questions, of which 29 are right, 8 of them within 10 tokens and 18 within 20."""
    with ModelServer(answer=known_answer) as server:
        plan = EvalPlan(data=str(write_questions(tmp_path / "forty.jsonl")), budgets=(10, 20))
        return evaluate(session, EvalRequest(endpoint=server.url, plan=plan))
