"""What transfers would do: the files that a board lacks, with their sizes, and those that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from core.dry import Would
from core.session import Session
from deploy.board.protocol import Board
from deploy.board.survey import Survey
from deploy.hdc.emulated import is_up
from deploy.transfer.clean import clean_board
from deploy.transfer.links import Links
from deploy.transfer.pull import look_before_pull
from deploy.transfer.push import look_at_store, look_before_push
from deploy.transfer.store import StoredFile
from deploy.transfer.tree import tell_left_out

NOT_UP = "what the board has is not known: it is not started"


def would_push(
    session: Session, board: Board, locals_: Sequence[Path], remote: str, links: Links = Links.FOLLOW
) -> list[Would]:
    """What `push_files` would do. Raises as `look_before_push`."""
    look = look_before_push(session, board, locals_, remote, links, ask=is_up(session, board))
    tell_left_out(session, look.left_out, f"on its way to board {board.serial}")
    places = [f"{look.placement.folder}/{file.name}" for _, file in look.placement.files]
    stored = [stored for stored, _ in look.placement.files]
    return would_store(session, board, stored, look.survey, places=places, action="place")


def would_store(
    session: Session,
    board: Board,
    files: Sequence[StoredFile],
    survey: Survey,
    *,
    places: Sequence[str] = (),
    action: str = "use",
) -> list[Would]:
    """What `ensure_stored` would send; `action` is what is done with what is there. Raises as `look_at_store`."""
    board_name = f"board {board.serial}"
    wheres = [f"{board_name}, {place}" for place in places] or [board_name] * len(files)
    would = [
        Would(action="send", what=str(file.local), size=file.size, where=where, why=NOT_UP)
        for file, where in zip(files, wheres, strict=True)
    ]
    if not is_up(session, board):
        return would
    look = look_at_store(board, files, survey)

    def known(file: StoredFile, entry: Would) -> Would:
        if file in look.to_send:
            there = survey.parts.get(file.fingerprint, 0) if survey.parts else 0
            return replace(entry, there=there, why="")
        why = "its content would be compared there first" if file in look.unproven else ""
        return replace(entry, action=action, there=file.size, why=why)

    # Of files with one content only one is sent.
    pairs = zip(files, would, strict=True)
    return [known(file, entry) for file, entry in pairs if file in look.wanted]


def would_pull(
    session: Session, board: Board, remotes: Sequence[str], target: Path, links: Links = Links.FOLLOW
) -> list[Would]:
    """What `pull_files` would do. Raises as it does when files are not there."""
    source = f"board {board.serial}"
    if not is_up(session, board):
        return [Would(action="pull", what=remote, source=source, where=str(target), why=NOT_UP) for remote in remotes]
    return [
        Would(
            action="pull",
            what=f"{folder}/{file.path}",
            size=file.size,
            source=source,
            where=str(local),
            why="in place of the file of that name" if local.exists() else "",
        )
        for folder, file, local in look_before_pull(session, board, remotes, target, links)
    ]


def would_clean(session: Session, board: Board, *, days: float, smallest: int) -> Would:
    """What `clean_board` would do; `session` is a dry one."""
    what, where = f"what ohforge has put into {board.profile.device_dir}/ohforge", f"board {board.serial}"
    if not is_up(session, board):
        return Would(action="remove", what=what, where=where, why=NOT_UP)
    counted = clean_board(session, board, days=days, smallest=smallest)
    action = "remove" if counted.entries else "use"
    return Would(action=action, what=what, size=counted.freed_bytes, where=where, why=f"{counted.entries} entries")
