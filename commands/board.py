"""``ohforge board.*``: boards, real and emulated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from commands.command import Answer, command
from commands.words import (
    ARCH_HELP,
    BOARD_HELP,
    CPU_HELP,
    LINKS_HELP,
    RUN,
    TIMEOUT_HELP,
    TOOLCHAIN,
    RunFlags,
    read_duration,
    read_parameters,
    read_size,
    recipe_flags,
)
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from core.session import Session
    from deploy.board.protocol import Board
    from native.recipe.flags import Given

WAIT_HELP = "Seconds to wait for a board that someone else uses; default: the setting ohforge.timeouts.lease."
OWN_WAIT = -1.0


@command(name="list", help={})
def list_(session: Session) -> Answer:
    """List the boards: connected ones and emulated ones."""
    from commands.show import show_boards
    from deploy.hdc.listed import list_boards

    boards = list_boards(session)
    show_boards(session.console, boards)
    return Answer({"boards": boards})


@command(
    changes=True,
    dry=True,
    help={
        "board": BOARD_HELP,
        "measure": "Measure how fast it copies memory and reads its storage, for `ohforge model.fit`; takes some seconds.",
        "wait": WAIT_HELP,
        "accept_new": "Trust the key of an SSH board that is not known, and note it in known_hosts.",
    },
)
def info(
    session: Session, board: str = "", measure: bool = False, wait: float = OWN_WAIT, accept_new: bool = False
) -> Answer:
    """Ask a board what it is: arches, memory, kernel, loaders, free space, and how fast it was measured to be."""
    from commands.show import show_board
    from core.dry import Would, tell
    from deploy.hdc.choose import choose_board
    from deploy.hdc.fit import describe_board
    from deploy.lease.lease import hold_board
    from deploy.run.rates import find_rates, measure_rates

    if session.dry:
        chosen, what = look_at_board(session, board), "its copying of memory and its reading of storage"
        would = [Would(action="measure", what=what, where=f"board {chosen.serial}")] if measure else []
        return Answer(tell(session.console, would))
    chosen = choose_board(session, board, accept_new=accept_new)
    if measure:
        with hold_board(_waiting(session, wait), chosen, "measure rates"):
            measure_rates(session, chosen)
    facts = describe_board(session, chosen)
    rates = find_rates(session, chosen, machine=facts["machine"], kernel=facts["kernel"])
    facts["rates"] = rates.as_json() if rates is not None else None
    show_board(session.console, facts)
    return Answer({"board": facts})


@command(
    optional_positional="model",
    unless="program",
    repeatable=("file", "param"),
    remainder="arguments",
    changes=True,
    dry=True,
    groups={"choice": TOOLCHAIN, "running": RUN},
    more_flags=recipe_flags,
    help={
        "model": "A model file, or a name that `ohforge model.list` shows.",
        "program": "Instead of a model: a program file for the board, or a recipe's product such as llama-bench; "
        "its arguments follow after `--`.",
        "board": BOARD_HELP,
        "arch": ARCH_HELP,
        "cpu": CPU_HELP,
        "param": "NAME=VALUE: a further parameter of the recipe's run section; may be given again.",
        "file": "A further file that shall lie beside the program; may be given again.",
        "wait": WAIT_HELP,
    },
)
def run(
    session: Session,
    choice: ToolchainChoice,
    running: RunFlags,
    given: Mapping[str, Given],
    model: str = "",
    program: str = "",
    board: str = "",
    param: list[str] | None = None,
    file: list[str] | None = None,
    wait: float = OWN_WAIT,
    arguments: tuple[str, ...] = (),
) -> Answer:
    """Run a model or a program on a board; what is missing there is built and pushed first, and a record is kept."""
    from bench.verdict import tell_verdict
    from commands.show import show_outcome
    from core.dry import tell
    from deploy.launch.dry import would_run
    from deploy.launch.launch import run_model, run_program
    from deploy.launch.request import LaunchRequest

    request = LaunchRequest(
        model=model,
        program=program,
        arguments=arguments,
        board=board,
        choice=choice,
        given=given,
        parameters=read_parameters(param or ()),
        files=tuple(file or ()),
        options=running.read(),
    )
    if session.dry:
        return Answer(tell(session.console, would_run(session, request)))
    session = _waiting(session, wait)
    fit: dict[str, Any] = {}
    if program:
        outcome = run_program(session, request)
    else:
        outcome = run_model(session, request, lambda launch: fit.update(tell_verdict(session, launch)))
    show_outcome(session.console, outcome)
    return Answer(outcome.as_json() | ({"fit": fit} if fit else {}), exit_status=outcome.exit_code)


@command(
    optional_positional="line",
    remainder="words",
    changes=True,
    dry=True,
    help={
        "line": "The command line in quotes; or write it after two dashes: what stands there is joined by blanks, as ssh does, "
        "and read by the board's shell.",
        "board": BOARD_HELP,
        "timeout": TIMEOUT_HELP,
        "folder": "Folder of the board to run it in.",
        "wait": WAIT_HELP,
    },
)
def shell(
    session: Session,
    line: str = "",
    board: str = "",
    timeout: float = 0.0,
    folder: str = "",
    wait: float = OWN_WAIT,
    words: tuple[str, ...] = (),
) -> Answer:
    """Run a command line on a board: `ohforge board.shell "ls /data"`, or after `--`; its exit status is handed on."""
    from core.dry import Would, tell
    from core.errors import UsageError
    from deploy.launch.shell import run_shell

    words = (*filter(None, [line]), *words)
    if not words:
        raise UsageError("There is no command.", remedy='Write it in quotes: ohforge board.shell "uname -a".')
    if session.dry:
        chosen, why = look_at_board(session, board), f"in its folder {folder}" if folder else ""
        would = Would(action="run", what=" ".join(words), where=f"board {chosen.serial}", why=why)
        return Answer(tell(session.console, [would]))
    with held_board(session, board, f"shell {words[0]}", wait) as chosen:
        result = run_shell(
            session,
            chosen,
            " ".join(words),
            folder=folder,
            timeout=timeout,
            on_output=None if session.console.json_mode else session.console.passthrough,
        )
    value = {"exit_code": result.exit_code, "output": result.text, "seconds": round(result.seconds, 3)}
    return Answer(value, exit_status=result.exit_code)


@command(
    positional=("source", "target"),
    changes=True,
    dry=True,
    help={
        "source": "File or folder of this computer.",
        "target": "Where it shall be on the board; a folder when it ends in a slash.",
        "links": f"What becomes of links in a folder. {LINKS_HELP}",
        "board": BOARD_HELP,
        "wait": WAIT_HELP,
    },
)
def push(
    session: Session, source: str, target: str, board: str = "", links: str = "follow", wait: float = OWN_WAIT
) -> Answer:
    """Copy a file or folder to a board; every hash is checked there, and what is there already is not sent."""
    from dataclasses import asdict

    from core.dry import tell
    from core.files import human_bytes
    from deploy.transfer.dry import would_push
    from deploy.transfer.links import Links
    from deploy.transfer.push import push_files

    local, rule = Path(source).expanduser(), Links.read(links)
    if session.dry:
        return Answer(tell(session.console, would_push(session, look_at_board(session, board), [local], target, rule)))
    with held_board(session, board, f"push {source}", wait) as chosen:
        summary = push_files(session, chosen, [local], target, rule)
    sent, reused = human_bytes(summary.bytes_sent), human_bytes(summary.bytes_reused)
    session.console.info(f"{sent} sent, {reused} were there already; verified with {summary.hash_tool}")
    return Answer(asdict(summary))


@command(
    positional=("source", "target"),
    changes=True,
    dry=True,
    help={
        "source": "File or folder of the board.",
        "target": "Where it shall be here: a folder that exists, or the new name.",
        "links": f"What becomes of links in a folder. {LINKS_HELP}",
        "board": BOARD_HELP,
        "wait": WAIT_HELP,
    },
)
def pull(
    session: Session, source: str, target: str, board: str = "", links: str = "follow", wait: float = OWN_WAIT
) -> Answer:
    """Copy a file or folder from a board; every hash is checked."""
    from dataclasses import asdict

    from core.dry import tell
    from core.files import human_bytes
    from deploy.transfer.dry import would_pull
    from deploy.transfer.links import Links
    from deploy.transfer.pull import pull_files

    local, rule = Path(target).expanduser(), Links.read(links)
    if session.dry:
        return Answer(tell(session.console, would_pull(session, look_at_board(session, board), [source], local, rule)))
    with held_board(session, board, f"pull {source}", wait) as chosen:
        pulled = pull_files(session, chosen, [source], local, rule)
    for file in pulled.files:
        session.console.info(f"{file.local}  {human_bytes(file.size)}")
    rows = [{"path": str(f.local), "remote": f.remote, "size": f.size, "sha256": f.sha256} for f in pulled.files]
    return Answer({"files": rows, "left_out": [asdict(entry) for entry in pulled.left_out]})


@command(
    changes=True,
    dry=True,
    help={
        "board": BOARD_HELP,
        "older-than": "Only what is older than this many days.",
        "larger-than": "Only what takes up this much room or more, such as 500M or 2G.",
        "wait": WAIT_HELP,
    },
)
def clean(
    session: Session, board: str = "", older_than: float = 0.0, larger_than: str = "", wait: float = OWN_WAIT
) -> Answer:
    """Remove from a board, and from the host that it is behind, what ohforge put there, and nothing else."""
    from dataclasses import asdict

    from core.dry import tell
    from core.files import human_bytes
    from deploy.transfer.clean import clean_board
    from deploy.transfer.dry import would_clean

    smallest = read_size("--larger-than", larger_than) if larger_than else 0
    if session.dry:
        looked = look_at_board(session, board)
        places = [place for place in (looked, looked.host) if place is not None]
        would = [would_clean(session, place, days=older_than, smallest=smallest) for place in places]
        return Answer(tell(session.console, would))
    with held_board(session, board, "clean", wait) as chosen:
        places = [place for place in (chosen, chosen.host) if place is not None]
        cleaned = [clean_board(session, place, days=older_than, smallest=smallest) for place in places]
    for place, done in zip(places, cleaned, strict=True):
        freed = f"{human_bytes(done.freed_bytes)} are free again"
        session.console.info(f"{done.entries} entries removed, {freed}" + ("" if place is chosen else " on its host"))
    on_host = {"host": asdict(cleaned[1])} if len(cleaned) > 1 else {}
    return Answer(asdict(cleaned[0]) | on_host)


@command(
    name="lock",
    changes=True,
    dry=True,
    help={
        "board": BOARD_HELP,
        "for": "How long, such as 90s, 30m, 2h or 1h30m.",
        "purpose": "What for: others are shown it.",
        "wait": WAIT_HELP,
    },
)
def lock(
    session: Session, board: str = "", for_: str = "1h", purpose: str = "board.lock", wait: float = OWN_WAIT
) -> Answer:
    """Keep a board for yourself after this command; your own runs go through, those of other users wait."""
    from core.dry import tell
    from deploy.hdc.choose import locate_board
    from deploy.lease.lease import lock_board, would_lock

    place, session, seconds = locate_board(session, board), _waiting(session, wait), read_duration("--for", for_)
    if session.dry:
        return Answer(tell(session.console, [would_lock(session, place, seconds=seconds, purpose=purpose)]))
    lease = lock_board(session, place, seconds=seconds, purpose=purpose)
    session.console.info(f"board {place.serial} is locked by {lease.describe()}")
    return Answer({"board": place.serial, "lease": lease.as_json()})


@command(
    changes=True, dry=True, help={"board": BOARD_HELP, "force": "Take it away from whoever holds it, a run included."}
)
def unlock(session: Session, board: str = "", force: bool = False) -> Answer:
    """Give back a board that `board.lock` has taken."""
    from core.dry import tell
    from deploy.hdc.choose import locate_board
    from deploy.lease.lease import unlock_board, would_unlock

    place = locate_board(session, board)
    if session.dry:
        return Answer(tell(session.console, would_unlock(place, force=force)))
    removed = unlock_board(place, force=force)
    for lease in removed:
        session.console.info(f"board {place.serial} is released; it was held by {lease.describe()}")
    if not removed:
        session.console.info(f"board {place.serial} was not locked by you")
    return Answer({"board": place.serial, "released": [lease.as_json() for lease in removed]})


@contextlib.contextmanager
def held_board(session: Session, name: str, purpose: str, wait: float = OWN_WAIT) -> Iterator[Board]:
    """The board of that name, which nobody else uses while the block runs."""
    from deploy.hdc.choose import choose_board
    from deploy.lease.lease import hold_board

    chosen = choose_board(session, name)
    with hold_board(_waiting(session, wait), chosen, purpose):
        yield chosen


def look_at_board(session: Session, name: str) -> Board:
    """The board of that name for a look with ``--dry``: whoever uses it goes on, and is named."""
    from deploy.hdc.choose import choose_board
    from deploy.lease.lease import LeasePlace, find_holder

    chosen = choose_board(session, name)
    holder = find_holder(LeasePlace.of_board(session, chosen))
    if holder is not None:
        session.console.info(f"board {chosen.serial} is used by {holder.describe()}")
    return chosen


def _waiting(session: Session, seconds: float) -> Session:
    """The same session, in which a board that is in use is waited for so long; the setting's time when negative."""
    from dataclasses import replace

    if seconds < 0:
        return session
    return session.with_settings(timeouts=replace(session.settings.timeouts, lease=seconds))


@command(
    repeatable=("tag",),
    help={
        "board": BOARD_HELP,
        "level": "From this level on (D, I, W, E, F); several, as in W,E: just these.",
        "tag": "Lines with this tag only; may be given again.",
        "follow": "Go on with new lines until Ctrl-C or --timeout.",
        "lines": "The last so many lines only.",
        "since-run": "Lines since the newest run on this board began, by the board's own clock.",
        "timeout": "Seconds to follow; default: the setting ohforge.timeouts.run.",
    },
)
def logs(
    session: Session,
    board: str = "",
    level: str = "",
    tag: list[str] | None = None,
    follow: bool = False,
    lines: int = 0,
    since_run: bool = False,
    timeout: float = 0.0,
) -> Answer:
    """Show a board's log (hilog): what is in its buffers, or with --follow what comes as well."""
    from commands.show import LogPrinter
    from deploy.hdc.choose import choose_board
    from deploy.run.hilog import last_run, read_filter, show_log

    chosen, printer = read_filter(level, tag or ()), LogPrinter(session.console)
    where = choose_board(session, board)
    since = last_run(session.settings.runs, where.serial) if since_run else None
    show_log(session, where, chosen, printer.show, follow=follow, lines=lines, since=since, timeout=timeout)
    return Answer({"board": where.serial, "lines": printer.entries})
