"""``eval.gsm8k``: asks a model questions, keeps every answer as it comes, and counts the right ones under budgets."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.eval.course import TIME, Course, Way
from bench.eval.data_sets import DataFile, find_data, would_find_data
from bench.eval.grading import GRADER
from bench.eval.items import Item, choose_items, read_items
from bench.eval.one_server import OneServer
from bench.eval.prompts import read_prompt
from bench.eval.record import ANSWERS, KIND, SCHEMA, EvalRecord, make_eval_folder, read_eval
from bench.eval.request import EvalOutcome, EvalPlan, EvalRequest, plan_of
from bench.eval.servers import reach_server, would_serve
from core.deadline import Deadline
from core.dry import Would
from core.errors import IntegrityError, UsageError
from core.files import sha256_text
from core.interrupts import termination_as_interrupt
from core.locks import hold
from core.record_folder import SUMS, now
from core.session import Session
from deploy.run.record import recorded


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
    request = request.as_before(old)
    if "parts" in old and request.board:  # What boards of one kind have begun is gone on with by such a board only.
        request = dataclasses.replace(request, board="", boards=(request.board,))
    return _perform(session, request, plan, items, record, old)


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
        _way(session, request, plan, record, old) as way,
    ):
        return Course(session, plan, items, record, way, old, request.at_most).perform()


@contextlib.contextmanager
def _way(
    session: Session, request: EvalRequest, plan: EvalPlan, record: EvalRecord, old: dict[str, Any] | None
) -> Iterator[Way]:
    if request.boards:
        from bench.eval.many_boards import reach_boards

        with reach_boards(session, request, plan, record, old) as boards:
            yield boards
        return
    with reach_server(session, request, record.folder) as server:
        yield OneServer(server, plan)


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
