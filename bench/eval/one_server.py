"""All questions to one server, in order or, where it takes several at once, in threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from bench.endpoint.answer import Piece
from bench.eval.ask_one import ask_one
from bench.eval.items import Item
from bench.eval.request import EvalPlan
from bench.eval.servers import LLAMA, Server
from core.errors import UsageError

if TYPE_CHECKING:
    from bench.eval.course import Course


class _Stopped(Exception):
    """Another answer has failed: this one is not wanted any more."""


class OneServer:
    """See `bench.eval.course.Way`."""

    def __init__(self, server: Server, plan: EvalPlan) -> None:
        self._server, self._plan = server, plan
        self._stop = threading.Event()

    def begin(self, course: Course) -> None:
        server = self._server
        if self._plan.concurrency > self._plan.settings.at_once and server.about["kind"] == LLAMA:
            raise UsageError(
                "A llama-server that answers several questions at once gives other answers than one that does not.",
                remedy="Leave --concurrency away, or give the server --slots, which its answers are then labelled with.",
            )
        course.reached(server.about, server.model, server.asker.template)

    def ask_each(self, course: Course, items: Sequence[Item]) -> str:
        if self._plan.concurrency == 1:
            return next(filter(None, (self._ask_item(course, item) for item in items)), "")
        with ThreadPoolExecutor(self._plan.concurrency) as pool:
            asked = [pool.submit(self._ask_item, course, item) for item in items]
            try:
                return next(filter(None, (future.result() for future in as_completed(asked))), "")
            finally:
                self._stop.set()
                pool.shutdown(cancel_futures=True)
                self._stop.clear()

    def used(self) -> dict[str, Any] | None:
        return self._server.used()

    def _ask_item(self, course: Course, item: Item) -> str:
        """Asks for all answers of an item; why they were the last that are needed, or empty."""

        def heed_stop(piece: Piece) -> None:
            if self._stop.is_set():
                raise _Stopped
            if self._plan.concurrency == 1:
                # A board takes an hour for an answer: who looks on wants to see that it goes on.
                course.show_token()

        while not self._stop.is_set() and (job := course.progress.next_job(item)):
            course.take_new(*ask_one(self._server, job, course.wording, self._plan, heed_stop))
        return course.end_item()
