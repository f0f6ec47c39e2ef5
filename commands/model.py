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


@command(
    positional=("model",),
    changes=True,
    dry=True,
    help={
        "model": "A .gguf file, or a name that `ohforge model.list` shows, which is fetched.",
        "to": "Quantisations to make, such as Q4_K_M,Q8_0.",
        "output": "Folder for them; default: the model's own, or this one for a model that was named.",
        "imatrix": "Importance matrix of the model (llama-imatrix makes them); the smallest types need one.",
        "allow-requantize": "Take a model that is quantised already, which costs quality once more.",
        "force": "Write over files that are there.",
        "threads": "Threads to compute with; default: one for each processor.",
        "dry-run": "Only say how large they would be; llama-quantize is built for that.",
    },
)
def quantize(
    session: Session,
    model: str,
    to: str = "",
    output: str = "",
    imatrix: str = "",
    allow_requantize: bool = False,
    force: bool = False,
    threads: int = 0,
    dry_run: bool = False,
) -> Answer:
    """Make other quantisations of a GGUF model on this computer, by llama.cpp's own llama-quantize."""
    from commands.show_model import show_quantised
    from core.dry import tell
    from native.models.quantize import QuantizeRequest, forecast_quantisations, quantize_model, would_quantize

    request = QuantizeRequest(
        model=model,
        types=tuple(to.split(",")),
        folder=output,
        imatrix=imatrix,
        allow_requantize=allow_requantize,
        force=force,
        threads=threads,
    )
    if session.dry:
        return Answer(tell(session.console, would_quantize(session, request)))
    outcome = (forecast_quantisations if dry_run else quantize_model)(session, request)
    show_quantised(session.console, outcome)
    return Answer(outcome.as_json())
