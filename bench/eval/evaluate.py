"""``eval.gsm8k``: asks a model questions, keeps every answer as it comes, and counts the right ones under budgets."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.endpoint.answer import Piece
from bench.eval.answers import Asked, answer_line, grade_line
from bench.eval.data_sets import DataFile, find_data, would_find_data
from bench.eval.grading import GRADER, Verdict
from bench.eval.items import Item, choose_items, read_items
from bench.eval.planning import LIKELY_SHARE, interval_width
from bench.eval.progress import Job, Progress
from bench.eval.prompts import read_prompt, write_prompt
from bench.eval.record import (
    ANSWER,
    ANSWERS,
    KIND,
    SCHEMA,
    WHOLE,
    AnswersFile,
    EvalRecord,
    make_eval_folder,
    read_answers,
    read_eval,
)
from bench.eval.request import EvalOutcome, EvalPlan, EvalRequest, plan_of
from bench.eval.results import count_results, find_flags, find_notes, is_narrow_enough
from bench.eval.servers import LLAMA, Server, reach_server, would_serve
from bench.eval.timed import foresee
from bench.plan import human_duration
from core.deadline import Deadline
from core.dry import Would
from core.errors import (
    AnswerCut,
    EndpointSilent,
    EndpointUnreached,
    IntegrityError,
    Interrupted,
    OhforgeError,
    TemplateUnfit,
    UnlikeRecords,
    UsageError,
)
from core.files import sha256_text
from core.interrupts import termination_as_interrupt
from core.locks import hold
from core.record_folder import SUMS, now
from core.session import Session
from deploy.run.record import recorded

LEAST_ITEMS = 30
"""No interval is narrow by fewer."""
SAVE_SECONDS = 5.0
FORECAST_AFTER = 3
"""Questions, by whose times those of all others are foreseen."""
TIME = "time"


def evaluate(session: Session, request: EvalRequest) -> EvalOutcome:
    """Asks, records and judges; what was answered before something went wrong stays in the record, to be gone on with.

    Raises UsageError, InvalidData for broken questions, TemplateUnfit, UnlikeRecords for a record of something else,
    NotEnoughSpace, and what the server's client and starting a server raise.
    """
    if request.resume is not None:
        with _held(session, request.resume):
            return _go_on(session, request, request.resume)
    plan = request.plan
    data = find_data(session, plan.data)
    every = read_items(data.path, data.name)
    items = choose_items(every, limit=plan.limit, seed=plan.seed)
    record = _begin(session, request, plan, data, len(every), items)
    with _held(session, record.folder):
        return _perform(session, request, plan, items, record, None)


def _go_on(session: Session, request: EvalRequest, folder: Path) -> EvalOutcome:
    old = read_eval(folder)
    if old["state"] == "done" and old["ended_because"] != TIME:
        raise UsageError(f"{folder} has come to its end: there is nothing to go on with.", remedy="")
    plan = plan_of(old)
    data = find_data(session, plan.data)
    if data.sha256 != old["data"]["sha256"]:
        raise IntegrityError(
            f"{data.path} is not the file of questions that this record was begun with.",
            remedy="Put that file back, or begin anew without --resume.",
        )
    items = choose_items(read_items(data.path, old["data"]["name"]), limit=plan.limit, seed=plan.seed)
    (folder / SUMS).unlink(missing_ok=True)
    times = {**old["times"], "ended": None}
    record = EvalRecord(folder, {**old, "state": "running", "times": times, "error": None})
    return _perform(session, request.as_before(old), plan, items, record, old)


def _perform(
    session: Session,
    request: EvalRequest,
    plan: EvalPlan,
    items: Sequence[Item],
    record: EvalRecord,
    old: dict[str, Any] | None,
) -> EvalOutcome:
    with (
        recorded(record),
        termination_as_interrupt(),
        reach_server(session, request, record.folder) as server,
    ):
        return _Evaluation(session, plan, items, record, server, request.at_most).perform(old)


def _held(session: Session, folder: Path) -> AbstractContextManager[bool]:
    """Keeps a second process from going on with the same record."""
    waiting = Deadline.after(session.settings.timeouts.lock, f"the evaluation that writes into {folder}")
    return hold(folder / ".lock", waiting, session.console.info)


def would_evaluate(session: Session, request: EvalRequest) -> list[Would]:
    """What `evaluate` would do; `session` is a dry one."""
    if request.resume is not None:
        request = request.as_before(read_eval(request.resume))
    plan = request.plan
    would = would_find_data(session, plan.data)
    if not request.endpoint:
        would += would_serve(session, request)
    most, each = (plan.budgets[-1], len(plan.budgets)) if plan.names_budgets else (plan.max_tokens, 1)
    questions = f"{plan.limit or 'all'} questions of {plan.data}" + (f", each {each} times" if each > 1 else "")
    return [*would, Would(action="ask", what=questions, where=request.endpoint, why=f"at most {most} tokens an answer")]


def _begin(
    session: Session, request: EvalRequest, plan: EvalPlan, data: DataFile, count: int, items: Sequence[Item]
) -> EvalRecord:
    started = now()
    folder = make_eval_folder(session, started, request.model.rpartition("/")[2].removesuffix(".gguf") or "model")
    template = read_prompt(plan.prompt)
    return EvalRecord(
        folder,
        {
            "schema": SCHEMA,
            "kind": KIND,
            "id": folder.name,
            "state": "running",
            "ohforge": importlib.metadata.version("ohforge"),
            "times": {"clock": "host", "started": started, "ended": None},
            "model": {"name": request.model, "given": request.model, "sha256": None, "size": None},
            "where": request.where,
            "server": None,
            "data": {
                "name": data.name,
                "file": str(data.path.resolve()) if data.is_users else data.name,
                "sha256": data.sha256,
                "licence": data.licence,
                "items": count,
                "seed": plan.seed,
                "ids": [item.id for item in items],
            },
            "plan": plan.as_json(),
            "prompt": {"name": plan.prompt, "template": template, "sha256": sha256_text(template)},
            "template": None,
            "answers": {"file": ANSWERS, "count": 0},
            "used": None,
            "prefix": None,
            "grader": GRADER,
            "results": [],
            "ended_because": None,
            "valid": None,
            "flags": [],
            "notes": [],
            "error": None,
        },
    )


class _Stopped(Exception):
    """Another answer has failed: this one is not wanted any more."""


class _Evaluation:
    """The steps of an evaluation whose server can be asked."""

    def __init__(
        self,
        session: Session,
        plan: EvalPlan,
        items: Sequence[Item],
        record: EvalRecord,
        server: Server,
        at_most: float | None,
    ) -> None:
        self.session, self.plan, self.items, self.record, self.server = session, plan, items, record, server
        self.console = session.console
        self.progress = Progress(plan, items)
        self.wording = record.content["prompt"]["template"]
        self.template = server.asker.template
        self.count = self.tokens = self.done = 0
        self.saved_at = self.began = time.monotonic()
        self.at_most = at_most
        self.asked_here = 0
        self.probe: list[dict[str, Any]] = []
        """Lines of the first answers that are asked for here."""
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def perform(self, old: dict[str, Any] | None) -> EvalOutcome:
        self._check_server(old)
        model = {**self.server.model, "given": self.record.content["model"]["given"]}
        self.record.save(server=dict(self.server.about), model=model, template=self.template.as_json())
        self.console.chosen("answers", self.server.about["label"], self.server.endpoint.url)
        for line in read_answers(self.record.folder):
            self._take(line, grade_line(line, self._cuts_of(line["purpose"], line["limit"])))
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
        self.record.save(used=self.server.used())
        self.record.end("done")
        return EvalOutcome(record=self.record.folder, content=self.record.content)

    # before it ---------------------------------------------------------------------------------------

    def _check_server(self, old: dict[str, Any] | None) -> None:
        if self.plan.concurrency > self.plan.settings.at_once and self.server.about["kind"] == LLAMA:
            raise UsageError(
                "A llama-server that answers several questions at once gives other answers than one that does not.",
                remedy="Leave --concurrency away, or give the server --slots, which its answers are then labelled with.",
            )
        if self.template.faults and not self.plan.anyway:
            raise TemplateUnfit(f"The chat template does not fit: {'; '.join(self.template.faults)}.")
        if old is None or old["server"] is None:
            return
        now_is = {
            **self.server.about,
            "model": self.server.model["name"],
            "template": self.template.as_json()["sha256"],
        }
        was = {**old["server"], "model": old["model"]["name"], "template": old["template"]["sha256"]}
        names = ("kind", "interface", "build", "answers_from", "emulated", "model", "template")
        unlike = [f"{name} was {was[name]!r} and is {now_is[name]!r}" for name in names if was[name] != now_is[name]]
        if unlike:
            raise UnlikeRecords(
                f"The answers of this record came from another server: {'; '.join(unlike)}.",
                remedy="Go on with the same server, or begin anew without --resume.",
            )

    # the answers -------------------------------------------------------------------------------------

    def _ask_all(self) -> str:
        """Asks until nothing lacks; when beginnings turn out not to hold, all items have further answers to give."""
        while lacking := [item for item in self.items if not self.progress.is_complete(item)]:
            if because := self._ask_each(lacking):
                return because
        return "all items"

    def _ask_each(self, items: Sequence[Item]) -> str:
        """Why no more of them are asked; empty: all were."""
        if self.plan.concurrency == 1:
            return next(filter(None, map(self._ask_item, items)), "")
        with ThreadPoolExecutor(self.plan.concurrency) as pool:
            asked = [pool.submit(self._ask_item, item) for item in items]
            try:
                return next(filter(None, (future.result() for future in as_completed(asked))), "")
            finally:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                self._stop.clear()

    def _ask_item(self, item: Item) -> str:
        """Asks for all answers of an item; why they were the last that are needed, or empty."""
        while not self._stop.is_set() and (job := self.progress.next_job(item)):
            self._ask(job)
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

    def _ask(self, job: Job) -> None:
        message = write_prompt(self.wording, job.item.question, job.told)
        try:
            ask, prompt = self.server.asker.ask(message, job.limit)
            ask = dataclasses.replace(ask, seed=self.plan.sampling_seed)
            sent = now()
            answer = self.server.endpoint.answer(ask, self._heed_stop)
        except (AnswerCut, EndpointSilent, EndpointUnreached):
            self.server.check()
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
        line, verdicts = answer_line(asked, answer, self._cuts_of(job.purpose, job.limit))
        with self._lock:
            self.answers.add(line)
            self._take(line, verdicts)
            if self.asked_here < FORECAST_AFTER and job.purpose == ANSWER:
                self.probe.append(line)
            self._tell(line)

    def _heed_stop(self, piece: Piece) -> None:
        if self._stop.is_set():
            raise _Stopped
        if self.plan.concurrency == 1:
            # A board takes an hour for an answer: who looks on wants to see that it goes on.
            self.tokens += 1
            self.bar.say(f"asked ({self.tokens} tokens)")
            self.bar.reach(self.done)

    def _take(self, line: dict[str, Any], verdicts: dict[str, Verdict]) -> None:
        self.count += 1
        self.progress.take(line, verdicts)

    def _cuts_of(self, purpose: str, limit: int) -> tuple[int, ...]:
        """The budgets under which an answer is judged as well."""
        is_whole = purpose == ANSWER and limit == self.plan.max_tokens and not self.plan.names_budgets
        return self.plan.budgets if is_whole else ()

    # what it says ------------------------------------------------------------------------------------

    def _show_progress(self, done: int) -> None:
        self.done = done
        self.bar.reach(done)

    def _tell(self, line: dict[str, Any]) -> None:
        """One sentence for each answer: what was taken as its result, by which rule."""
        verdict = line["verdicts"][WHOLE]
        found = f"{verdict['extracted']} by {verdict['rule']}" if verdict["extracted"] is not None else "nothing"
        told = f", told {line['told']}" if line["told"] else ""
        self.console.info(
            f"  {line['id']} ({line['purpose']} below {line['limit']}{told}): {verdict['status']}: {found}, right is "
            f"{line['gold']}; {line['generated']} tokens in {line['seconds']:.1f} s, ended by {line['finish']}"
        )

    def _forecast(self) -> None:
        """Says after the first questions what the others will take, and what would make that shorter."""
        left = len(self.items) - len(self.progress.complete_items())
        if self.asked_here != FORECAST_AFTER or not left or not self.probe:
            return
        spent = time.monotonic() - self.began
        need = foresee(self.plan, self.probe, left, each=spent / self.asked_here)
        self.console.info(
            f"expected: {human_duration(need.seconds)} for the other {left} questions, {round(need.tokens)} tokens; at most "
            f"{human_duration(need.most_seconds)}, if every answer went on to its limit"
        )
        if self.at_most is not None and spent + need.seconds > self.at_most:
            all_of_them = len(self.items)
            fitting = all_of_them - left + int(max(self.at_most - spent, 0) / need.seconds * left)
            widths = [f"{100 * interval_width(items):.0f}" for items in (fitting, all_of_them)]
            self.console.warn(
                f"that is more than the {human_duration(self.at_most)} that are allowed: about {fitting} of {all_of_them} "
                f"questions will be asked, and the interval is then {widths[0]} points wide instead of {widths[1]}; "
                f"`--limit {fitting}` asks so many from the start"
            )

    def _save(self, because: str | None) -> None:
        complete = self.progress.complete_items()
        flags = find_flags(self.progress, self.template)
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
