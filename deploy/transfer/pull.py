"""Files from a board, each compared with the board's own hash of it."""

from __future__ import annotations

import contextlib
import functools
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from core.deadline import Deadline
from core.errors import ContentDiffers, Failure, RemoteFileMissing, TransferError, UnsafePath, UsageError
from core.files import make_folder, sha256_file
from core.session import Session
from deploy.agent.agent import agents_for_hashing
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.script import quote
from deploy.board.survey import ask_again
from deploy.hdc.paths import check_board_path, is_taken_by_hdc
from deploy.ssh.board import SshBoard
from deploy.transfer import chunks
from deploy.transfer.early_end import EarlyEnd
from deploy.transfer.links import Links
from deploy.transfer.part import PART_NAME, own_part, remove_abandoned_parts
from deploy.transfer.placement import FolderToPlace, LinkToPlace
from deploy.transfer.progress import progress_shown
from deploy.transfer.receive_streamed import OPENSSL_FROM, receive_streamed, streamed_part
from deploy.transfer.store import HASH_BYTES_PER_SECOND, md5_file, part_path
from deploy.transfer.tree import (
    PERMISSIONS,
    REASONS,
    LeftOut,
    check_name,
    refuse_links,
    stays_inside,
    tell_left_out,
)
from deploy.transfer.watched import ended_by_silence, watched_arrival

POLL_SECONDS = 0.5
STAND_IN_SECONDS = 15.0
NAMED_FROM = 16_000_000
"""A file of so many bytes or more is named by the board before it is hashed, so that its silence is understood."""
_ENTRY = re.compile(rb"([a-z\d]+) (\S+) (\d{1,18}) ([0-7]{1,5}) (.*)", re.DOTALL)
_TOOLS = ("sha256sum", "md5sum")
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
class Pulled:
    """What came from a board, and what did not come along."""

    files: Sequence[PulledFile]
    left_out: Sequence[LeftOut]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a board has of what was asked for: folders before what is in them."""

    files: list[RemoteFile] = field(default_factory=list)
    folders: list[FolderToPlace] = field(default_factory=list)
    links: list[LinkToPlace] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def names(self) -> Iterator[str]:
        """Of all that is to be made here."""
        yield from (file.path for file in self.files)
        yield from (folder.name for folder in self.folders)
        yield from (link.name for link in self.links)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is wanted of a folder of the board: a name in it or a pattern, which stands for all below it too."""

    word: str
    """As a word of the shell."""
    names: re.Pattern[str]
    """The names that the board may answer with: it could be asked for one file and bring another."""
    named: bool
    """Whether it is no pattern: then it is followed when it is a link."""


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file on the board as the board describes it; `tool` made `hash`, which a large one gets while it is on its way only."""

    path: str
    size: int
    tool: str
    hash: str
    mode: int


def pull_files(
    session: Session, board: Board, remotes: Sequence[str], target: Path, links: Links = Links.FOLLOW
) -> Pulled:
    """Copies files and folders of the board: into `target` when that is a folder or several are named, else as `target`.

    A local file is either the old one or the whole new one. Raises RemoteFileMissing, ContentDiffers, UnsafePath, …
    """
    files: list[PulledFile] = []
    left_out: list[LeftOut] = []
    for path, place in _places(remotes, target):
        asked = [as_name(path.name)]
        pulled = fetch_files(session, board, asked, folder=str(path.parent), place=place, links=links, goes_on=True)
        files += pulled.files
        left_out += pulled.left_out
    return Pulled(files=files, left_out=left_out)


def look_before_pull(
    session: Session, board: Board, remotes: Sequence[str], target: Path, links: Links = Links.FOLLOW
) -> list[tuple[str, RemoteFile, Path]]:
    """What `pull_files` would copy: each file with its folder on the board and where it belongs here. Raises as it."""
    found = []
    for path, place in _places(remotes, target):
        folder = str(path.parent)
        deadline = Deadline.after(session.settings.timeouts.transfer, f"files from board {board.serial}")
        asked = [as_name(path.name)]
        listing = _list_safely(session, board, asked, folder=folder, deadline=deadline, links=links)
        found += [(folder.rstrip("/"), file, place(file.path)) for file in listing.files]
    return found


def _places(remotes: Sequence[str], target: Path) -> Iterator[tuple[PurePosixPath, Callable[[str], Path]]]:
    """The paths on the board, each with a function that says where a name below its folder belongs here."""
    into = target.is_dir() or len(remotes) > 1
    for remote in remotes:
        check_board_path(remote)
        path = PurePosixPath(remote)

        def place(name: str, top: str = path.name) -> Path:
            return target / name if into else Path(f"{target}{name.removeprefix(top)}")

        yield path, place


def fetch_files(
    session: Session,
    board: Board,
    asked: Sequence[Asked],
    *,
    folder: str,
    place: Callable[[str], Path],
    links: Links = Links.FOLLOW,
    goes_on: bool = False,
) -> Pulled:
    """Copies what is `asked` for of `folder`; `place` says where a name below it belongs here.

    When another call `goes_on` after this has failed, a large file that comes as a stream stays as far as it has come.
    """
    deadline = Deadline.after(session.settings.timeouts.transfer, f"files from board {board.serial}")
    found = _list_safely(session, board, asked, folder=folder, deadline=deadline, links=links)
    # What is there already keeps its mode, and a folder that may not be written gets its own when all is in it.
    made = [(path, each.mode) for each in found.folders if _make_folder(path := place(each.name))]
    for place_here in {place(file.path).parent for file in found.files}:
        remove_abandoned_parts(place_here)
    pulled = []
    done = 0
    with session.console.progress(f"receiving from {board.serial}", sum(file.size for file in found.files)) as progress:
        for file in found.files:
            progress.say(PurePosixPath(file.path).name)
            local, remote = place(file.path), f"{folder}/{file.path}"
            part = _part_of(local) if file.hash else streamed_part(board.serial, remote, local)
            measure = functools.partial(_size_here, part)
            with progress_shown(measure, done, file.size, progress, pause=POLL_SECONDS, deadline=deadline):
                pulled.append(_fetch_one(session, board, file, remote, local, deadline, goes_on))
            done += file.size
            progress.reach(done)
    for link in found.links:
        _make_link(place(link.name), link.target)
    for path, mode in reversed(made):
        path.chmod(mode)
    return Pulled(files=pulled, left_out=found.left_out)


def _list_safely(
    session: Session, board: Board, asked: Sequence[Asked], *, folder: str, deadline: Deadline, links: Links
) -> Listing:
    """What is asked for and can be fetched; what cannot is warned of. Raises when something else is named."""
    agents = agents_for_hashing(session, board)
    listing = ask_again(
        session, lambda: list_remote(board, asked, folder=folder, deadline=deadline, agents=agents, links=links)
    )
    where = f"in {folder} of board {board.serial}"
    for name in listing.names:
        check_name(name)
        if not any(one.names.fullmatch(name) for one in asked):
            raise TransferError(
                f"Board {board.serial} answers with {name!r}, which nobody asked for in {folder}.",
                remedy="Nothing was fetched. Do not trust this board: its shell or its link does not do what it is told.",
            )
    if links is Links.REFUSE:
        refuse_links((link.name for link in listing.links), where)
    tell_left_out(session, listing.left_out, where)
    if listing.left_out and not any(listing.names):
        shown = "; ".join(entry.sentence for entry in listing.left_out)
        raise RemoteFileMissing(f"Board {board.serial} has nothing that can be fetched in {folder}: {shown}.")
    return listing


def as_name(text: str) -> Asked:
    """The file or folder of just that name."""
    return Asked(word=quote(text), names=_with_all_below(re.escape(text)), named=True)


def as_pattern(text: str) -> Asked:
    """`text` as a pattern of the shell: ``*``, ``?`` and ``[…]`` keep their meaning, all else is quoted."""
    parts = re.findall(r"[*?]|\[[^]/]+\]|[^*?[]+|\[", text)
    word = "".join(part if part[0] in "*?[" else quote(part) for part in parts)
    names = "".join(map(_as_expression, parts)).rstrip("/")
    # The shell takes a pattern that fits nothing for a name.
    return Asked(word=word, names=_with_all_below(f"{names}|{re.escape(text.rstrip('/'))}"), named=False)


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
    board: Board,
    asked: Sequence[Asked],
    *,
    folder: str,
    deadline: Deadline,
    agents: Sequence[str] = (),
    links: Links = Links.FOLLOW,
) -> Listing:
    """What is `asked` for in `folder`, files with their hashes; a folder stands for all below it.

    The first of `agents` that runs there hashes them, else the quickest that the board has; not those that come as a stream.
    Raises RemoteFileMissing naming what is not there.
    """
    script = render_script(
        "list_files",
        folder=folder,
        patterns=asked,
        agents=agents,
        links=links,
        large=OPENSSL_FROM,
        named_from=NAMED_FROM,
        hashed_below=chunks.CHUNKED_FROM if isinstance(board, SshBoard) else None,
    )
    end = EarlyEnd()
    result = board.shell(script, deadline=end.hold(deadline), on_output=ended_by_silence(end, board.serial))
    if result.exit_code == 2:
        raise RemoteFileMissing(f"Board {board.serial} has no folder {folder}.")
    entries = result.output.split(b"\0")
    unclear = TransferError(f"Board {board.serial} cannot list and hash its files. It said: {result.text[-300:]!r}")
    if result.exit_code != 0 or result.truncated or entries[-2:] != [b"end", b""]:
        raise unclear
    found, missing = Listing(), []
    rows = iter(entries[:-2])
    for entry in rows:
        if entry.startswith(b"hashing "):
            continue
        row = _ENTRY.fullmatch(entry)
        if row is None:
            raise unclear
        kind, digest, size, mode, path = (_shown(part) for part in row.groups())
        target = _shown(next(rows, b"")) if kind == "link" else ""
        if kind == "missing":
            missing.append(path)
        elif kind in REASONS:
            found.left_out.append(LeftOut(path=path, why=kind))
        elif path.encode() != row[5]:
            found.left_out.append(LeftOut(path=path, why="name"))
        elif kind == "folder":
            found.folders.append(FolderToPlace(name=path, mode=int(mode, 8) & PERMISSIONS))
        elif kind == "link":
            _add_link(found, path, target, asked, links)
        elif kind in (*_TOOLS, "large"):
            known = "" if kind == "large" else digest
            file = RemoteFile(path=path, size=int(size), tool=kind, hash=known, mode=int(mode, 8) & PERMISSIONS)
            found.files.append(file)
        else:
            raise unclear
    if missing:
        raise RemoteFileMissing(f"Board {board.serial} has no {', '.join(missing)} in {folder}.")
    return found


def _add_link(found: Listing, path: str, target: str, asked: Sequence[Asked], links: Links) -> None:
    """A link that may be kept; one that leads out of what is copied is left out."""
    top_is_named = any(one.named and one.names.fullmatch(path) for one in asked)
    below = path.partition("/")[2] if top_is_named else path
    if links is Links.REFUSE or (stays_inside(below, target) and "\\x" not in target):
        found.links.append(LinkToPlace(name=path, target=target))
    else:
        found.left_out.append(LeftOut(path=path, why="outside"))


def _shown(text: bytes) -> str:
    """`text` for a person: what hdc cannot take in a name (control characters, no UTF-8) stands as an escape."""
    readable = text.decode("utf-8", "backslashreplace")
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", readable)


def _fetch_one(
    session: Session, board: Board, file: RemoteFile, remote: str, local: Path, deadline: Deadline, goes_on: bool
) -> PulledFile:
    _make_folder(local.parent)
    if local.is_dir():
        raise _in_the_way(local)
    if not file.hash and isinstance(board, SshBoard):
        agents = agents_for_hashing(session, board)
        digest = receive_streamed(
            session,
            board,
            remote,
            local,
            size=file.size,
            mode=file.mode,
            agents=agents,
            deadline=deadline,
            goes_on=goes_on,
        )
        return PulledFile(remote=remote, local=local, size=local.stat().st_size, sha256=digest)
    part = _part_of(local)
    waiting = deadline.within(120 + file.size / HASH_BYTES_PER_SECOND * 10, f"{remote} from board {board.serial}")
    try:
        with _as_hdc_takes_it(board, remote) as source:
            for _ in range(2):
                with own_part(part):
                    arriving = watched_arrival(
                        session, board, part, name=PurePosixPath(remote).name, size=file.size, deadline=waiting
                    )
                    with arriving as watched:
                        board.receive(source, part, deadline=watched)
                    digest = sha256_file(part)
                    same = (digest if file.tool == "sha256sum" else md5_file(part)) == file.hash
                    if same and part.stat().st_size == file.size:
                        part.chmod(file.mode)
                        part.replace(local)
                        return PulledFile(remote=remote, local=local, size=file.size, sha256=digest)
                _check_unchanged(session, board, file, remote, deadline)
        raise ContentDiffers(f"{remote} of board {board.serial} arrived with another content, twice.")
    finally:
        part.unlink(missing_ok=True)


def _check_unchanged(session: Session, board: Board, file: RemoteFile, remote: str, deadline: Deadline) -> None:
    """Raises TransferError when `file`, which came as something else, is another one there by now."""
    path = PurePosixPath(remote)
    agents = agents_for_hashing(session, board)
    now = list_remote(board, [as_name(path.name)], folder=str(path.parent), deadline=deadline, agents=agents)
    if [(each.size, each.hash) for each in now.files] != [(file.size, file.hash)]:
        raise TransferError(
            f"{remote} of board {board.serial} was changed while it was being received.",
            remedy="Run again when it is complete.",
        )


@contextlib.contextmanager
def _as_hdc_takes_it(board: Board, remote: str) -> Iterator[str]:
    """A path of the same file that hdc does not change: `remote` itself, or a link to it in the store."""
    if is_taken_by_hdc(remote):
        yield remote
        return
    link = part_path(board.profile, secrets.token_hex(32))
    store = quote(str(PurePosixPath(link).parent))
    script = f"[ -d {store} ] || mkdir -p -m 700 {store}; ln -s {quote(remote)} {quote(link)}"
    made = board.shell(
        script, deadline=Deadline.after(STAND_IN_SECONDS, "a link to a file with a name that hdc changes")
    )
    if made.exit_code != 0:
        raise UnsafePath(f"hdc cannot take the path {remote!r}, and no link to it can be made: {made.text.strip()}")
    try:
        yield link
    finally:
        with contextlib.suppress(Failure):  # `board.clean` removes it too.
            board.shell(f"rm -f {quote(link)}", deadline=Deadline.after(STAND_IN_SECONDS, "a link to be removed"))


def _make_folder(path: Path) -> bool:
    """Makes a folder with those above it; False when it was there."""
    if path.is_dir():
        return False
    try:
        make_folder(path)
    except (FileExistsError, NotADirectoryError):
        raise _in_the_way(path) from None
    return True


def _make_link(path: Path, target: str) -> None:
    _make_folder(path.parent)
    if path.is_dir() and not path.is_symlink():
        raise _in_the_way(path)
    part = _part_of(path)
    part.unlink(missing_ok=True)
    part.symlink_to(target)
    part.replace(path)


def _in_the_way(path: Path) -> UsageError:
    return UsageError(
        f"{path} cannot be written: a folder stands where a file belongs, or a file where a folder does.",
        remedy="Name another target, or move away what is there.",
    )


def _part_of(local: Path) -> Path:
    return local.with_name(PART_NAME)


def _size_here(part: Path, deadline: Deadline) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0
