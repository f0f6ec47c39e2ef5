"""Files to a board, so that done means verified there.

Every file goes by way of the board's content store (`deploy.store`): what is there is not sent again, what is sent
lies under a temporary name until size and hash are right, and is then hard-linked to where it is wanted.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from core.deadline import Deadline
from core.errors import (
    ContentDiffers,
    NoSpaceOnBoard,
    OhforgeError,
    PermissionOnBoard,
    TransferError,
    UsageError,
)
from core.files import human_bytes, sha256_file
from core.locks import hold
from core.session import Session
from deploy.agent import AgentHandle, agents_for_hashing, find_agent, running_agent
from deploy.board import Board
from deploy.chunks import is_large, room_for_chunks, send_in_chunks
from deploy.hdc_paths import check_local_file, check_remote_path
from deploy.inspect import Question, Survey, require_usable, survey_board
from deploy.render import render_script
from deploy.script import quote
from deploy.store import (
    HASH_BYTES_PER_SECOND,
    Arrived,
    Digests,
    StoredFile,
    confirm_files,
    hash_beginnings,
    is_stored,
    needs_proof,
    part_path,
    store_folder,
)
from deploy.watch import watched

SPARE_BYTES = 8 * 1000 * 1000
"""What must stay free on a board after a transfer."""
POLL_SECONDS = 2.0
NAME_LIMIT = 255
COPY_BYTES = 16 * 1024 * 1024
"""Files up to this size are copied to where a user wants them: as links, two of the same content would change together."""


@dataclass(frozen=True, kw_only=True)
class FileToPlace:
    """A local file and what it is called on the board, relative to the folder it goes to."""

    local: Path
    name: str
    executable: bool = False
    sha256: str = ""
    """Empty: worked out from the content."""


@dataclass(frozen=True, kw_only=True)
class TransferSummary:
    """What a transfer took. Sizes in bytes, each content counted once."""

    bytes_sent: int
    bytes_reused: int
    files_sent: int
    files_reused: int
    seconds: float
    hash_tool: str


def place_files(session: Session, board: Board, files: Sequence[FileToPlace], folder: str) -> TransferSummary:
    """Puts `files` into `folder` of the board, which is made when it is not there.

    Raises UsageError, UnsafePath, NoSpaceOnBoard, PermissionOnBoard, ContentDiffers, TransferError, LostConnection.
    """
    stored = describe_files(files)
    survey = survey_board(session, board, Question(stored=sorted({file.sha256 for file in stored}), facts=False))
    summary = ensure_stored(session, board, stored, survey)
    link_files(session, board, list(zip(stored, files, strict=True)), folder)
    return summary


def push_files(session: Session, board: Board, locals_: Sequence[Path], remote: str) -> TransferSummary:
    """Copies files and folders to `remote`: into it when it ends in a slash, is a folder or several are given, else as it.

    Raises as `place_files`.
    """
    check_remote_path(remote)
    into = remote.endswith("/") or len(locals_) > 1 or _is_folder(board, remote)
    base, name = (
        (remote.rstrip("/") or "/", "") if into else (str(PurePosixPath(remote).parent), PurePosixPath(remote).name)
    )
    files: list[FileToPlace] = []
    folders: list[str] = []
    for local in locals_:
        top = name or local.absolute().name
        if local.is_dir():
            folders += [
                f"{base}/{top}/{path.relative_to(local).as_posix()}"
                for path in sorted(local.rglob("*"))
                if path.is_dir()
            ]
            files += [_to_place(path, f"{top}/{path.relative_to(local).as_posix()}") for path in _files_below(local)]
        else:
            check_local_file(local)
            files.append(_to_place(local, top))
    if not files:
        raise UsageError(
            f"There are no files in {', '.join(map(str, locals_))}.", remedy="Name a folder with files in it."
        )
    stored = describe_files(files)
    summary = ensure_stored(session, board, stored, _survey_for_push(session, board, stored))
    link_files(session, board, list(zip(stored, files, strict=True)), base, folders)
    return summary


def _survey_for_push(session: Session, board: Board, stored: Sequence[StoredFile]) -> Survey:
    """What the board has of `stored`; the agent will hash for it where it is, and for large files where it can be put."""
    question = Question(
        stored=sorted({file.sha256 for file in stored}), agents=agents_for_hashing(session, board), facts=False
    )
    survey = survey_board(session, board, question)
    agent = running_agent(survey)
    if agent is None and question.agents and any(map(is_large, stored)):
        # Less than 100 kB that spare the board's own tools hundreds of megabytes.
        found = find_agent(session, board, survey, build=False)
        agent = found if isinstance(found, AgentHandle) else None
    return replace(survey, agent=agent.path) if agent is not None else survey


def _is_folder(board: Board, remote: str) -> bool:
    deadline = Deadline.after(30, f"the answer of board {board.serial}")
    return board.shell(f"[ -d {quote(remote)} ]", deadline=deadline).exit_code == 0


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _to_place(local: Path, name: str) -> FileToPlace:
    return FileToPlace(local=local, name=name, executable=os.access(local, os.X_OK))


def describe_files(files: Sequence[FileToPlace]) -> list[StoredFile]:
    """What the store must know of `files`. Raises UsageError for one that cannot be sent or has an impossible name."""
    for file in files:
        check_local_file(file.local)
        check_name(file.name)
    return [_describe(file) for file in files]


def _describe(file: FileToPlace) -> StoredFile:
    size = file.local.stat().st_size
    beginnings: Digests = {} if file.sha256 else hash_beginnings(file.local)
    return StoredFile(
        sha256=file.sha256 or beginnings[max(beginnings)], size=size, local=file.local, beginnings=beginnings
    )


def check_name(name: str) -> None:
    """Raises UsageError unless `name` is a relative path that stays in its folder."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or any(len(part.encode()) > NAME_LIMIT for part in parts):
        raise UsageError(f"{name!r} is no name for a file on the board.", remedy="Use a relative path without `..`.")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        raise UsageError(f"The name {name!r} has a control character in it.", remedy="Rename the file.")


def ensure_stored(session: Session, board: Board, files: Sequence[StoredFile], survey: Survey) -> TransferSummary:
    """Brings what is missing into the board's store; `survey` has looked for all of `files`.

    A file that arrives with another content is sent once more. Raises as `place_files`.
    """
    require_usable(board, survey)
    started = time.monotonic()
    wanted = {file.sha256: file for file in files}
    unproven = [file for file in wanted.values() if needs_proof(survey, file)]
    to_send = [file for file in wanted.values() if not is_stored(survey, file) and file not in unproven]
    check_space(board, to_send, survey.free_bytes, survey.parts)
    sent: dict[str, int] = {}
    if to_send or unproven:
        with _one_at_a_time(session, board):
            sent = _send_and_confirm(session, board, to_send, unproven, survey)
    return TransferSummary(
        bytes_sent=sum(sent.values()),
        bytes_reused=sum(max(0, file.size - sent.get(file.sha256, 0)) for file in wanted.values()),
        files_sent=len(sent),
        files_reused=len(wanted) - len(sent),
        seconds=time.monotonic() - started,
        hash_tool=survey.verifier,
    )


def check_space(
    board: Board, files: Sequence[StoredFile], free_bytes: int | None, parts: Mapping[str, int] | None = None
) -> None:
    """Raises NoSpaceOnBoard, before anything is sent, when `files` do not fit into `free_bytes` (None: not known).

    `parts` says how many bytes of them are there from an earlier try.
    """
    needed = _lacking(files, parts or {}) + room_for_chunks(files)
    if files and free_bytes is not None and needed + SPARE_BYTES > free_bytes:
        raise NoSpaceOnBoard(
            f"Board {board.serial} has {human_bytes(free_bytes)} free in {board.profile.device_dir}, "
            f"but {human_bytes(needed)} must be sent and {human_bytes(SPARE_BYTES)} kept free.",
            needed_bytes=needed,
            free_bytes=free_bytes,
        )


def _lacking(files: Sequence[StoredFile], parts: Mapping[str, int]) -> int:
    return sum(max(0, file.size - parts.get(file.sha256, 0)) for file in files)


def link_files(
    session: Session,
    board: Board,
    files: Sequence[tuple[StoredFile, FileToPlace]],
    folder: str,
    folders: Sequence[str] = (),
) -> None:
    """Puts stored files where they are wanted, by hard links, or by copies where links cannot be made."""
    script = render_script(
        "place_files",
        store=store_folder(board.profile),
        folders=[folder, *folders],
        files=[
            {
                "stored": stored.sha256,
                "path": f"{folder}/{file.name}",
                "executable": file.executable,
                "separate": stored.size <= COPY_BYTES,
            }
            for stored, file in files
        ],
    )
    total = sum(stored.size for stored, _ in files)
    deadline = Deadline.after(60 + total / HASH_BYTES_PER_SECOND, f"files to be put into {folder}")
    result = board.shell(script, deadline=deadline)
    if "No space left" in result.text:
        raise NoSpaceOnBoard(f"Board {board.serial}: {result.text.strip()}.")
    if result.exit_code != 0:
        raise PermissionOnBoard(f"Board {board.serial}: {result.text.strip() or f'{folder} cannot be written'}.")


@contextlib.contextmanager
def _one_at_a_time(session: Session, board: Board) -> Iterator[None]:
    """Two processes that send the same file at once would write into one another's."""
    lock = session.settings.data / "locks" / f"{quote(board.serial).replace('/', '_')}.lock"
    deadline = Deadline.after(session.settings.timeouts.lock, f"another transfer to board {board.serial}")
    with hold(lock, deadline, on_wait=session.console.info):
        yield


def _send_and_confirm(
    session: Session, board: Board, to_send: Sequence[StoredFile], unproven: Sequence[StoredFile], survey: Survey
) -> dict[str, int]:
    """Sends, has the board verify, and does it once more with what was not right; bytes sent by name."""
    deadline = Deadline.after(session.settings.timeouts.transfer, f"the transfer to board {board.serial}")
    room = None
    if survey.free_bytes is not None:
        room = survey.free_bytes - SPARE_BYTES - _lacking(to_send, survey.parts)
    sent: dict[str, int] = {}
    for attempt in (1, 2):
        arrived = _send_all(session, board, to_send, survey=survey, room=room, deadline=deadline, sent=sent)
        there = [Arrived(file=file, found_as=file.sha256) for file in unproven]
        verdict = confirm_files(board, [*arrived, *there], tool=survey.hash_command, deadline=deadline)
        wrong = [file for file in (*to_send, *unproven) if file.sha256 not in verdict.good]
        if not wrong:
            return sent
        if any(file.sha256 in verdict.short for file in wrong):
            # Boards before 5.1 do not notice a full disk.
            check_space(board, wrong, verdict.free_bytes)
        if attempt == 1:
            names = ", ".join(file.local.name for file in wrong)
            session.console.warn(f"not what it should be on board {board.serial}: {names}; sending it again")
        to_send, unproven = wrong, ()
    if changed := [file.local.name for file in wrong if sha256_file(file.local) != file.sha256]:
        raise TransferError(
            f"{', '.join(changed)} was changed while it was being sent.", remedy="Run again when it is complete."
        )
    raise ContentDiffers(
        f"Board {board.serial}: {', '.join(file.local.name for file in wrong)} arrived with another content, twice "
        f"(by {survey.verifier}). The wrong copy was removed."
    )


def _send_all(
    session: Session,
    board: Board,
    files: Sequence[StoredFile],
    *,
    survey: Survey,
    room: int | None,
    deadline: Deadline,
    sent: dict[str, int],
) -> list[Arrived]:
    """Sends files and says where they are on the board; adds to `sent` what that took."""
    total = sum(file.size for file in files)
    arrived: list[Arrived] = []
    if not files:
        return arrived
    title = f"sending to {board.serial}"
    session.console.info(f"sending {human_bytes(total)} in {len(files)} file(s) to board {board.serial}")
    with session.console.progress(title, total) as progress:
        done = 0
        for file in files:
            progress.say(file.local.name)
            took, place = file.size, Arrived(file=file, found_as=f"{file.sha256}.part")
            if is_large(file):

                def reach(there: int, before: int = done) -> None:
                    progress.reach(before + there)

                grown = send_in_chunks(
                    session,
                    board,
                    file,
                    tool=survey.hash_command,
                    agent=survey.agent,
                    room=room,
                    deadline=deadline,
                    reach=reach,
                )
                took, place = grown.bytes_sent, Arrived(file=file, found_as=grown.found_as, proven=grown.proven)
            else:
                measure = functools.partial(_size_there, board, file)
                with watched(measure, done, file.size, progress, pause=POLL_SECONDS):
                    _send_one(board, file, deadline)
            sent[file.sha256] = sent.get(file.sha256, 0) + took
            arrived.append(place)
            done += file.size
            progress.reach(done)
    return arrived


def _send_one(board: Board, file: StoredFile, deadline: Deadline) -> None:
    remote = part_path(board.profile, file.sha256)
    try:
        board.send(file.local, remote, deadline=deadline)
    except NoSpaceOnBoard:
        with contextlib.suppress(OhforgeError):  # The full disk is what the user must hear of.
            board.shell(f"rm -f {quote(remote)}", deadline=Deadline.after(15, "a partial file to be removed"))
        raise
    except TransferError:
        board.send(file.local, remote, deadline=deadline)


def _size_there(board: Board, file: StoredFile) -> int | None:
    question = f"wc -c <{quote(part_path(board.profile, file.sha256))} 2>/dev/null"
    try:
        answer = board.shell(question, deadline=Deadline.after(10, "the size of a file")).text.strip()
    except OhforgeError:
        return None
    return int(answer) if answer.isdigit() else 0
