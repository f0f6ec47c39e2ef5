"""Boards that serve the stub of a language model, for work that is spread: nothing of hdc, sockets on loopback only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from core.errors import BoardOffline
from core.session import Session
from deploy.launch import serve
from deploy.launch.model_server import ServeOptions
from tests.shared.model_server import ModelServer
from tests.support.asked_models import known_answer

KIND = {"emulated": True, "profile": "dayu200", "chip": "RK3568", "machine": "aarch64"}


@dataclass
class SpreadBoard:
    """One board: how often its server was started and is up now, and whether it is there."""

    name: str
    url: str
    kind: dict[str, Any]
    starts: int = 0
    up: int = 0
    answers: int | None = None
    """After which it is gone; None: it stays."""
    stub: ModelServer | None = None
    """None: it is another process's."""

    emulated = True
    lender = None

    @property
    def server(self) -> ModelServer:
        assert self.stub is not None
        return self.stub

    @property
    def serial(self) -> str:
        return f"emulated-{self.name}"

    def check(self) -> None:
        if self.answers is not None and len(self.server.asked()) > self.answers:
            raise BoardOffline(f"Board {self.name} has gone.")

    def use(self) -> None: ...

    def dies_after(self, answers: int) -> None:
        self.answers = answers
        self.server.fault("cut", after=1, skip=answers, times=-1)

    def revive(self) -> None:
        self.answers = None
        self.server.faults.clear()

    def stop(self) -> None:
        """Breaks off whatever answer is on its way, as the end of a real server does."""
        if self.stub is not None:
            self.stub.break_off()


class SpreadBoards(dict[str, SpreadBoard]):
    """Boards by name."""

    def look(self, session: Session, name: str) -> dict[str, Any]:
        self[name].check()
        return {"serial": self[name].serial, **self[name].kind}

    @contextlib.contextmanager
    def serve(
        self, session: Session, board: SpreadBoard, model: Any, options: ServeOptions, *, run: Any = None
    ) -> Iterator[SpreadBoard]:
        board.check()
        board.starts += 1
        board.up += 1
        try:
            yield board
        finally:
            board.up -= 1


def served_boards(monkeypatch: pytest.MonkeyPatch, **urls: str) -> SpreadBoards:
    """Boards whose servers are at these addresses, as what ``--boards`` finds."""
    boards = SpreadBoards({name: SpreadBoard(name=name, url=url, kind=dict(KIND)) for name, url in urls.items()})
    monkeypatch.setattr("bench.eval.many_boards.kind_of_board", boards.look)
    monkeypatch.setattr("deploy.hdc.choose.choose_board", lambda session, name: boards[name])
    monkeypatch.setattr(serve, "serve_on_board", boards.serve)
    monkeypatch.setattr(serve, "ready_server", lambda session, board, options: None)
    return boards


@contextlib.contextmanager
def spread_boards(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[SpreadBoards]:
    """Those boards, with servers of this process."""
    with contextlib.ExitStack() as servers:
        stubs = {name: servers.enter_context(ModelServer(answer=known_answer)) for name in names}
        boards = served_boards(monkeypatch, **{name: stub.url for name, stub in stubs.items()})
        for name, stub in stubs.items():
            boards[name].stub = stub
        yield boards
