"""Where files of a board's store are put: by hard links, or by copies where links are unwanted or cannot be made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.errors import NoSpaceOnBoard, PermissionOnBoard
from deploy.board.protocol import Board
from deploy.board.render import render_script
from deploy.transfer.store import HASH_BYTES_PER_SECOND, StoredFile, store_folder

COPY_BYTES = 16 * 1024 * 1024
"""Files up to this size are copied to where a user wants them: as links, two of the same content would change together."""


@dataclass(frozen=True, kw_only=True)
class FileToPlace:
    """A local file and what it is called on the board, relative to the folder it goes to."""

    local: Path
    name: str
    executable: bool = False
    mode: int | None = None
    """Its permissions there; None: as they come, but executable when it shall be."""
    sha256: str = ""
    """Empty: worked out from the content."""


@dataclass(frozen=True, kw_only=True)
class FolderToPlace:
    """A folder, and the permissions that it gets where it is not there yet."""

    name: str
    mode: int


@dataclass(frozen=True, kw_only=True)
class LinkToPlace:
    """A link, and where it leads, as it is written in it."""

    name: str
    target: str


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Stored files that shall lie in `folder`, which is made with the `folders` in it when they are not there; links last."""

    folder: str
    files: Sequence[tuple[StoredFile, FileToPlace]]
    folders: Sequence[FolderToPlace] = ()
    links: Sequence[LinkToPlace] = ()

    def place(self, board: Board) -> list[str]:
        """Puts them there, all being in the store; the names of those that cannot have their mode there.

        Raises NoSpaceOnBoard, PermissionOnBoard.
        """
        script = render_script("place_files", store=store_folder(board.profile), **self.variables())
        deadline = Deadline.after(60 + self.seconds, f"files to be put into {self.folder}")
        result = board.shell(script, deadline=deadline)
        return self.check(board, result.exit_code, result.text)

    @property
    def seconds(self) -> float:
        """How long that may take where all must be copied."""
        return sum(stored.size for stored, _ in self.files) / HASH_BYTES_PER_SECOND

    def variables(self) -> Mapping[str, Any]:
        """What the script needs. Waits for hashes."""
        return {
            "folder": self.folder,
            "folders": [{"path": f"{self.folder}/{each.name}", "mode": f"{each.mode:o}"} for each in self.folders],
            "links": [{"path": f"{self.folder}/{link.name}", "target": link.target} for link in self.links],
            "placed": [
                {
                    "stored": stored.sha256,
                    "path": f"{self.folder}/{file.name}",
                    "mode": f"{file.mode:o}" if file.mode is not None else "x" if file.executable else "",
                    "separate": stored.size <= COPY_BYTES,
                }
                for stored, file in self.files
            ],
        }

    def check(self, board: Board, exit_code: int, text: str) -> list[str]:
        """What `place` gives and raises, by the script's answer."""
        if "No space left" in text:
            raise NoSpaceOnBoard(f"Board {board.serial}: {text.strip()}.")
        if exit_code != 0:
            raise PermissionOnBoard(f"Board {board.serial}: {text.strip() or f'{self.folder} cannot be written'}.")
        paths = re.findall(r"^@@mode (.*)$", text, re.MULTILINE)
        return [path.removeprefix(f"{self.folder}/") for path in paths]
