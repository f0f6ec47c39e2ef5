"""Where answers come from: a server at an address, or llama-server on this computer or on a board, while it is needed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.endpoint.client import Endpoint
from bench.endpoint.interfaces import LlamaCompletion, OpenAiChat
from bench.eval.asking import Asker, MessageAsker, TokenAsker
from bench.eval.request import EvalPlan, EvalRequest
from core.dry import Would
from core.errors import BoardError, DeadlineExpired, Failure, LostConnection, UsageError
from core.session import Session

if TYPE_CHECKING:
    from deploy.launch.model_server import ModelServer, ServeOptions
    from deploy.launch.process_use import ProcessUse
    from deploy.launch.server_settings import ServerSettings
    from native.models.models import Model

PROMPT_TOKENS = 1024
"""Room for a question with all that is around it; the longest of the known sets has 848 characters."""
LLAMA, OPENAI = "llama-server", "openai"
BOARD, HOST, ENDPOINT = "board", "host", "endpoint"
LABELS = {
    ENDPOINT: "answers and times of a server that ohforge did not start",
    HOST: "answers and times of this computer, none of a board",
    BOARD: "answers and times of the board",
}


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that can be asked, and what a record says of it."""

    endpoint: Endpoint
    asker: Asker
    model: Mapping[str, Any]
    about: Mapping[str, Any]
    check: Callable[[], None]
    """Raises what has ended the server or the way to it; to be called when it does not answer."""
    use: Callable[[], ProcessUse | None] = lambda: None
    """What it has used so far, where ohforge can look. Raises what asking the board raises."""

    def used(self) -> dict[str, Any] | None:
        """The same for a record; None where nobody can look, or the board does not answer."""
        with contextlib.suppress(Failure):
            found = self.use()
            return asdict(found) if found is not None else None
        return None

    end: Callable[[], None] = lambda: None
    """Ends what ohforge has started, from whatever thread; an answer that is on its way breaks off then."""


@contextlib.contextmanager
def reach_server(
    session: Session, request: EvalRequest, folder: Path, pause: Callable[[float], None] = time.sleep
) -> Iterator[Server]:
    """The server of a request, for as long as the block runs; what ohforge starts has ended then.

    `pause` waits so many seconds before a board's server that did not answer is asked again.

    Raises UsageError, and what reaching and starting raise.
    """
    if request.endpoint:
        way = _reach_endpoint(session, request)
    elif request.on_host:
        way = _serve_here(session, request, folder)
    else:
        way = _serve_on_board(session, request, folder, pause)
    with way as server:
        yield server


def would_serve(session: Session, request: EvalRequest) -> list[Would]:
    """What would be done so that there is a server; `session` is a dry one."""
    from deploy.hdc.choose import choose_board
    from native.models.models import plan_model

    if request.boards:
        where = f"boards {', '.join(request.boards)}" + (f" of {request.scheduler}" if request.scheduler else "")
    else:
        where = "this computer" if request.on_host else f"board {choose_board(session, request.board).serial}"
    model, would = plan_model(session, request.model)
    if draft := request.plan.settings.draft:
        would = [*would, *plan_model(session, draft)[1]]
    return [*would, Would(action="serve", what=f"{model.name} by llama-server", size=model.size, where=where)]


def prepare_boards(session: Session, request: EvalRequest) -> None:
    """Has the model here, and llama-server built for the first of the boards that can be asked: once, and not by each."""
    from deploy.hdc.choose import choose_board
    from deploy.launch.serve import ready_server
    from native.models.models import find_model

    find_model(session, request.model)
    for name in request.boards:
        with contextlib.suppress(BoardError, LostConnection, DeadlineExpired):
            ready_server(session, choose_board(session, name), _options(session, request))
            return


@contextlib.contextmanager
def _reach_endpoint(session: Session, request: EvalRequest) -> Iterator[Server]:
    with Endpoint(session, request.endpoint, model=request.model, silence=request.silence) as endpoint:
        properties = endpoint.properties()
        if properties is not None and not request.openai:
            name = request.model or Path(str(properties.get("model_path") or "model")).stem
            yield make_server(endpoint, properties, {"name": name, "sha256": None, "size": None}, answers_from=ENDPOINT)
            return
        endpoint.interface = OpenAiChat()
        endpoint.model = request.model or _only_model(endpoint)
        about = describe(endpoint, {}, kind=OPENAI, answers_from=ENDPOINT)
        model = {"name": endpoint.model, "sha256": None, "size": None}
        yield Server(endpoint=endpoint, asker=MessageAsker(), model=model, about=about, check=lambda: None)


@contextlib.contextmanager
def _serve_here(session: Session, request: EvalRequest, folder: Path) -> Iterator[Server]:
    from deploy.launch.serve_host import serve_on_host
    from native.models.models import find_model

    model = find_model(session, request.model)
    with (
        serve_on_host(session, model, _options(session, request), folder / "server") as running,
        Endpoint(session, running.url, silence=request.silence) as endpoint,
    ):
        yield _started(endpoint, model, running, request.plan, answers_from=HOST)


@contextlib.contextmanager
def _serve_on_board(
    session: Session, request: EvalRequest, folder: Path, pause: Callable[[float], None]
) -> Iterator[Server]:
    from deploy.hdc.choose import choose_board
    from deploy.hdc.version import describe_link
    from deploy.launch.serve import ready_server, serve_on_board
    from native.models.models import find_model

    board = choose_board(session, request.board)
    model = find_model(session, request.model)
    options = _options(session, request)
    run = ready_server(session, board, options)
    link = describe_link(session, board)
    inner = session.with_settings(runs_dir=str(folder / "runs")).quietly()
    with (
        serve_on_board(inner, board, model, options, run=run) as running,
        Endpoint(session, running.url, silence=request.silence, sleep=pause) as endpoint,
    ):
        where = {"answers_from": BOARD, "board": board.serial, "emulated": running.emulated, "link": link}
        yield _started(endpoint, model, running, request.plan, **where)


def _options(session: Session, request: EvalRequest) -> ServeOptions:
    from deploy.launch.model_server import ServeOptions
    from native.models.models import find_model

    settings = request.plan.settings
    return ServeOptions(
        choice=request.choice,
        threads=request.threads,
        context=settings.context or request.longest_answer + PROMPT_TOKENS,
        slots=settings.at_once,
        settings=settings,
        draft=find_model(session, settings.draft) if settings.draft else None,
    )


def _started(
    endpoint: Endpoint,
    model: Model,
    running: ModelServer,
    plan: EvalPlan,
    **where: Any,
) -> Server:
    """What ohforge itself has started, of whose model it knows more than the server tells."""
    return make_server(
        endpoint,
        endpoint.properties() or {},
        {"name": model.name, "sha256": model.sha256, "size": model.size},
        has_template=bool(model.summary.get("chat_template")),
        settings=plan.settings,
        check=running.check,
        use=running.use,
        **where,
        end=running.stop,
    )


def make_server(
    endpoint: Endpoint,
    properties: Mapping[str, Any],
    model: Mapping[str, Any],
    *,
    answers_from: str,
    has_template: bool | None = None,
    board: str | None = None,
    emulated: bool | None = None,
    link: Mapping[str, Any] | None = None,
    settings: ServerSettings | None = None,
    check: Callable[[], None] = lambda: None,
    use: Callable[[], ProcessUse | None] = lambda: None,
    end: Callable[[], None] = lambda: None,
) -> Server:
    """A llama-server, asked by token ids."""
    endpoint.interface = LlamaCompletion()
    about = describe(endpoint, properties, kind=LLAMA, answers_from=answers_from, board=board, emulated=emulated)
    if link is not None:
        about["link"] = dict(link)
    about["label"] += told_settings(settings)
    asker = TokenAsker(endpoint, has_template=has_template, cache=bool(settings and settings.prompt_cache))
    return Server(endpoint=endpoint, asker=asker, model=model, about=about, check=check, use=use, end=end)


def told_settings(settings: ServerSettings | None) -> str:
    """What the label of answers says of the settings that were asked for; nothing of a server as it is."""
    return f"; llama-server with {said}" if (said := str(settings or "")) else ""


def describe(
    endpoint: Endpoint,
    properties: Mapping[str, Any],
    *,
    kind: str,
    answers_from: str,
    board: str | None = None,
    emulated: bool | None = None,
) -> dict[str, Any]:
    """The part ``server`` of a record."""
    slots = properties.get("total_slots")
    return {
        "kind": kind,
        "url": endpoint.url,
        "answers_from": answers_from,
        "board": board,
        "emulated": emulated,
        "build": str(properties["build_info"]) if properties.get("build_info") else None,
        "slots": slots if isinstance(slots, int) else None,
        "interface": endpoint.interface.path,
        "label": label_of(answers_from, emulated=emulated),
    }


def label_of(answers_from: str, *, emulated: bool | None, boards: int = 1) -> str:
    """Words for where answers and times come from."""
    several = f", {boards} of one kind" if boards > 1 else ""
    return LABELS[answers_from] + several + (" (emulated: its times are none of a real one)" if emulated else "")


def _only_model(endpoint: Endpoint) -> str:
    names = endpoint.models()
    if len(names) != 1:
        known = ", ".join(names[:20]) or "none"
        raise UsageError(f"{endpoint.url} has not one model but: {known}.", remedy="Name the model to ask.")
    return names[0]
