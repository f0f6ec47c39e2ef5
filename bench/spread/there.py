"""Work that a function does on the computer that has the board, whose folder of records then comes here."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.spread.here import Do, Look
from bench.spread.station import Opened
from core.session import Session


@dataclass(frozen=True, kw_only=True)
class ThereShop:
    """See `bench.spread.station.Shop`. Of functions that the other computer knows by their names."""

    do: Do
    look: Look

    @contextlib.contextmanager
    def open(self, session: Session, board: str) -> Iterator[Opened]:
        yield Opened(about={}, do=lambda argument: self.do(session, board, argument), end=None)


def named_there(model: str) -> str:
    """A model as another computer may find it: the file that it names here by its whole path, else its name."""
    path = Path(model).expanduser()
    return str(path.absolute()) if path.is_file() else model


def pack_folder(folder: Path) -> bytes:
    """A folder with all files in it, under its own name."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder, arcname=folder.name)
    return packed.getvalue()


def unpack_folder(packed: bytes, into: Path) -> None:
    """Makes that folder anew in `into`; nothing outside it is written, whatever the names are."""
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        archive.extractall(into, filter="data")
