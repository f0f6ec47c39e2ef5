"""Files from a board, each compared with the board's own hash of it."""

from __future__ import annotations

import functools
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from core.deadline import Deadline
from core.errors import ContentDiffers, RemoteFileMissing, TransferError
from core.files import make_folder, sha256_file
from core.session import Session
from deploy.agent.agent import agents_for_hashing
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.script import quote
from deploy.board.survey import ask_again
from deploy.hdc.paths import check_remote_path
from deploy.transfer.progress import progress_shown
from deploy.transfer.push import check_name
from deploy.transfer.store import HASH_BYTES_PER_SECOND, md5_file

POLL_SECONDS = 0.5
PART_NAME = f".ohforge-{secrets.token_hex(8)}.part"
"""Of what is on its way: nobody can foresee it and lay a link there, and it is as short as any name may be long."""
EXECUTE = 0o111
NOT_FETCHED = "it is no plain file that can be read, or hdc cannot take its name"
_ENTRY = re.compile(rb"(sha256sum|md5sum|other|missing) (\S+) (\d{1,18}) ([x-]) (.*)", re.DOTALL)
_VISIBLE = r"(?:(?<![^/])(?![./])|(?<=[^/]))"
"""Where a wildcard may stand: not before the dot that a name begins with, and not in place of a name."""


@dataclass(frozen=True, kw_only=True)
class PulledFile:
    """A file that came from the board, verified."""

    remote: str
    local: Path
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a board has of what was asked for."""

    files: Sequence[RemoteFile]
    skipped: Sequence[str]
    """Pipes, sockets, devices, what cannot be read there, and names that hdc cannot take."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is wanted of a folder of the board: a name in it or a pattern, which stands for all below it too."""

    word: str
    """As a word of the shell."""
    names: re.Pattern[str]
    """The names that the board may answer with: it could be asked for one file and bring another."""


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file on the board as the board describes it; `tool` made `hash`."""

    path: str
    size: int
    tool: str
    hash: str
    executable: bool


def pull_files(session: Session, board: Board, remotes: Sequence[str], target: Path) -> list[PulledFile]:
    """Copies files and folders of the board: into `target` when that is a folder or several are named, else as `target`.

    A local file is either the old one or the whole new one. Raises RemoteFileMissing, ContentDiffers, UnsafePath, …
    """
    pulled: list[PulledFile] = []
    for path, place in _places(remotes, target):
        pulled += fetch_files(session, board, [as_name(path.name)], folder=str(path.parent), place=place)
    return pulled


def look_before_pull(
    session: Session, board: Board, remotes: Sequence[str], target: Path
) -> list[tuple[str, RemoteFile, Path]]:
    """What `pull_files` would copy: each file with its folder on the board and where it belongs here. Raises as it."""
    found = []
    for path, place in _places(remotes, target):
        folder = str(path.parent)
        deadline = Deadline.after(session.settings.timeouts.transfer, f"files from board {board.serial}")
        files = _list_safely(session, board, [as_name(path.name)], folder=folder, deadline=deadline)
        found += [(folder.rstrip("/"), file, place(file.path)) for file in files]
    return found


def _places(remotes: Sequence[str], target: Path) -> Iterator[tuple[PurePosixPath, Callable[[str], Path]]]:
    """The paths on the board, each with a function that says where a name below its folder belongs here."""
    into = target.is_dir() or len(remotes) > 1
    for remote in remotes:
        check_remote_path(remote)
        path = PurePosixPath(remote)

        def place(name: str, top: str = path.name) -> Path:
            return target / name if into else Path(f"{target}{name.removeprefix(top)}")

        yield path, place


def fetch_files(
    session: Session, board: Board, asked: Sequence[Asked], *, folder: str, place: Callable[[str], Path]
) -> list[PulledFile]:
    """Copies what is `asked` for of `folder`; `place` says where a name below it belongs here."""
    deadline = Deadline.after(session.settings.timeouts.transfer, f"files from board {board.serial}")
    found = _list_safely(session, board, asked, folder=folder, deadline=deadline)
    pulled = []
    done = 0
    with session.console.progress(f"receiving from {board.serial}", sum(file.size for file in found)) as progress:
        for file in found:
            progress.say(PurePosixPath(file.path).name)
            local = place(file.path)
            measure = functools.partial(_size_here, _part_of(local))
            with progress_shown(measure, done, file.size, progress, pause=POLL_SECONDS):
                pulled.append(_fetch_one(board, file, f"{folder}/{file.path}", local, deadline))
            done += file.size
            progress.reach(done)
    return pulled


def _list_safely(
    session: Session, board: Board, asked: Sequence[Asked], *, folder: str, deadline: Deadline
) -> Sequence[RemoteFile]:
    """The files of `list_remote`; what is skipped is said. Raises UnsafePath, UsageError and TransferError for names that could lead elsewhere here."""
    agents, words = agents_for_hashing(session, board), [one.word for one in asked]
    listing = ask_again(session, lambda: list_remote(board, words, folder=folder, deadline=deadline, agents=agents))
    for name in listing.skipped:
        session.console.warn(f"{name} in {folder} of board {board.serial} is not fetched: {NOT_FETCHED}")
    if listing.skipped and not listing.files:
        raise RemoteFileMissing(
            f"Board {board.serial} has nothing that can be fetched: {', '.join(listing.skipped)} in {folder}."
        )
    found = listing.files
    for file in found:
        check_name(file.path)
        check_remote_path(f"{folder}/{file.path}")
        if not any(one.names.fullmatch(file.path) for one in asked):
            raise TransferError(
                f"Board {board.serial} answers with {file.path!r}, which nobody asked for in {folder}.",
                remedy="Nothing was fetched. Do not trust this board: its shell or its link does not do what it is told.",
            )
    return found


def as_name(text: str) -> Asked:
    """The file or folder of just that name."""
    return Asked(word=quote(text), names=_with_all_below(re.escape(text)))


def as_pattern(text: str) -> Asked:
    """`text` as a pattern of the shell: ``*``, ``?`` and ``[…]`` keep their meaning, all else is quoted."""
    parts = re.findall(r"[*?]|\[[^]/]+\]|[^*?[]+|\[", text)
    word = "".join(part if part[0] in "*?[" else quote(part) for part in parts)
    names = "".join(map(_as_expression, parts)).rstrip("/")
    # The shell takes a pattern that fits nothing for a name.
    return Asked(word=word, names=_with_all_below(f"{names}|{re.escape(text.rstrip('/'))}"))


def _as_expression(part: str) -> str:
    """A part of a pattern as a regular expression. No wildcard fits a slash, or a dot that a name begins with."""
    if part in ("*", "?"):
        return _VISIBLE + ("[^/]*" if part == "*" else "[^/]")
    if len(part) == 1 or part[0] != "[":
        return re.escape(part)
    plain = re.fullmatch(r"\[(!?)((?:\w-\w|\w|\.)+)\]", part, re.ASCII)
    if plain is None or any(low > high for low, high in re.findall(r"(\w)-(\w)", plain[2])):
        return f"{_VISIBLE}[^/]"  # Shells differ in what else may stand in brackets.
    return f"{_VISIBLE}[{'^/' if plain[1] else ''}{plain[2]}]"


def _with_all_below(names: str) -> re.Pattern[str]:
    return re.compile(f"(?:{names})(?:/.*)?", re.DOTALL)


def list_remote(
    board: Board, patterns: Sequence[str], *, folder: str, deadline: Deadline, agents: Sequence[str] = ()
) -> Listing:
    """The plain files in `folder` that `patterns` name, with their hashes; a folder stands for all below it.

    The first of `agents` that runs there hashes them, else what the board has.
    Raises RemoteFileMissing naming the patterns that fit nothing.
    """
    result = board.shell(
        render_script("list_files", folder=folder, patterns=patterns, agents=agents), deadline=deadline
    )
    if result.exit_code == 2:
        raise RemoteFileMissing(f"Board {board.serial} has no folder {folder}.")
    entries = result.output.split(b"\0")
    rows = [_ENTRY.fullmatch(entry) for entry in entries[:-2]]
    if result.exit_code != 0 or result.truncated or entries[-2:] != [b"end", b""] or None in rows:
        raise TransferError(f"Board {board.serial} cannot list and hash its files. It said: {result.text[-300:]!r}")
    files, skipped, missing = [], [], []
    for row in filter(None, rows):
        tool, digest, size, bit, path = (_shown(part) for part in row.groups())
        if tool == "missing":
            missing.append(path)
        elif tool == "other" or path != row[5].decode("utf-8", "replace"):
            skipped.append(path)
        else:
            files.append(RemoteFile(path=path, size=int(size), tool=tool, hash=digest, executable=bit == "x"))
    if missing:
        raise RemoteFileMissing(f"Board {board.serial} has no {', '.join(missing)} in {folder}.")
    return Listing(files=files, skipped=skipped)


def _shown(text: bytes) -> str:
    """`text` for a person: what hdc cannot take in a name (control characters, no UTF-8) stands as an escape."""
    readable = text.decode("utf-8", "backslashreplace")
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", readable)


def _fetch_one(board: Board, file: RemoteFile, remote: str, local: Path, deadline: Deadline) -> PulledFile:
    make_folder(local.parent)
    part = _part_of(local)
    waiting = deadline.within(120 + file.size / HASH_BYTES_PER_SECOND * 10, f"{remote} from board {board.serial}")
    try:
        for _ in range(2):
            part.unlink(missing_ok=True)  # hdc would write through a link that lies there.
            board.receive(remote, part, deadline=waiting)
            digest = sha256_file(part)
            same = (digest if file.tool == "sha256sum" else md5_file(part)) == file.hash
            if same and part.stat().st_size == file.size:
                if file.executable:  # hdc brings every file without its mode.
                    part.chmod(part.stat().st_mode | EXECUTE & ~_umask())
                part.replace(local)
                return PulledFile(remote=remote, local=local, size=file.size, sha256=digest)
        raise ContentDiffers(f"{remote} of board {board.serial} arrived with another content, twice.")
    finally:
        part.unlink(missing_ok=True)


def _part_of(local: Path) -> Path:
    return local.with_name(PART_NAME)


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _size_here(part: Path) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0
