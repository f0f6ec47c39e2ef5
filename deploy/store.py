"""The content store on a board: ``<device dir>/ohforge/store/<sha256>``, each file once, under the name of its content.

A file becomes part of the store when its size and hash were verified on the board. Beside it stands a note
``<sha256>.ok`` with its size, inode and time of last change at that moment, and as long as the three are the same
it is not hashed again: every way of writing to a file changes the time (also through a hard link, by a program that
ran in a run folder), a file that was replaced has another inode, and what cuts the power in between loses the note,
which is written last. Without a note, or with one that does not fit, the content is hashed again before it is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.deadline import Deadline
from core.errors import BoardError, PermissionOnBoard, TransferError
from core.files import CHUNK, sha256_file
from deploy.board import Board, Profile
from deploy.inspect import IDENTITY, Survey, read_df
from deploy.render import render_script

HASH_BYTES_PER_SECOND = 10e6
"""What the slowest board manages at least; toybox on a Cortex-A55 does about 45 MB/s."""
STEP = 16 * 1024 * 1024
Digests = Mapping[int, str]
"""SHA-256 of the first so many bytes of a file."""


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file as the store knows it. `size` in bytes; `local` is where its content is on this computer."""

    sha256: str
    size: int
    local: Path
    beginnings: Digests = field(default_factory=dict, compare=False, repr=False)
    """As `hash_beginnings` gives them; empty when they are not known."""


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """A file on the board that is to be taken into the store. `found_as` is where it lies, below the store."""

    file: StoredFile
    found_as: str
    proven: bool = False
    """Whether its content was verified already, on the board and in this process."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of files that were to be taken into the store: names by outcome, and the bytes left on the board."""

    good: frozenset[str]
    short: frozenset[str]
    """Those of which fewer bytes are there than there should be."""
    differing: frozenset[str]
    free_bytes: int | None


def store_folder(profile: Profile) -> str:
    return f"{profile.device_dir}/ohforge/store"


def runs_folder(profile: Profile) -> str:
    return f"{profile.device_dir}/ohforge/runs"


def part_path(profile: Profile, name: str) -> str:
    """Where a file lies on the board until it is verified. One name for each content, so that it can be resumed."""
    return f"{store_folder(profile)}/{name}.part"


def parts_folder(name: str) -> str:
    """The folder, below the store, in which a large file grows."""
    return f"{name}.parts"


def is_stored(survey: Survey, file: StoredFile) -> bool:
    """Whether the file is on the board with the right content, as far as the note in the store proves it."""
    return file.sha256 in survey.proven and survey.stored[file.sha256] == file.size


def needs_proof(survey: Survey, file: StoredFile) -> bool:
    """Whether the board has a file of that name and size whose content must be hashed before it is used."""
    return not is_stored(survey, file) and survey.stored.get(file.sha256) == file.size


def confirm_files(board: Board, files: Sequence[Arrived], *, tool: str, deadline: Deadline) -> Verdict:
    """Has the board compare sizes and, where they are not proven, hashes; takes into the store what is right.

    The others are removed from the store. Raises PermissionOnBoard when the store cannot be written, TransferError
    when a local file is not what it was.
    """
    script = render_script(
        "confirm",
        store=store_folder(board.profile),
        identity=IDENTITY,
        tool=tool,
        files=[
            {
                "name": entry.file.sha256,
                "found_as": entry.found_as,
                "size": entry.file.size,
                "hash": "" if entry.proven else local_hash(entry.file, tool),
            }
            for entry in files
        ],
    )
    total = sum(entry.file.size for entry in files if not entry.proven)
    waiting = deadline.within(60 + total / HASH_BYTES_PER_SECOND, f"{tool} on board {board.serial}")
    result = board.shell(script, deadline=waiting)
    return _read_verdict(result.text, {entry.file.sha256: entry.file.size for entry in files}, board)


def _read_verdict(text: str, sizes: dict[str, int], board: Board) -> Verdict:
    outcome: dict[str, set[str]] = {"good": set(), "bad": set(), "stuck": set()}
    sizes_there: dict[str, int] = {}
    free: int | None = None
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] in outcome:
            outcome[words[0]].add(words[1])
            sizes_there[words[1]] = int(words[2])
        elif words[:1] == ["free"]:
            _, free = read_df(line)
    if outcome["stuck"]:
        raise PermissionOnBoard(f"Board {board.serial}: files cannot be renamed in {store_folder(board.profile)}.")
    if set(sizes) != outcome["good"] | outcome["bad"]:
        raise BoardError(f"Board {board.serial} did not say what became of the files. It said: {text[-300:]!r}")
    short = {name for name in outcome["bad"] if sizes_there[name] < sizes[name]}
    return Verdict(
        good=frozenset(outcome["good"]),
        short=frozenset(short),
        differing=frozenset(outcome["bad"] - short),
        free_bytes=free,
    )


def local_hash(file: StoredFile, tool: str) -> str:
    """What `tool` of the board must say of the file. Raises TransferError when the file was changed meanwhile."""
    if tool != "md5sum":
        return file.sha256
    digest = md5_file(file.local)
    if sha256_file(file.local) != file.sha256:
        raise TransferError(
            f"{file.local} was changed while it was being sent.", remedy="Run again when it is complete."
        )
    return digest


def hash_beginnings(path: Path) -> Digests:
    """The hashes of the first `STEP` bytes of a file, of the first two, and so on, and of all of it."""
    found: dict[int, str] = {}
    whole, at = hashlib.sha256(), 0
    with path.open("rb") as content:
        while block := content.read(min(CHUNK, STEP - at % STEP)):
            whole.update(block)
            at += len(block)
            if at % STEP == 0:
                found[at] = whole.hexdigest()
    return {**found, at: whole.hexdigest()}


def md5_file(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
