"""``ohforge model.*``: model files, by name or by path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command
from commands.words import ARCH_HELP, BOARD_HELP, CPU_HELP, TOOLCHAIN
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from core.session import Session


@command(name="list", help={})
def list_(session: Session) -> Answer:
    """List the models that can be had by name."""
    from core.files import human_bytes
    from native.models.models import list_models

    models = list_models(session)
    rows = [
        [
            m["name"],
            m["kind"],
            human_bytes(m["size"]) if m["size"] else "not known",
            m["licence"],
            m["path"] or "not fetched",
        ]
        for m in models
    ]
    session.console.table(["NAME", "KIND", "SIZE", "LICENCE", "FILE"], rows)
    return Answer({"models": models})


@command(positional=("name",), changes=True, dry=True, help={"name": "A name that `ohforge model.list` shows."})
def fetch(session: Session, name: str) -> Answer:
    """Fetch a model by name; its hash is checked."""
    from core.dry import tell
    from native.models.models import fetch_model, would_fetch_model

    if session.dry:
        return Answer(tell(session.console, [would_fetch_model(session, name)]))
    model = fetch_model(session, name)
    session.console.info(f"{model.path}  sha256 {model.sha256}, licence {model.licence}")
    return Answer({"name": model.name, "path": str(model.path), "size": model.size, "sha256": model.sha256})


@command(
    positional=("file",),
    changes=True,
    dry=True,
    help={"file": "A .gguf or .ms file, or a name that `ohforge model.list` shows, which is fetched."},
)
def inspect(session: Session, file: str) -> Answer:
    """Say what is in a model file; only its header is read."""
    from core.dry import tell
    from native.models.inspect import describe_lines, inspect_model
    from native.models.models import locate_model, would_locate

    if session.dry:
        return Answer(tell(session.console, would_locate(session, file)))
    description = inspect_model(locate_model(session, file))
    for line in describe_lines(description):
        session.console.info(line)
    return Answer(description)


@command(
    positional=("model",),
    changes=True,
    dry=True,
    groups={"choice": TOOLCHAIN},
    help={
        "model": "A .gguf file, or a name that `ohforge model.list` shows, which is fetched.",
        "board": BOARD_HELP,
        "context": "Tokens that prompt and answer have together.",
        "ubatch": "Tokens of the prompt that are computed at once (-ub of llama.cpp).",
        "kv-type": "Type of keys and values: f16, q8_0, q4_0 ….",
        "no-repack": "Leave the weights in the order of the file (--no-repack of llama.cpp).",
        "arch": ARCH_HELP,
        "cpu": CPU_HELP,
    },
)
def fit(
    session: Session,
    choice: ToolchainChoice,
    model: str,
    board: str = "",
    context: int = 512,
    ubatch: int = 512,
    kv_type: str = "f16",
    no_repack: bool = False,
) -> Answer:
    """Say whether a model fits a board and how long a token will take, before anything is sent."""
    from bench.fit_board import FitRequest, fit_on_board
    from commands.show import show_fit
    from core.dry import tell
    from native.models.models import would_locate

    if session.dry:
        return Answer(tell(session.console, would_locate(session, model)))
    request = FitRequest(
        model=model, board=board, choice=choice, context=context, ubatch=ubatch, kv_type=kv_type, repack=not no_repack
    )
    answer = fit_on_board(session, request)
    show_fit(session.console, answer)
    return Answer(answer)
