"""llama-server as a run on a board, which goes on until it is ended from here."""

from __future__ import annotations

import dataclasses
import json
import secrets
from pathlib import Path

from core.deadline import Deadline
from core.errors import RunError
from core.record_folder import FILE
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.script import new_token, wrap_command
from deploy.forward.forward import Forward
from deploy.hdc.board import HdcBoard
from deploy.launch.launch import execute_built
from deploy.launch.model_server import ModelServer, ServeOptions
from deploy.launch.process_use import ProcessUse, parse_use
from deploy.run.record import LOG
from deploy.run.request import RunRequest

MARK = "OHFORGE_SERVER"
"""Variable in the server's environment, by which it is found again."""
GRACE_LOOKS = 25
"""Times 0.2 s, between asking the server to end and making it."""
ANSWER_SECONDS = 30.0


class BoardServer(ModelServer):
    """A server on a board: a run as any other, with a record of its own, in which its log is."""

    def __init__(self, session: Session, board: Board, run: RunRequest, options: ServeOptions) -> None:
        self._mark = f"{MARK}={secrets.token_hex(8)}"
        self._stop_script = render_script("stop_marked", mark=self._mark, looks=GRACE_LOOKS)
        super().__init__(session, f"{run.program} on board {board.serial}", _will(board, self._stop_script))
        self._session = dataclasses.replace(session.quietly(), runner=self._runner)
        self._board = board
        self._forward: Forward | None = None
        self.record: Path | None = None
        """Folder of the run's record; None before there is one."""
        name, _, value = self._mark.partition("=")
        environment = {**options.run.environment, name: value}
        self._request = dataclasses.replace(
            run,
            options=dataclasses.replace(options.run, environment=environment, timeout=options.life_seconds),
            on_record=self._take_record,
        )

    @property
    def log(self) -> Path | None:
        return self.record / LOG if self.record is not None else None

    @property
    def emulated(self) -> bool:
        if self.record is None:
            return self._board.emulated
        return bool(json.loads((self.record / FILE).read_text(encoding="utf-8"))["board"]["emulated"])

    def use(self) -> ProcessUse | None:
        script = render_script("marked", mark=self._mark)
        waiting = Deadline.after(ANSWER_SECONDS, f"what {self._title} has used")
        text = self._board.shell(script, deadline=waiting).text
        if not text.rstrip().endswith("@@end"):
            raise RunError(f"Board {self._board.serial} did not say to the end what {self._title} has used.")
        return parse_use(text)

    def reached_by(self, forward: Forward) -> None:
        """Says by which forwarded port it is asked."""
        self._forward = forward

    def _check_way(self) -> None:
        if self._forward is not None:
            self._forward.check()

    def _take_record(self, folder: Path) -> None:
        self.record = folder

    def _run(self) -> None:
        board = self._board
        twin = board.in_session(self._session) if isinstance(board, HdcBoard) else board
        execute_built(self._session, twin, self._request)

    def _end(self) -> None:
        waiting = Deadline.after(ANSWER_SECONDS, f"the end of {self._title}")
        if self._board.shell(self._stop_script, deadline=waiting).text.split()[-1:] != ["gone"]:
            raise RunError(f"it ignores being killed on board {self._board.serial}")


def _will(board: Board, script: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command line of hdc that ends the server; nothing for a board whose link ends it, as SSH's does."""
    if not isinstance(board, HdcBoard) or board.host is not None:
        return ("true",), {}
    words = ("-t", board.key, "shell", wrap_command(script, new_token()))
    return (*board.hdc.argv, *words), dict(board.hdc.environment)
