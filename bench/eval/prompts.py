"""What a model is told: a question in one of the wordings of ``templates/eval``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from core.errors import UsageError, unknown_name
from core.session import PROJECT

if TYPE_CHECKING:
    import jinja2

FOLDER = PROJECT / "templates" / "eval"
DIRECT, ESTIMATE_FIRST, TOLD_BUDGET = "direct", "aav", "budget"
"""Step by step; answer first and verify; step by step below a number of tokens that the prompt names."""
PROMPTS = (DIRECT, ESTIMATE_FIRST, TOLD_BUDGET)


def read_prompt(name: str) -> str:
    """The template of a wording. Raises UnknownName."""
    if name not in PROMPTS:
        raise unknown_name("prompt (--prompt)", name, PROMPTS)
    return (FOLDER / f"{name}.txt.j2").read_text(encoding="utf-8")


def write_prompt(template: str, question: str, tokens: int | None = None) -> str:
    """The message for a question; `tokens` is the budget that is named, where the wording names one."""
    return _environment().from_string(template).render(question=question, tokens=tokens)


def told_tokens(budget: int, share: float) -> int:
    """The budget that a prompt names where `budget` is enforced: models overrun what they are told."""
    return max(1, int(budget * share))


def check_budgets(prompt: str, budgets: tuple[int, ...]) -> None:
    """Raises UsageError when a wording that names budgets has none to name."""
    if prompt == TOLD_BUDGET and not budgets:
        raise UsageError("--prompt budget tells the model its budget.", remedy="Name budgets: --budgets 64,128,256.")


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - plain text for a model
