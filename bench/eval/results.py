"""Accuracies out of verdicts, with their intervals, and what speaks against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.eval.asking import ChatTemplate
from bench.eval.grading import Verdict, tally
from bench.eval.intervals import wilson
from bench.eval.items import Item
from bench.eval.progress import Progress

MANY_CUT = 0.05
"""A larger share of whole answers that the limit cut makes another accuracy of theirs than an unlimited one."""


@dataclass(frozen=True, kw_only=True)
class Flag:
    """What makes a result not valid."""

    name: str
    sentence: str


def count_results(progress: Progress, items: Sequence[Item]) -> list[dict[str, Any]]:
    """A row for each budget, and one for whole answers; of items that have all their answers. None without items."""
    plan = progress.plan
    limits = plan.budgets if plan.names_budgets else sorted({*plan.budgets, plan.max_tokens})
    return [_row(progress, budget, items) for budget in limits] if items else []


def is_narrow_enough(progress: Progress, items: Sequence[Item]) -> bool:
    """Whether the interval of the widest budget's accuracy, as lenient rules have it, is not wider than was asked."""
    width = progress.plan.until_width
    if width is None or not items:
        return False
    limit = progress.plan.budgets[-1] if progress.plan.names_budgets else progress.plan.max_tokens
    verdicts, _, _ = progress.under(limit, items)
    share = wilson(sum(verdict.lenient for verdict in verdicts), len(verdicts))
    return share.high - share.low <= width


def find_flags(progress: Progress, template: ChatTemplate) -> list[Flag]:
    flags = [Flag(name="template", sentence=f"{fault[0].upper()}{fault[1:]}.") for fault in template.faults]
    if template.bos is not None and template.bos_count != 1:
        flags.append(
            Flag(name="bos", sentence=f"Prompts begin with {template.bos_count} tokens {template.bos}, not 1.")
        )
    if progress.cached and not progress.plan.settings.prompt_cache:
        flags.append(
            Flag(
                name="prompt-cache",
                sentence=f"The server took prompts from its cache in {progress.cached} answers, which changes answers.",
            )
        )
    return flags


def find_notes(progress: Progress, items: Sequence[Item]) -> list[str]:
    notes = []
    if not progress.plan.names_budgets and items and progress.cut_whole > MANY_CUT * len(items):
        notes.append(
            f"{progress.cut_whole} of {len(items)} whole answers were cut at {progress.plan.max_tokens} tokens: what is "
            "shown for whole answers is an accuracy under that limit."
        )
    if progress.cached and progress.plan.settings.prompt_cache:
        notes.append(
            f"In {progress.cached} answers a part of the prompt came from the cache, as was asked for: they are answers under "
            "that setting only."
        )
    for differs in progress.differs:
        notes.append(
            f"{differs['id']}: under {differs['budget']} tokens the answer was another one from character "
            f"{differs['at']} on than without that limit; every budget is therefore asked for."
        )
    return notes


def _row(progress: Progress, budget: int, items: Sequence[Item]) -> dict[str, Any]:
    verdicts, tokens, source = progress.under(budget, items)
    counted = tally(verdicts)
    return {
        "budget": budget,
        "told": progress.plan.told(budget),
        "source": source,
        "n": counted.n,
        "accuracy": {
            "strict": wilson(counted.strict, counted.n).as_json(),
            "lenient": wilson(counted.lenient, counted.n).as_json(),
        },
        "statuses": counted.statuses,
        "truncated": counted.truncated,
        "no_answer": _without_answer(verdicts),
        "boxed": counted.boxed,
        "first_box": counted.first_box,
        "last_box": counted.last_box,
        "generated": tokens,
    }


def _without_answer(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.extracted is None for verdict in verdicts)
