"""Contents for transfers, and what can happen to them on the way."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import TransferError
from core.session import Session
from deploy.transfer.placement import FileToPlace
from deploy.transfer.push import place_files
from tests.support.local_board import LocalBoard

CONTENT = os.urandom(20_000)
NAME = hashlib.sha256(CONTENT).hexdigest()


def place(session: Session, board: LocalBoard, file: Path, name: str = "a.bin", executable: bool = False) -> Path:
    target = board.folder / "target"
    place_files(session, board, [FileToPlace(local=file, name=name, executable=executable)], str(target))
    return target / name


def parts_of(content: bytes) -> str:
    """The folder in the store in which a large file grows: it must be found again by other versions of ohforge.

    Named by the SHA-256 of the size, in decimal and with a line end, and sixteen samples of 64 KiB at equal distances.
    """
    last = max(0, len(content) - 65536)
    samples = [content[last * number // 15 :][:65536] for number in range(16)]
    return hashlib.sha256(f"{len(content)}\n".encode() + b"".join(samples)).hexdigest() + ".parts"


def flip_byte(path: str | Path) -> None:
    content = bytearray(Path(path).read_bytes())
    content[len(content) // 2] ^= 1
    Path(path).write_bytes(content)


def changing(file: Path, size: int) -> Callable[[str], None]:
    """A way on which the source becomes `size` other bytes, which arrive; hdc notices when there are more or fewer."""
    announced = file.stat().st_size

    def send(remote: str) -> None:
        file.write_bytes(os.urandom(size))
        Path(remote).write_bytes(file.read_bytes())
        if size != announced:
            raise TransferError(f"{size} bytes were reported")

    return send


def cut(remote: str) -> None:
    with Path(remote).open("r+b") as part:
        part.truncate(1000)


def record_progress(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a progress display is told, which grows as it is."""
    reached: list[float] = []

    class Recorder:
        def advance(self, count: float) -> None: ...

        def say(self, text: str) -> None: ...

        def reach(self, done: float, total: float | None = None) -> None:
            reached.append(done)

    monkeypatch.setattr(session.console, "progress", lambda *_: contextlib.nullcontext(Recorder()))
    return reached


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
