"""Files to a board, so that done means verified there.

Every file goes by way of the board's content store (`deploy.transfer.store`): what is there is not sent again, what is sent
lies under a temporary name until size and hash are right, and is then hard-linked to where it is wanted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from core.deadline import Deadline
from core.errors import CannotWrite, ContentDiffers, NoSpaceOnBoard, UsageError
from core.files import human_bytes, sha256_file
from core.locks import hold
from core.names import file_name_of
from core.session import Session
from deploy.agent.agent import AgentHandle, agents_for_hashing, find_agent, running_agent
from deploy.board.protocol import Board
from deploy.board.survey import NOT_ASKED, Question, Survey, require_usable, survey_board
from deploy.hdc.host import HdcHost, title_of
from deploy.hdc.paths import check_board_path, check_local_file
from deploy.transfer.chunks import is_large, room_for_chunks
from deploy.transfer.confirm import Arrived, Verdict, confirm_files
from deploy.transfer.links import Links
from deploy.transfer.placement import FileToPlace, Placement
from deploy.transfer.sending import Sending
from deploy.transfer.staging import staged
from deploy.transfer.store import (
    StoredFile,
    each_content_once,
    file_changed,
    hash_in_background,
    is_stored,
    needs_proof,
    question_about,
)
from deploy.transfer.tree import LeftOut, check_name, gather, tell_left_out

SPARE_BYTES = 8 * 1000 * 1000
"""What must stay free on a board after a transfer."""


@dataclass(frozen=True, kw_only=True)
class TransferSummary:
    """What a transfer took. Sizes in bytes, each content counted once."""

    bytes_sent: int
    bytes_reused: int
    files_sent: int
    files_reused: int
    seconds: float
    hash_tool: str


@dataclass(frozen=True, kw_only=True)
class PushSummary(TransferSummary):
    """What a push took, and what did not go along, or not as it is here."""

    left_out: tuple[LeftOut, ...]


def place_files(session: Session, board: Board, files: Sequence[FileToPlace], folder: str) -> TransferSummary:
    """Puts `files` into `folder` of the board, which is made when it is not there.

    Raises UsageError, UnsafePath, NoSpaceOnBoard, PermissionOnBoard, ContentDiffers, TransferError, LostConnection.
    """
    stored = describe_files(files)
    survey = survey_board(session, board, replace(ask_about(stored), facts=False))
    placement = Placement(folder=folder, files=list(zip(stored, files, strict=True)))
    return ensure_stored(session, board, stored, survey, placement)[0]


def place_program(session: Session, board: Board, program: Path, remote: str, sha256: str) -> None:
    """Puts one program, whose hash is known, at the path `remote` of the board. Raises as `place_files`."""
    folder, name = remote.rsplit("/", 1)
    place_files(session, board, [FileToPlace(local=program, name=name, executable=True, sha256=sha256)], folder)


def push_files(
    session: Session, board: Board, locals_: Sequence[Path], remote: str, links: Links = Links.FOLLOW
) -> PushSummary:
    """Copies files and folders to `remote`: into it when it ends in a slash, is a folder or several are given, else as it.

    Raises as `place_files`, and UnsafePath for links when they are refused.
    """
    look = look_before_push(session, board, locals_, remote, links)
    stored = [stored for stored, _ in look.placement.files]
    summary, without_mode = ensure_stored(session, board, stored, look.survey, look.placement)
    left_out = (*look.left_out, *(LeftOut(path=path, why="mode") for path in without_mode))
    tell_left_out(session, left_out, f"on its way to board {board.serial}")
    return PushSummary(**vars(summary), left_out=left_out)


@dataclass(frozen=True, kw_only=True)
class PushLook:
    """What a push finds before it begins: what the board has of the files, where which shall lie, and what cannot go along."""

    survey: Survey
    placement: Placement
    left_out: Sequence[LeftOut]


def look_before_push(
    session: Session,
    board: Board,
    locals_: Sequence[Path],
    remote: str,
    links: Links = Links.FOLLOW,
    *,
    ask: bool = True,
) -> PushLook:
    """Looks here and there. Raises UsageError, UnsafePath, LostConnection.

    Without `ask` nothing is asked: then `remote` is taken for what it looks like, and the survey is empty.
    """
    check_board_path(remote)
    found = gather(locals_, links)
    if not found.files and not found.links:
        raise UsageError(
            f"There are no files in {', '.join(map(str, locals_))}.", remedy="Name a folder with files in it."
        )
    stored = describe_files(found.files)
    into = remote.endswith("/") or len(locals_) > 1
    survey = _survey_for_push(session, board, stored, folder="" if into else remote) if ask else NOT_ASKED
    if into or survey.has_folder:
        target, name = remote.rstrip("/") or "/", ""
    else:
        target, name = str(PurePosixPath(remote).parent), PurePosixPath(remote).name
    files = [replace(file, name=_renamed(file.name, name)) for file in found.files]
    placement = Placement(
        folder=target,
        files=list(zip(stored, files, strict=True)),
        folders=[replace(folder, name=_renamed(folder.name, name)) for folder in found.folders],
        links=[replace(link, name=_renamed(link.name, name)) for link in found.links],
    )
    return PushLook(survey=survey, placement=placement, left_out=found.left_out)


def _renamed(path: str, top: str) -> str:
    """`path` with another name at its top; unchanged without one."""
    return "/".join([top, *path.split("/")[1:]]) if top else path


def _survey_for_push(session: Session, board: Board, stored: Sequence[StoredFile], *, folder: str) -> Survey:
    """What the board has of `stored`; the agent will hash for it where it is, and for large files where it can be put."""
    agents = agents_for_hashing(session, board)
    question = replace(ask_about(stored), agents=agents, folder=folder, facts=False)
    survey = survey_board(session, board, question)
    agent = running_agent(survey)
    if agent is None and not session.dry and question.agents and any(is_large(file.size) for file in stored):
        # Less than 100 kB that spare the board's own tools hundreds of megabytes.
        found = find_agent(session, board, survey, place=place_program, build=False)
        agent = found if isinstance(found, AgentHandle) else None
    return replace(survey, agent=agent.path) if agent is not None else survey


def describe_files(files: Sequence[FileToPlace]) -> list[StoredFile]:
    """What the store must know of `files`. Large ones are hashed while other things go on.

    Raises UsageError for one that cannot be sent or has an impossible name.
    """
    for file in files:
        check_local_file(file.local)
        check_name(file.name)
    later = [not file.sha256 and is_large(file.local.stat().st_size) for file in files]
    hashing = iter(hash_in_background([file.local for file, is_later in zip(files, later, strict=True) if is_later]))
    return [
        StoredFile(file.local, sha256=file.sha256, hashing=next(hashing) if is_later else None)
        for file, is_later in zip(files, later, strict=True)
    ]


def ask_about(files: Sequence[StoredFile]) -> Question:
    """What tells which of `files` the board has, without a wait for the hashes of those that it cannot have."""
    return question_about(files, [file for file in files if is_large(file.size)])


@dataclass(frozen=True, kw_only=True)
class StoreLook:
    """What a board's store has of the files that are wanted there, each content once."""

    wanted: Sequence[StoredFile]
    to_send: Sequence[StoredFile]
    unproven: Sequence[StoredFile]
    """Those that are there, but must be hashed again before they are used."""


def look_at_store(board: Board, files: Sequence[StoredFile], survey: Survey) -> StoreLook:
    """What `survey`, which has looked for all of `files`, means for them. Raises NoSpaceOnBoard and what a board lacks."""
    if isinstance(board, HdcHost) and not survey.writable:
        folder = board.profile.device_dir
        raise CannotWrite(f"{folder} of the host {board.serial} cannot be written.", remedy=board.about_its_folder)
    require_usable(board, survey)
    wanted = each_content_once(files)
    unproven = [file for file in wanted if needs_proof(survey, file)]
    to_send = [file for file in wanted if not is_stored(survey, file) and file not in unproven]
    check_space(board, to_send, survey.free_bytes, survey.parts)
    return StoreLook(wanted=wanted, to_send=to_send, unproven=unproven)


def ensure_stored(
    session: Session, board: Board, files: Sequence[StoredFile], survey: Survey, placement: Placement | None = None
) -> tuple[TransferSummary, Sequence[str]]:
    """Brings what is missing into the board's store, and then puts it where it is wanted by `placement`.

    `survey` has looked for all of `files`. Returns also the names of what cannot have its mode there.

    A file that arrives with another content is sent once more. Raises as `place_files`.
    """
    started = time.monotonic()
    look = look_at_store(board, files, survey)
    wanted, sent = look.wanted, dict[str, int]()
    without_mode: Sequence[str] = ()
    if look.to_send or look.unproven:
        with _one_at_a_time(session, board):
            sent, without_mode = _send_and_confirm(session, board, look.to_send, look.unproven, survey, placement)
    elif placement is not None:
        without_mode = placement.place(board)
    summary = TransferSummary(
        bytes_sent=sum(sent.values()),
        bytes_reused=sum(max(0, file.size - sent.get(file.sha256, 0)) for file in wanted),
        files_sent=len(sent),
        files_reused=len(wanted) - len(sent),
        seconds=time.monotonic() - started,
        hash_tool=survey.verifier,
    )
    return summary, without_mode


def check_space(
    board: Board, files: Sequence[StoredFile], free_bytes: int | None, parts: Mapping[str, int] | None = None
) -> None:
    """Raises NoSpaceOnBoard, before anything is sent, when `files` do not fit into `free_bytes` (None: not known).

    `parts` says how many bytes of them are there from an earlier try, by fingerprint.
    """
    needed = _lacking(files, parts or {}) + room_for_chunks(files)
    if files and free_bytes is not None and needed + SPARE_BYTES > free_bytes:
        raise NoSpaceOnBoard(
            f"There are {human_bytes(free_bytes)} free in {board.profile.device_dir} of {title_of(board)}, "
            f"but {human_bytes(needed)} must be sent and {human_bytes(SPARE_BYTES)} kept free.",
            needed_bytes=needed,
            free_bytes=free_bytes,
        )


def _lacking(files: Sequence[StoredFile], parts: Mapping[str, int]) -> int:
    return sum(max(0, file.size - (parts.get(file.fingerprint, 0) if parts else 0)) for file in files)


@contextlib.contextmanager
def _one_at_a_time(session: Session, board: Board) -> Iterator[None]:
    """Two processes that send the same file at once would write into one another's."""
    lock = session.settings.data / "locks" / f"{file_name_of(board.serial)}.lock"
    deadline = Deadline.after(session.settings.timeouts.lock, f"another transfer to board {board.serial}")
    with hold(lock, deadline, on_wait=session.console.info):
        yield


def _send_and_confirm(
    session: Session,
    board: Board,
    to_send: Sequence[StoredFile],
    unproven: Sequence[StoredFile],
    survey: Survey,
    placement: Placement | None,
) -> tuple[dict[str, int], Sequence[str]]:
    """Sends, has the board verify and place, and does it once more with what was not right.

    Returns the bytes sent by name, and the names of what cannot have its mode there.
    """
    deadline = Deadline.after(session.settings.timeouts.transfer, f"the transfer to board {board.serial}")
    room = None
    if survey.free_bytes is not None:
        room = survey.free_bytes - SPARE_BYTES - _lacking(to_send, survey.parts)
    sent: dict[str, int] = {}
    for attempt in (1, 2):
        there = [Arrived(file=file, found_as=file.sha256) for file in unproven]

        def confirm(arrived: Sequence[Arrived], there: Sequence[Arrived] = there) -> Verdict:
            files = [*arrived, *there]
            return confirm_files(board, files, tool=survey.hash_command, deadline=deadline, placement=placement)

        with staged(session, board, to_send, _store):
            sending = Sending(session=session, board=board, survey=survey, room=room, deadline=deadline)
            verdict = sending.send_all(to_send, sent, confirm)
        wrong = [file for file in (*to_send, *unproven) if file.sha256 not in verdict.good]
        if not wrong:
            return sent, verdict.without_mode
        if any(file.sha256 in verdict.short for file in wrong):
            # Boards before 5.1 do not notice a full disk.
            check_space(board, wrong, verdict.free_bytes)
        if changed := [file.local for file in wrong if file.has_changed]:
            raise file_changed(*changed)
        if attempt == 1:
            names = ", ".join(file.local.name for file in wrong)
            session.console.warn(f"not what it should be on board {board.serial}: {names}; sending it again")
        to_send, unproven = wrong, ()
    if changed := [file.local for file in wrong if sha256_file(file.local) != file.sha256]:
        raise file_changed(*changed)
    raise ContentDiffers(
        f"Board {board.serial}: {', '.join(file.local.name for file in wrong)} arrived with another content, twice "
        f"(by {survey.verifier}). The wrong copy was removed."
    )


def _store(session: Session, host: Board, files: Sequence[StoredFile]) -> int:
    survey = survey_board(session, host, replace(ask_about(files), facts=False))
    return ensure_stored(session, host, files, survey)[0].bytes_sent
