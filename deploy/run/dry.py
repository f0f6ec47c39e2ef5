"""What a run on a board would send and execute."""

from __future__ import annotations

import shlex

from core.dry import Would
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.survey import NOT_ASKED
from deploy.hdc.emulated import is_up
from deploy.run.engines import agents_wanted, would_prepare_engine
from deploy.run.execute import ask_board, check_fit
from deploy.run.request import RunRequest
from deploy.transfer.dry import would_store
from deploy.transfer.push import describe_files


def would_execute(session: Session, board: Board, request: RunRequest) -> list[Would]:
    """What `execute` would do; `session` is a dry one. Raises what its checks before the first change raise."""
    stored = describe_files(request.files)
    agents = agents_wanted(session, board, request.options.run_engine)
    survey = NOT_ASKED
    would: list[Would] = []
    if is_up(session, board):
        survey = ask_board(session, board, request, stored, agents)
        check_fit(session, board, request, survey)
    would += would_prepare_engine(session, board, survey, request.options.run_engine)
    would += would_store(session, board, stored, survey)
    words = shlex.join([f"./{request.executable}", *request.arguments])
    return [*would, Would(action="run", what=words, where=f"board {board.serial}", why=request.engine)]
