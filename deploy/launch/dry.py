"""What ``board.run`` would do: fetch, build, send and run."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from core.dry import Would
from core.session import Session
from deploy.hdc.choose import choose_board
from deploy.launch.launch import Launch, ready_model, ready_program, with_artifact
from deploy.launch.request import LaunchRequest
from deploy.run.dry import would_execute


def would_run(session: Session, request: LaunchRequest) -> list[Would]:
    """What `run_program` or `run_model` would do; `session` is a dry one. Raises what their looks raise."""
    from native.models.models import plan_model

    with tempfile.TemporaryDirectory(prefix="ohforge-") as made:
        if request.program:
            return would_launch(session, ready_program(session, request, Path(made)))
        board = choose_board(session, request.board)
        model, would = plan_model(session, request.model)
        return [*would, *would_launch(session, ready_model(session, board, model, request, Path(made)))]


def would_launch(session: Session, launch: Launch) -> list[Would]:
    """What building and running what was made ready would do. Raises what their looks raise."""
    from native.build.ensure import would_build

    run, where = launch.run, f"board {launch.board.serial}"
    would: list[Would] = []
    if launch.build is not None:
        would += would_build(session, launch.build)
        if launch.build.artifact is not None:
            run = with_artifact(run, launch.build.artifact)
        else:
            would.append(Would(action="send", what=run.executable, where=where, why="when it is built"))
    model = run.model
    if model is not None and not model.here:
        size = model.size or None
        would.append(Would(action="send", what=str(model.path), size=size, where=where, why="when it is fetched"))
        run = dataclasses.replace(run, files=tuple(file for file in run.files if file.local != model.path))
    return [*would, *would_execute(session, launch.board, run)]
