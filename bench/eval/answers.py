"""Lines of ``answers.jsonl``: one answer as it was asked for and came, with what is thought of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.endpoint.answer import UNKNOWN, Answer
from bench.eval.grading import Verdict, grade, read_gold
from bench.eval.record import WHOLE
from core.errors import InvalidData


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was sent for one answer."""

    id: str
    question: str
    gold: str
    purpose: str
    """`bench.eval.record.ANSWER` or `CHECK`."""
    limit: int
    """Tokens that the server was allowed."""
    told: int | None = None
    """Tokens that the prompt names."""
    prompt: str
    """As the model got it; where the server applies the template, the user's message."""
    prompt_tokens: tuple[int, ...] | None = None
    """Ids as they were sent; None where text was sent."""
    sent: str
    """UTC."""


def answer_line(asked: Asked, answer: Answer, budgets: Iterable[int]) -> tuple[dict[str, Any], dict[str, Verdict]]:
    """The line of an answer, and its verdicts: on the whole and on its beginnings of `budgets` tokens."""
    line: dict[str, Any] = {
        "id": asked.id,
        "purpose": asked.purpose,
        "limit": asked.limit,
        "told": asked.told,
        "question": asked.question,
        "gold": asked.gold,
        "prompt": asked.prompt,
        "prompt_tokens": None if asked.prompt_tokens is None else list(asked.prompt_tokens),
        "sent": asked.sent,
        "text": answer.text,
        "truncated": None if answer.finish == UNKNOWN else answer.is_cut,
        "finish": answer.finish,
        "context_exceeded": answer.context_exceeded,
        "generated": answer.generated,
        "counted_by": answer.counted_by,
        "token_in_each_piece": answer.has_token_in_each_piece,
        "evaluated": answer.prompt_tokens,
        "cached": answer.cached_tokens,
        "seconds": round(answer.seconds, 6),
        "attempts": answer.attempts,
        "timings": dict(answer.timings),
        "pieces": [
            {
                "text": piece.text,
                "at": round(piece.at, 6),
                "tokens": list(piece.tokens),
                "server_ms": piece.server_ms,
                **({"thought": piece.thought} if piece.thought else {}),
            }
            for piece in answer.pieces
        ],
    }
    verdicts = grade_line(line, budgets)
    return {**line, "verdicts": {name: verdict.as_json() for name, verdict in verdicts.items()}}, verdicts


def grade_line(line: Mapping[str, Any], budgets: Iterable[int]) -> dict[str, Verdict]:
    """Verdicts on a line's text: by `WHOLE`, and by the number for each budget that it is longer than.

    Raises InvalidData when its gold is no number.
    """
    gold = read_gold(line["gold"])
    if gold is None:
        raise InvalidData(f"The right answer of {line['id']} is no number: {line['gold']!r}.")
    verdicts = {WHOLE: grade(line["text"], gold, line["truncated"])}
    for budget in budgets:
        if budget < line["generated"]:
            verdicts[str(budget)] = grade(beginning(line, budget), gold, True)
    return verdicts


def beginning(line: Mapping[str, Any], budget: int) -> str:
    """The text of the first `budget` pieces, each of which is a token."""
    return "".join(piece["text"] for piece in line["pieces"][:budget])
