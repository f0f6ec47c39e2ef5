"""Files that arrived on a board: compared there with what they must be, and taken into its store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.deadline import Deadline
from core.errors import BoardError, PermissionOnBoard
from core.files import sha256_file
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.board.survey import IDENTITY, read_df
from deploy.transfer.placement import Placement
from deploy.transfer.store import HASH_BYTES_PER_SECOND, StoredFile, file_changed, md5_file, store_folder


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """A file on the board that is to be taken into the store. `found_as` is where it lies, below the store."""

    file: StoredFile
    found_as: str
    proven: bool = False
    """Whether its content was verified already, on the board and in this process."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of files that were to be taken into the store: names by outcome, and the bytes left where one was wrong.

    `without_mode` are those that were put into place, and cannot have their mode there.
    """

    good: frozenset[str]
    short: frozenset[str]
    """Those of which fewer bytes are there than there should be."""
    differing: frozenset[str]
    free_bytes: int | None
    without_mode: Sequence[str] = ()


def confirm_files(
    board: Board, files: Sequence[Arrived], *, tool: str, deadline: Deadline, placement: Placement | None = None
) -> Verdict:
    """Has the board compare sizes and, where they are not proven, hashes; takes into the store what is right.

    The others are removed from the store; when there are none, `placement` is done in the same call. Raises
    PermissionOnBoard when the store or a place cannot be written, NoSpaceOnBoard, TransferError when a local file is not
    what it was.
    """
    script = render_script(
        "confirm",
        store=store_folder(board.profile),
        identity=IDENTITY,
        tool=tool,
        arrived=[
            {
                "name": entry.file.sha256,
                "found_as": entry.found_as,
                "size": entry.file.size,
                "hash": "" if entry.proven else local_hash(entry.file, tool),
            }
            for entry in files
        ],
        **(placement.variables() if placement is not None else {"folder": ""}),
    )
    total = sum(entry.file.size for entry in files if not entry.proven)
    seconds = 60 + total / HASH_BYTES_PER_SECOND + (placement.seconds if placement is not None else 0)
    text = board.shell(script, deadline=deadline.within(seconds, f"{tool} on board {board.serial}")).text
    confirmed, _, placed = text.partition("@@placing\n")
    verdict = _read_verdict(confirmed, {entry.file.sha256: entry.file.size for entry in files}, board)
    if placement is not None and len(verdict.good) == len(files):
        said, _, status = placed.rpartition("@@placed ")
        without_mode = placement.check(board, int(status) if status.strip().isdigit() else 1, said)
        return replace(verdict, without_mode=without_mode)
    return verdict


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
        raise file_changed(file.local)
    return digest
