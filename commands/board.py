"""``invoke board.*``: boards, real and emulated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from commands.command import TOOLCHAIN_HELP, Answer, command, remainder_words

if TYPE_CHECKING:
    from core.session import Session

BOARD_HELP = "Serial, name under ohforge.boards, or emulated board; `invoke board.list` shows them."
TIMEOUT_HELP = "Seconds that it may take; default: the setting under ohforge.timeouts."


@command(name="list", help={})
def list_(session: Session) -> Answer:
    """List the boards: connected ones and emulated ones."""
    from deploy.choose import list_boards

    boards = list_boards(session)
    rows = [[b["serial"], b["state"], b["profile"], "emulated" if b["emulated"] else "real", b["note"]] for b in boards]
    session.console.table(["SERIAL", "STATE", "PROFILE", "KIND", "NOTE"], rows)
    return Answer({"boards": boards})


@command(help={"board": BOARD_HELP})
def info(session: Session, board: str = "") -> Answer:
    """Ask a board what it is: arches, memory, kernel, loaders, free space."""
    from commands.show import show_board
    from deploy.choose import choose_board
    from deploy.inspect import describe_board

    facts = describe_board(session, choose_board(session, board))
    show_board(session.console, facts)
    return Answer({"board": facts})


@command(
    optional_positional="model",
    unless="program",
    repeatable=("output", "file", "param"),
    help={
        "model": "A model file, or a name that `invoke model.list` shows.",
        "program": "Instead of a model: a program file for the board, or a recipe's product such as llama-bench; "
        "its arguments follow after `--`.",
        "board": BOARD_HELP,
        **TOOLCHAIN_HELP,
        "arch": "arm32, arm64 or x86_64; default: the best that the board runs.",
        "cpu": "CPU tuning; default: the one of the board's profile.",
        "prompt": "What a language model shall go on from.",
        "tokens": "How many tokens a language model shall write.",
        "threads": "Threads on the board.",
        "param": "NAME=VALUE: a further parameter of the recipe's run section; may be given again.",
        "file": "A further file that shall lie beside the program; may be given again.",
        "output": "Pattern of files that the program leaves and that are fetched; may be given again.",
        "timeout": TIMEOUT_HELP,
    },
)
def run(
    session: Session,
    model: str = "",
    program: str = "",
    board: str = "",
    arch: str = "",
    cpu: str = "",
    toolchain: str = "",
    sdk: str = "",
    static: bool = False,
    stl: str = "",
    prompt: str = "",
    tokens: int = 0,
    threads: int = 0,
    param: list[str] | None = None,
    file: list[str] | None = None,
    output: list[str] | None = None,
    timeout: float = 0.0,
) -> Answer:
    """Run a model or a program on a board; what is missing there is built and pushed first, and a record is kept."""
    from commands.show import read_parameters, show_outcome
    from deploy.launch import LaunchRequest, run_model, run_program

    request = LaunchRequest(
        model=model,
        program=program,
        arguments=remainder_words(),
        board=board,
        arch=arch,
        cpu=cpu,
        toolchain=toolchain,
        sdk=sdk,
        static=static or None,
        stl=stl,
        prompt=prompt,
        tokens=tokens,
        threads=threads,
        parameters=read_parameters(param or ()),
        files=tuple(file or ()),
        outputs=tuple(output or ()),
        timeout=timeout,
    )
    outcome = run_program(session, request) if program else run_model(session, request)
    show_outcome(session.console, outcome)
    return Answer(outcome.as_json(), exit_status=outcome.exit_code)


@command(help={"board": BOARD_HELP, "timeout": TIMEOUT_HELP, "folder": "Folder of the board to run it in."})
def shell(session: Session, board: str = "", timeout: float = 0.0, folder: str = "") -> Answer:
    """Run a command line on a board: `invoke board.shell -- COMMAND`; its exit status is handed on."""
    from core.errors import UsageError
    from deploy.choose import choose_board
    from deploy.launch import run_shell

    words = remainder_words()
    if not words:
        raise UsageError("There is no command.", remedy="Write it after two dashes: invoke board.shell -- uname -a")
    result = run_shell(
        session,
        choose_board(session, board),
        " ".join(words),
        folder=folder,
        timeout=timeout,
        on_output=None if session.console.json_mode else session.console.passthrough,
    )
    value = {"exit_code": result.exit_code, "output": result.text, "seconds": round(result.seconds, 3)}
    return Answer(value, exit_status=result.exit_code)


@command(
    positional=("source", "target"),
    help={
        "source": "File or folder of this computer.",
        "target": "Where it shall be on the board; a folder when it ends in a slash.",
        "board": BOARD_HELP,
    },
)
def push(session: Session, source: str, target: str, board: str = "") -> Answer:
    """Copy a file or folder to a board; every hash is checked there, and what is there already is not sent."""
    from dataclasses import asdict

    from core.files import human_bytes
    from deploy.choose import choose_board
    from deploy.transfer import push_files

    summary = push_files(session, choose_board(session, board), [Path(source).expanduser()], target)
    sent, reused = human_bytes(summary.bytes_sent), human_bytes(summary.bytes_reused)
    session.console.info(f"{sent} sent, {reused} were there already; verified with {summary.hash_tool}")
    return Answer(asdict(summary))


@command(
    positional=("source", "target"),
    help={
        "source": "File or folder of the board.",
        "target": "Where it shall be here: a folder that exists, or the new name.",
        "board": BOARD_HELP,
    },
)
def pull(session: Session, source: str, target: str, board: str = "") -> Answer:
    """Copy a file or folder from a board; every hash is checked."""
    from core.files import human_bytes
    from deploy.choose import choose_board
    from deploy.pull import pull_files

    pulled = pull_files(session, choose_board(session, board), [source], Path(target).expanduser())
    for file in pulled:
        session.console.info(f"{file.local}  {human_bytes(file.size)}")
    rows = [{"path": str(f.local), "remote": f.remote, "size": f.size, "sha256": f.sha256} for f in pulled]
    return Answer({"files": rows})


@command(help={"board": BOARD_HELP, "older-than": "Only what is older than this many days."})
def clean(session: Session, board: str = "", older_than: float = 0.0) -> Answer:
    """Remove from a board what ohforge put there, and nothing else."""
    from dataclasses import asdict

    from core.files import human_bytes
    from deploy.choose import choose_board
    from deploy.clean import clean_board

    cleaned = clean_board(session, choose_board(session, board), days=older_than)
    session.console.info(f"{cleaned.entries} entries removed, {human_bytes(cleaned.freed_bytes)} are free again")
    return Answer(asdict(cleaned))
