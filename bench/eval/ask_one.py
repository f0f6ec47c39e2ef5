"""One question to a server that is there, wherever it is asked from; nothing is kept here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from bench.endpoint.answer import Piece
from bench.eval.answers import Asked, answer_line
from bench.eval.grading import Verdict
from bench.eval.progress import Job
from bench.eval.prompts import write_prompt
from bench.eval.record import ANSWER
from bench.eval.request import EvalPlan
from bench.eval.servers import Server
from core.errors import AnswerCut, EndpointSilent, EndpointUnreached, OhforgeError
from core.record_folder import now

Line = dict[str, Any]


def ask_one(
    server: Server, job: Job, wording: str, plan: EvalPlan, on_piece: Callable[[Piece], None] | None = None
) -> tuple[Line, dict[str, Verdict]]:
    """The line of an answer as records keep it, and its verdicts; `wording` is the prompt's template.

    Raises what has ended the server, or the way to it, and what its client raises.
    """
    message = write_prompt(wording, job.item.question, job.told)
    try:
        ask, prompt = server.asker.ask(message, job.limit)
        ask = dataclasses.replace(ask, seed=plan.sampling_seed)
        sent = now()
        answer = server.endpoint.answer(ask, on_piece)
    except (AnswerCut, EndpointSilent, EndpointUnreached):
        server.check()
        raise
    except OhforgeError as error:
        error.details.setdefault("item", job.item.id)
        raise
    asked = Asked(
        id=job.item.id,
        question=job.item.question,
        gold=job.item.gold,
        purpose=job.purpose,
        limit=job.limit,
        told=job.told,
        prompt=prompt,
        prompt_tokens=ask.prompt if isinstance(ask.prompt, tuple) else None,
        sent=sent,
    )
    return answer_line(asked, answer, cuts_of(plan, job.purpose, job.limit))


def cuts_of(plan: EvalPlan, purpose: str, limit: int) -> tuple[int, ...]:
    """The budgets under which an answer is judged as well."""
    is_whole = purpose == ANSWER and limit == plan.max_tokens and not plan.names_budgets
    return plan.budgets if is_whole else ()
