"""Where files of a board's store are put: by hard links, or by copies where links are unwanted or cannot be made."""

from __future__ import annotations

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
    sha256: str = ""
    """Empty: worked out from the content."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Stored files that shall lie in `folder`, which is made with the `folders` in it when they are not there."""

    folder: str
    files: Sequence[tuple[StoredFile, FileToPlace]]
    folders: Sequence[str] = ()

    def place(self, board: Board) -> None:
        """Puts them there, all being in the store. Raises NoSpaceOnBoard, PermissionOnBoard."""
        script = render_script("place_files", store=store_folder(board.profile), **self.variables())
        deadline = Deadline.after(60 + self.seconds, f"files to be put into {self.folder}")
        result = board.shell(script, deadline=deadline)
        self.check(board, result.exit_code, result.text)

    @property
    def seconds(self) -> float:
        """How long that may take where all must be copied."""
        return sum(stored.size for stored, _ in self.files) / HASH_BYTES_PER_SECOND

    def variables(self) -> Mapping[str, Any]:
        """What the script needs. Waits for hashes."""
        return {
            "folders": [self.folder, *(f"{self.folder}/{name}" for name in self.folders)],
            "placed": [
                {
                    "stored": stored.sha256,
                    "path": f"{self.folder}/{file.name}",
                    "executable": file.executable,
                    "separate": stored.size <= COPY_BYTES,
                }
                for stored, file in self.files
            ],
        }

    def check(self, board: Board, exit_code: int, text: str) -> None:
        """Raises what the script's answer means."""
        if "No space left" in text:
            raise NoSpaceOnBoard(f"Board {board.serial}: {text.strip()}.")
        if exit_code != 0:
            raise PermissionOnBoard(f"Board {board.serial}: {text.strip() or f'{self.folder} cannot be written'}.")
