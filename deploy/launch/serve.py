"""A language model behind HTTP: llama-server on a board or on this computer, for as long as it is needed.

On a board the server listens on the board's own loopback, at a port that the board's kernel chooses, so that none can be
taken; `deploy.forward` brings it here.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from core.errors import UsageError
from core.interrupts import termination_as_interrupt
from core.session import Session
from deploy.board.protocol import Board
from deploy.forward.forward import forward_port, require_forwarding
from deploy.launch.board_server import BoardServer
from deploy.launch.launch import build_run, files_of_model, name_on_board, ready_product
from deploy.launch.model_server import LOOPBACK, ServeOptions
from deploy.launch.request import LaunchRequest
from deploy.lease.lease import hold_board
from deploy.run.request import RunRequest

if TYPE_CHECKING:
    from native.models.models import Model

PRODUCT = "llama/llama-server"


@contextlib.contextmanager
def serve_on_board(
    session: Session, board: Board, model: Model, options: ServeOptions, *, run: RunRequest | None = None
) -> Iterator[BoardServer]:
    """Serves a model on a board while the block runs; the board is held meanwhile.

    What lacks is built and sent first. The server is ready when the block begins, and has ended on the board when it is
    left, whatever happened: also when the link is cut or this process is killed. `run` is what `ready_server` has
    returned, when it was built before.

    Raises UsageError, what building, sending and running raise, and DeadlineExpired when it is not ready in time.
    """
    words = server_words(name_on_board(model.path), options, name_on_board(options.draft.path) if options.draft else "")
    check_model(model)
    require_forwarding(board)
    ready = run_with(run or ready_server(session, board, options), model, words, options.draft)
    with (
        termination_as_interrupt(),
        hold_board(session, board, f"serve {model.name}"),
        BoardServer(session, board, ready, options) as server,
    ):
        port, began = server.wait_until_listening(options, model.size)
        with forward_port(session, board, port) as forward:
            server.reached_by(forward)
            server.wait_until_ready(forward.local, began, options)
            yield server


def ready_server(session: Session, board: Board, options: ServeOptions) -> RunRequest:
    """The run of llama-server for a board, built when it is not there. Raises what a build raises."""
    return build_run(session, ready_product(session, board, LaunchRequest(program=PRODUCT, choice=options.choice)))


def run_with(run: RunRequest, model: Model, words: tuple[str, ...], draft: Model | None = None) -> RunRequest:
    """The run of llama-server with a model, a draft model, and its other arguments. Its status is ours to judge."""
    files = (*run.files, *files_of_model(model), *(files_of_model(draft) if draft is not None else ()))
    return dataclasses.replace(run, arguments=words, files=tuple(dict.fromkeys(files)), model=model, pass_status=False)


def check_model(model: Model) -> None:
    """Raises UsageError for what llama-server does not serve."""
    if model.kind != "gguf":
        raise UsageError(f"{model.path} is a .{model.kind} model; llama-server serves .gguf models.", remedy="")


def server_words(model: str, options: ServeOptions, draft: str = "") -> tuple[str, ...]:
    """The arguments of llama-server: one answer at a time, nothing kept from one to the next, any free port.

    `model` and `draft` are the files as they are named where it runs. Its own defaults are four answers at once, the context that the model was trained with, and 8 GiB of kept prompts.
    Raises UsageError for counts that make no sense.
    """
    counts = {"context": options.context, "slots": options.slots, "batch": options.batch}
    wrong = [f"{name} {count}" for name, count in counts.items() if count < 1]
    if options.threads < 0:
        wrong.append(f"threads {options.threads}")
    if wrong:
        raise UsageError(f"A server cannot have {', '.join(wrong)}.", remedy="Name counts from 1 on.")
    words = ["-m", model, "--host", LOOPBACK, "--port", "0", "--offline"]
    words += ["-c", str(options.context * options.slots), "-np", str(options.slots), "--cache-ram", "0"]
    words += ["-b", str(options.batch), "-ub", str(options.batch)]
    words += ["-t", str(options.threads)] if options.threads else []
    return (*words, *options.settings.words(draft), *options.arguments)
