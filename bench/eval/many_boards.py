"""Questions spread over boards of one kind, each of which serves the model; one record, with a part for each board."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.endpoint.answer import Piece
from bench.eval.ask_one import ask_one
from bench.eval.asking import ChatTemplate
from bench.eval.course import Course
from bench.eval.items import Item
from bench.eval.progress import Job
from bench.eval.record import EvalRecord, read_answers
from bench.eval.request import EvalPlan, EvalRequest
from bench.eval.servers import BOARD, Server, label_of, prepare_boards, reach_server, told_settings
from bench.spread.dask_pool import DaskPool
from bench.spread.kind import check_alike, kind_of_board
from bench.spread.spread import Pool, Spread
from bench.spread.station import Opened
from bench.spread.there import named_there
from core.errors import Interrupted, OhforgeError, UsageError
from core.session import Session

ALIKE = ("kind", "interface", "build", "model", "template")
"""What is served must be the same in these on all boards."""


@contextlib.contextmanager
def reach_boards(
    session: Session, request: EvalRequest, plan: EvalPlan, record: EvalRecord, old: Mapping[str, Any] | None
) -> Iterator[ManyBoards]:
    """The boards of a request for as long as the block runs; what was started on them has ended then."""
    if plan.concurrency > 1:
        raise UsageError("A board answers one question at a time.", remedy="Leave --concurrency away.")
    if old is not None and "parts" not in old and old["server"] is not None:
        raise UsageError(
            "This record was begun with one server, of whose kind too little is known to add boards to it.",
            remedy="Go on without --boards, or begin anew.",
        )
    model = named_there(request.model) if request.scheduler else request.model
    shop = AskingShop(
        request=dataclasses.replace(request, model=model, boards=(), scheduler="", resume=None, plan=plan),
        wording=record.content["prompt"]["template"],
        runs=str(record.folder / "runs"),
    )
    with DaskPool(session, request.boards, shop, scheduler=request.scheduler) as pool:
        yield ManyBoards(pool, request, record, is_new=old is None)


@dataclass(frozen=True, kw_only=True)
class AskingShop:
    """See `bench.spread.station.Shop`: a served model, which is asked."""

    request: EvalRequest
    wording: str
    runs: str
    """Folder for the records of what runs on boards of this computer."""

    def look(self, session: Session, board: str) -> Mapping[str, Any]:
        return kind_of_board(session, board)

    @contextlib.contextmanager
    def open(self, session: Session, board: str) -> Iterator[Opened]:
        ending = threading.Event()
        reached: list[Server] = []

        def pause(seconds: float) -> None:
            """Between two attempts to reach the server: none is made when it was ended, here or by itself."""
            if ending.wait(seconds):
                raise Interrupted(f"The server on board {board} was ended.")
            for server in reached:
                server.check()

        request = dataclasses.replace(self.request, board=board)
        with reach_server(session, request, Path(self.runs), pause) as server:
            reached.append(server)

            def end() -> None:
                ending.set()
                server.end()

            yield Opened(about=_about(server), do=lambda job: self._answer(server, job, ending), end=end)

    def _answer(self, server: Server, job: Job, ending: threading.Event) -> Any:
        def heed(piece: Piece) -> None:
            if ending.is_set():
                raise Interrupted("The answer is not wanted any more.")

        line, verdicts = ask_one(server, job, self.wording, self.request.plan, heed)
        return {**line, "board": server.about["board"]}, verdicts


def _about(server: Server) -> dict[str, Any]:
    template = server.asker.template
    return {
        "server": dict(server.about),
        "model": dict(server.model),
        "template": template,
        "alike": {
            **{name: server.about[name] for name in ("kind", "interface", "build")},
            "model": server.model["sha256"],
            "template": template.as_json()["sha256"],
        },
    }


class ManyBoards:
    """See `bench.eval.course.Way`, and `bench.spread.spread.Work` for the hearing."""

    def __init__(self, pool: Pool, request: EvalRequest, record: EvalRecord, *, is_new: bool) -> None:
        self._pool, self._request, self._record = pool, request, record
        self._spread: Spread[Item] = Spread(pool, self, must_be_there=is_new)
        known = {part["board"]: part for part in record.content.get("parts", ())}
        self._parts: dict[str, dict[str, Any]] = {
            board: {**_new_part(board), **known.get(board, {}), "given_up": None}
            for board in dict.fromkeys([*known, *pool.boards])
        }
        kinds = [part["kind"] for part in self._parts.values() if part["kind"] is not None]
        self._kind: Mapping[str, Any] | None = kinds[0] if kinds else None
        self._alike: Mapping[str, Any] | None = None
        self._course: Course

    def begin(self, course: Course) -> None:
        self._course = course
        course.at_once = len(self._pool.boards)
        counts = Counter(line.get("board") for line in read_answers(course.record.folder))
        for part in self._parts.values():  # After a kill the record may be older than the answers.
            part["answers"] = counts.pop(part["serial"], 0)
        self._save()

    def ask_each(self, course: Course, items: Sequence[Item]) -> str:
        return self._spread.run(items)

    # what is heard of the boards ---------------------------------------------------------------------

    def looked(self, board: str, kind: Mapping[str, Any]) -> None:
        part = self._parts[board]
        serial = kind["serial"]
        twin = next((name for name, other in self._parts.items() if other["serial"] == serial and name != board), "")
        if twin in self._pool.boards:
            raise UsageError(f"{twin} and {board} are one board, {serial}.", remedy="Name it once.")
        facts = {name: value for name, value in kind.items() if name != "serial"}
        if self._kind is None:
            self._kind = facts
        check_alike(board, facts, self._kind)
        part.update(serial=serial, kind=facts)
        self._save()

    def prepare(self) -> None:
        if not self._request.scheduler:
            prepare_boards(self._course.session, self._request)

    def opened(self, board: str, about: Mapping[str, Any]) -> None:
        if self._alike is None:
            template: ChatTemplate = about["template"]
            server = {**about["server"], "board": None, "label": self._label(about["server"])}
            self._course.reached(server, about["model"], template)
            self._alike = about["alike"]
        check_alike(board, about["alike"], self._alike)
        self._parts[board]["server"] = about["server"]
        self._course.console.info(f"board {board} serves {about['model']['name']}")

    def call_for(self, item: Item) -> Job:
        job = self._course.progress.next_job(item)
        assert job is not None
        return job

    def came(self, board: str, item: Item, value: Any) -> bool:
        line, verdicts = value
        self._parts[board]["answers"] += 1
        self._course.take_new(line, verdicts)
        if not self._course.progress.is_complete(item):
            return True
        self._note_whose(board, item.id)
        return False

    def enough(self) -> str:
        return self._course.end_item()

    def failed(self, board: str, error: OhforgeError, given_up: bool, left: Sequence[Item]) -> None:
        part = self._parts[board]
        part["failures"] += 1
        part["left"] = sorted({*part["left"], *(item.id for item in left)})
        self._course.console.warn(
            f"board {board}: {error.message} Its questions go to the others." + (" It is given up." if given_up else "")
        )
        if given_up:
            part["given_up"] = {"code": error.code, "message": error.message}
            self._course.at_once = max(1, sum(part["given_up"] is None for part in self._parts.values()))

    def _note_whose(self, board: str, item: str) -> None:
        """A question that was left by others is taken over; what a board left and has answered in the end is not left."""
        part = self._parts[board]
        part["left"] = [other for other in part["left"] if other != item]
        if any(item in other["left"] for other in self._parts.values()):
            part["taken_over"].append(item)

    def _save(self) -> None:
        self._record.save(parts=list(self._parts.values()))

    def _label(self, server: Mapping[str, Any]) -> str:
        label = label_of(BOARD, emulated=server["emulated"], boards=len(self._pool.boards))
        return label + told_settings(self._request.plan.settings)

    def used(self) -> None:
        """Of several boards nobody looks at what their servers use."""


def _new_part(board: str) -> dict[str, Any]:
    return {
        "board": board,
        "serial": None,
        "kind": None,
        "server": None,
        "answers": 0,
        "failures": 0,
        "left": [],
        "taken_over": [],
        "given_up": None,
    }
