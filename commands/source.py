"""``ohforge source.*``: components built in an OpenHarmony source tree, with the tree's own build.sh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from commands.board import held_board, look_at_board
from commands.command import Answer, command

if TYPE_CHECKING:
    from core.session import Session

TREE_HELP = "Folder of the source tree, or one below it; default: the current folder."


@command(
    changes=True,
    dry=True,
    help={
        "component": "neural_network_runtime, mindspore_lib, any component or //path:target of the tree.",
        "tree": TREE_HELP,
        "product": "Product of the tree, which `ohforge source.check` lists.",
        "cpu": "arm or arm64; default: the product's own.",
        "ccache": "Let build.sh use ccache.",
        "jobs": "Compile jobs at once; default: as many as processors and memory carry.",
        "prebuilt-sdk": "Let build.sh build the whole SDK first, which a component does not need.",
        "ignore-checks": "Build although something seems to be missing.",
        "timeout": "Seconds that it may take; default: ohforge.timeouts.source_build.",
        "push-to": "Folder of a board that the built libraries are pushed to.",
        "board": "Board for --push-to; `ohforge board.list` shows them.",
    },
)
def build(
    session: Session,
    component: str = "neural_network_runtime",
    tree: str = "",
    product: str = "rk3568",
    cpu: str = "",
    ccache: bool = False,
    jobs: int = 0,
    prebuilt_sdk: bool = False,
    ignore_checks: bool = False,
    timeout: float = 0.0,
    push_to: str = "",
    board: str = "",
) -> Answer:
    """Build a component of OpenHarmony in its source tree, collect its libraries and headers, keep a record."""
    from commands.show import show_source_build
    from core.dry import Would, tell
    from native.openharmony.build import SourceBuildRequest, build_component, look_at_component, would_build

    request = SourceBuildRequest(
        component=component,
        tree=_folder(tree),
        product=product,
        cpu=cpu,
        ccache=ccache,
        jobs=jobs,
        prebuilt_sdk=prebuilt_sdk,
        ignore_checks=ignore_checks,
        timeout=timeout,
    )
    if session.dry:
        would = [would_build(look_at_component(session, request))]
        if push_to:
            chosen = look_at_board(session, board)
            would.append(Would(action="send", what="the built libraries", where=f"board {chosen.serial}, {push_to}"))
        return Answer(tell(session.console, would))
    outcome = build_component(session, request)
    show_source_build(session.console, outcome, pushing=bool(push_to))
    pushed = _push_libraries(session, outcome.libraries, push_to, board) if push_to else None
    return Answer({**outcome.as_json(), "pushed": pushed})


def _push_libraries(session: Session, folder: Path, target: str, board: str) -> dict[str, Any]:
    """Pushes what the build left; every hash is checked on the board."""
    from dataclasses import asdict

    from core.files import human_bytes
    from deploy.transfer.push import push_files

    with held_board(session, board, f"push {folder}") as chosen:
        summary = push_files(session, chosen, [folder], target)
    session.console.info(f"pushed to {target}: {human_bytes(summary.bytes_sent)} sent")
    return {"target": target, **asdict(summary)}


@command(
    help={
        "component": "Also look at the sources of this component.",
        "tree": TREE_HELP,
        "product": "Product whose component it is.",
    }
)
def check(session: Session, component: str = "", tree: str = "", product: str = "rk3568") -> Answer:
    """Say whether this machine and a source tree can build OpenHarmony, and what the tree has; nothing is built."""
    from commands.show import show_prerequisites
    from core.errors import Category
    from native.openharmony.prerequisites import check_prerequisites
    from native.openharmony.tree import find_component, find_product, find_tree, list_products

    found = find_tree(_folder(tree))
    part = find_component(found, find_product(found, product), component) if component else None
    checks = check_prerequisites(found, part)
    products = list_products(found)
    show_prerequisites(session.console, found, products, checks)
    lacking = [check.name for check in checks if check.state == "missing"]
    value = {
        "tree": str(found.root),
        "release": found.release,
        "api_level": found.api_level,
        "products": [entry.name for entry in products],
        "checks": [check.as_json() for check in checks],
        "missing": lacking,
    }
    return Answer(value, exit_status=Category.HOST.value if lacking else 0)


@command(positional=("log",), help={"log": "A log of build.sh, such as out/rk3568/build.log."})
def explain(session: Session, log: str) -> Answer:
    """Say why a build of OpenHarmony failed, from a log that you have."""
    from native.openharmony.failures import explain_log

    found = explain_log(Path(log).expanduser())
    session.console.info(found.sentence)
    if found.evidence:
        session.console.info(f"  line: {found.evidence}")
    if found.remedy:
        session.console.info(f"  try: {found.remedy}")
    return Answer({"failure": found.name, "sentence": found.sentence, "remedy": found.remedy, "line": found.evidence})


def _folder(tree: str) -> Path:
    return Path(tree).expanduser().absolute() if tree else Path.cwd()
