"""What an evaluation has so far: which answers are there, which lack, and whether beginnings of long ones may be used.

At temperature 0 the answer under a limit of N tokens is the first N tokens of the unlimited one, so that one long run
gives all budgets. That is looked at on a sample in each run: where a server does otherwise, every budget is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.eval.answers import beginning
from bench.eval.grading import Verdict
from bench.eval.items import Item
from bench.eval.record import ANSWER, CHECK, WHOLE
from bench.eval.request import EvalPlan

CHECK_EVERY = 20
"""One in so many questions is asked a second time, under a budget."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One answer that is to be asked for."""

    item: Item
    purpose: str
    limit: int
    told: int | None = None


@dataclass(kw_only=True)
class _Known:
    """What is known of one item's answers."""

    whole: dict[str, Verdict] = field(default_factory=dict)
    generated: int = 0
    beginnings: dict[int, str] = field(default_factory=dict)
    asked: dict[int, tuple[Verdict, int]] = field(default_factory=dict)
    """Budget → verdict and tokens of an answer of its own."""
    checked: bool = False


class Progress:
    """All answers so far. Threads may share one."""

    def __init__(self, plan: EvalPlan, items: Sequence[Item]) -> None:
        self.plan = plan
        self.items = items
        self.cuts = not plan.names_budgets and bool(plan.budgets)
        """Whether budgets are cut from whole answers."""
        self.why = "no budgets" if not plan.budgets else "the prompt names budgets" if plan.names_budgets else ""
        self.verified = 0
        self.differs: list[dict[str, Any]] = []
        self.cached = 0
        """Answers for which the server took a part of the prompt from its cache."""
        self.cut_whole = 0
        self._places = {item.id: place for place, item in enumerate(items)}
        self._known: dict[str, _Known] = {item.id: _Known() for item in items}
        self._complete: set[str] = set()
        self._unseen: set[str] = set(self._known)
        """Items of which something may have changed since it was looked which are complete."""
        self._rules = (self.cuts, False)
        self._lock = threading.Lock()

    def next_job(self, item: Item) -> Job | None:
        """What is to be asked next of an item; None: nothing any more, as far as is known now."""
        with self._lock:
            known = self._known[item.id]
            if self.plan.names_budgets:
                lacking = next((budget for budget in self.plan.budgets if budget not in known.asked), None)
                if lacking is None:
                    return None
                return Job(item=item, purpose=ANSWER, limit=lacking, told=self.plan.told(lacking))
            if WHOLE not in known.whole:
                return Job(item=item, purpose=ANSWER, limit=self.plan.max_tokens)
            shorter = [budget for budget in self.plan.budgets if budget < known.generated]
            if not self.cuts:
                lacking = next((budget for budget in shorter if budget not in known.asked), None)
                return None if lacking is None else Job(item=item, purpose=ANSWER, limit=lacking)
            place = self._places[item.id]
            if shorter and not known.checked and (place % CHECK_EVERY == 0 or not self.verified):
                budget = shorter[place // CHECK_EVERY % len(shorter)]
                return Job(item=item, purpose=CHECK, limit=budget)
            return None

    def take(self, line: Mapping[str, Any], verdicts: Mapping[str, Verdict]) -> None:
        """Takes over a line of the answers, one that has just come or one of an earlier call."""
        with self._lock:
            known = self._known.get(line["id"])
            if known is None:
                return
            self._unseen.add(line["id"])
            self.cached += bool(line["cached"])
            if line["purpose"] == CHECK:
                self._compare(known, line)
            if self.plan.names_budgets or line["purpose"] == CHECK or WHOLE in known.whole:
                known.asked[line["limit"]] = verdicts[WHOLE], line["generated"]
                return
            known.whole = dict(verdicts)
            known.generated = line["generated"]
            self.cut_whole += bool(line["truncated"])
            if self.cuts and not line["token_in_each_piece"]:
                self.cuts = False
                self.why = "the server sends several tokens in one piece, so that no budget can be cut from an answer"
            known.beginnings = {
                budget: beginning(line, budget) for budget in self.plan.budgets if budget < line["generated"]
            }

    def _compare(self, known: _Known, line: Mapping[str, Any]) -> None:
        known.checked = True
        wanted, found = known.beginnings.get(line["limit"], ""), line["text"]
        if wanted == found:
            self.verified += 1
            return
        pairs = zip(wanted, found, strict=False)
        at = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(wanted), len(found)))
        self.differs.append({"id": line["id"], "budget": line["limit"], "at": at})
        self.cuts = False
        self.why = "an answer under a budget was not the beginning of the whole one, so each budget is asked for"

    def is_complete(self, item: Item) -> bool:
        return self.next_job(item) is None

    def complete_items(self) -> list[Item]:
        """Those that have all their answers. Thousands of items are looked at anew only when the rules are others."""
        with self._lock:
            rules = (self.cuts, bool(self.verified))
            if rules != self._rules:
                self._rules, self._unseen = rules, set(self._known)
            unseen, self._unseen = self._unseen, set()
        self._complete -= unseen
        self._complete |= {id for id in unseen if self.is_complete(self.items[self._places[id]])}
        return [item for item in self.items if item.id in self._complete]

    def under(self, budget: int, items: Sequence[Item]) -> tuple[list[Verdict], int, str]:
        """The verdicts of complete items under a budget, the tokens of these answers, and where they come from."""
        verdicts, tokens, sources = [], 0, set()
        for item in items:
            known = self._known[item.id]
            if budget in known.asked:
                verdict, generated = known.asked[budget]
                sources.add("asked")
            else:
                verdict = known.whole.get(str(budget), known.whole.get(WHOLE))  # type: ignore[assignment]
                generated = min(budget, known.generated)
                sources.add("cut" if str(budget) in known.whole else "whole")
            verdicts.append(verdict)
            tokens += generated
        source = "cut" if self.cuts and sources - {"whole"} else "asked" if "asked" in sources else "whole"
        return verdicts, tokens, source

    def prefix_as_json(self) -> dict[str, Any]:
        return {
            "used": self.cuts,
            "verified": self.verified,
            "differs": self.differs,
            "why": self.why or self._why_cut,
        }

    @property
    def _why_cut(self) -> str:
        if self.verified:
            return "answers under a budget were the beginnings of whole ones"
        return "no answer was longer than a budget so far: there was nothing to compare"
