"""An evaluation on its way: what is asked next, what has come, what is kept, said and foreseen; whoever answers."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bench.eval.answers import grade_line
from bench.eval.ask_one import Line, cuts_of
from bench.eval.asking import ChatTemplate
from bench.eval.grading import Verdict
from bench.eval.items import Item
from bench.eval.planning import LIKELY_SHARE, interval_width
from bench.eval.progress import Progress
from bench.eval.record import ANSWER, ANSWERS, WHOLE, AnswersFile, EvalRecord, read_answers
from bench.eval.request import EvalOutcome, EvalPlan
from bench.eval.results import count_results, find_flags, find_notes, is_narrow_enough
from bench.eval.timed import foresee
from bench.plan import human_duration
from core.errors import Interrupted, TemplateUnfit, UnlikeRecords
from core.session import Session

LEAST_ITEMS = 30
"""No interval is narrow by fewer."""
SAVE_SECONDS = 5.0
FORECAST_AFTER = 3
"""Questions, by whose times those of all others are foreseen."""
TIME = "time"


class Way(Protocol):
    """Who answers: one server, or several boards."""

    def begin(self, course: Course) -> None:
        """Gets ready; calls `Course.reached` as soon as it is known what answers."""

    def ask_each(self, course: Course, items: Sequence[Item]) -> str:
        """Asks for what lacks of these items; why no more of them are asked, empty: all were."""

    def used(self) -> dict[str, Any] | None:
        """What the server has used, for the record; None where nobody can look."""


class Course:
    """The steps of an evaluation. Its methods may be called by several threads, but for `perform`."""

    def __init__(
        self,
        session: Session,
        plan: EvalPlan,
        items: Sequence[Item],
        record: EvalRecord,
        way: Way,
        old: Mapping[str, Any] | None,
        at_most: float | None,
    ) -> None:
        """`old` is the record's content when it is gone on with."""
        self.session, self.plan, self.items, self.record = session, plan, items, record
        self.console = session.console
        self.progress = Progress(plan, items)
        self.wording = record.content["prompt"]["template"]
        self.template: ChatTemplate | None = None
        """None before anything was reached."""
        self.count = self.tokens = self.done = 0
        self.saved_at = self.began = time.monotonic()
        self.at_most = at_most
        self.asked_here = 0
        self.at_once = 1
        """How many questions are asked at the same time."""
        self.probe: list[Line] = []
        """Lines of the first answers that are asked for here."""
        self._way, self._old = way, old
        self._lock = threading.RLock()

    def perform(self) -> EvalOutcome:
        self._way.begin(self)
        for line in read_answers(self.record.folder):
            self._take(line, grade_line(line, cuts_of(self.plan, line["purpose"], line["limit"])))
        if self.count:
            self.console.info(f"going on: {self.count} answers are there already")
        self.answers = AnswersFile(self.record.answers)
        self.console.info(
            f"{len(self.items)} questions: where {LIKELY_SHARE:.0%} are right, the 95 % interval is "
            f"{100 * interval_width(len(self.items)):.0f} points wide"
        )
        try:
            with self.console.progress("asked", len(self.items), unit="questions") as self.bar:
                self._show_progress(len(self.progress.complete_items()))
                because = self._ask_all()
        except BaseException as end:
            with contextlib.suppress(OSError):
                self._save(None)
            if isinstance(end, KeyboardInterrupt):
                raise Interrupted(
                    f"Interrupted; {self.count} answers are kept.",
                    remedy=f"Go on with `ohforge eval.gsm8k --resume {self.record.folder.name}`.",
                ) from None
            raise
        finally:
            self.answers.close()
        self._save(because)
        self.record.save(used=self._way.used())
        self.record.end("done")
        return EvalOutcome(record=self.record.folder, content=self.record.content)

    # for those who ask -------------------------------------------------------------------------------

    def reached(self, about: Mapping[str, Any], model: Mapping[str, Any], template: ChatTemplate) -> None:
        """Notes who answers. Raises TemplateUnfit, and UnlikeRecords when the record was begun with another one."""
        if template.faults and not self.plan.anyway:
            raise TemplateUnfit(f"The chat template does not fit: {'; '.join(template.faults)}.")
        self._check_server(about, model, template)
        self.template = template
        model = {**model, "given": self.record.content["model"]["given"]}
        self.record.save(server=dict(about), model=model, template=template.as_json())
        self.console.chosen("answers", about["label"], about["url"])

    def take_new(self, line: Line, verdicts: Mapping[str, Verdict]) -> None:
        """Keeps an answer that has just come, and says so. Raises NotEnoughSpace."""
        with self._lock:
            self.answers.add(line)
            self._take(line, verdicts)
            if self.asked_here < FORECAST_AFTER and line["purpose"] == ANSWER:
                self.probe.append(line)
            self._tell(line)

    def end_item(self) -> str:
        """To be called when an item has all its answers; why no more are needed, or empty."""
        with self._lock:
            self.asked_here += 1
            complete = self.progress.complete_items()
            self._show_progress(len(complete))
            self._forecast()
            if time.monotonic() - self.saved_at > SAVE_SECONDS:
                self._save(None)
        if len(complete) >= LEAST_ITEMS and is_narrow_enough(self.progress, complete):
            return "narrow enough"
        return TIME if self.at_most is not None and time.monotonic() - self.began > self.at_most else ""

    def show_token(self) -> None:
        """Shows that another token has come."""
        self.tokens += 1
        self.bar.say(f"asked ({self.tokens} tokens)")
        self.bar.reach(self.done)

    # its steps ---------------------------------------------------------------------------------------

    def _check_server(self, about: Mapping[str, Any], model: Mapping[str, Any], template: ChatTemplate) -> None:
        old = self._old
        if old is None or old["server"] is None:
            return
        now_is = {**about, "model": model["name"], "template": template.as_json()["sha256"]}
        was = {**old["server"], "model": old["model"]["name"], "template": old["template"]["sha256"]}
        names = ("kind", "interface", "build", "answers_from", "emulated", "model", "template")
        unlike = [f"{name} was {was[name]!r} and is {now_is[name]!r}" for name in names if was[name] != now_is[name]]
        if unlike:
            raise UnlikeRecords(
                f"The answers of this record came from another server: {'; '.join(unlike)}.",
                remedy="Go on with the same server, or begin anew without --resume.",
            )

    def _ask_all(self) -> str:
        """Asks until nothing lacks; when beginnings turn out not to hold, all items have further answers to give."""
        while lacking := [item for item in self.items if not self.progress.is_complete(item)]:
            if because := self._way.ask_each(self, lacking):
                return because
        return "all items"

    def _take(self, line: Line, verdicts: Mapping[str, Verdict]) -> None:
        self.count += 1
        self.progress.take(line, verdicts)

    # what it says ------------------------------------------------------------------------------------

    def _show_progress(self, done: int) -> None:
        self.done = done
        self.bar.reach(done)

    def _tell(self, line: Line) -> None:
        """One sentence for each answer: what was taken as its result, by which rule."""
        verdict = line["verdicts"][WHOLE]
        found = f"{verdict['extracted']} by {verdict['rule']}" if verdict["extracted"] is not None else "nothing"
        told = f", told {line['told']}" if line["told"] else ""
        where = f"; {line['board']}" if "board" in line else ""
        self.console.info(
            f"  {line['id']} ({line['purpose']} below {line['limit']}{told}): {verdict['status']}: {found}, right is "
            f"{line['gold']}; {line['generated']} tokens in {line['seconds']:.1f} s, ended by {line['finish']}{where}"
        )

    def _forecast(self) -> None:
        """Says after the first questions what the others will take, and what would make that shorter."""
        left = len(self.items) - len(self.progress.complete_items())
        if self.asked_here != FORECAST_AFTER or not left or not self.probe:
            return
        spent = time.monotonic() - self.began
        need = foresee(self.plan, self.probe, left, each=spent / self.asked_here * self.at_once)
        seconds, most = need.seconds / self.at_once, need.most_seconds / self.at_once
        self.console.info(
            f"expected: {human_duration(seconds)} for the other {left} questions, {round(need.tokens)} tokens; at most "
            f"{human_duration(most)}, if every answer went on to its limit"
        )
        if self.at_most is not None and spent + seconds > self.at_most:
            all_of_them = len(self.items)
            fitting = all_of_them - left + int(max(self.at_most - spent, 0) / seconds * left)
            widths = [f"{100 * interval_width(items):.0f}" for items in (fitting, all_of_them)]
            self.console.warn(
                f"that is more than the {human_duration(self.at_most)} that are allowed: about {fitting} of {all_of_them} "
                f"questions will be asked, and the interval is then {widths[0]} points wide instead of {widths[1]}; "
                f"`--limit {fitting}` asks so many from the start"
            )

    def _save(self, because: str | None) -> None:
        complete = self.progress.complete_items()
        flags = find_flags(self.progress, self.template) if self.template is not None else []
        self.saved_at = time.monotonic()
        self.record.save(
            answers={"file": ANSWERS, "count": self.count},
            prefix=self.progress.prefix_as_json(),
            results=count_results(self.progress, complete),
            ended_because=because,
            valid=not flags if because else None,
            flags=[dataclasses.asdict(flag) for flag in flags],
            notes=find_notes(self.progress, complete),
        )
