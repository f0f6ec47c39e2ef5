"""Work for boards of a Dask worker in another process: squares numbers, and notes what was open in a file."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.spread.station import Opened
from core.errors import OhforgeError
from core.session import Session


@dataclass(frozen=True)
class FarShop:
    log: str
    near: int
    """The process that, from the fifth number on, waits until another one is stuck at such a number for good."""

    def look(self, session: Session, board: str) -> Mapping[str, Any]:
        return {"process": os.getpid()}

    @contextlib.contextmanager
    def open(self, session: Session, board: str) -> Iterator[Opened]:
        self._note(f"open {board}")
        ended: list[bool] = []
        try:
            yield Opened(
                about={"board": board}, do=lambda number: self._square(number, ended), end=lambda: ended.append(True)
            )
        finally:
            self._note(f"close {board}")

    def _square(self, number: int, ended: list[bool]) -> int:
        if number >= 5 and os.getpid() != self.near:
            self._note(f"stuck at {number}")
        while number >= 5 and not ended and (os.getpid() != self.near or "stuck" not in Path(self.log).read_text()):
            time.sleep(0.02)
        return number * number

    def _note(self, text: str) -> None:
        with Path(self.log).open("a") as file:
            file.write(text + "\n")


class Squares:
    """See `bench.spread.spread.Work`."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []
        self.by: dict[str, int] = {}
        self.failures: list[str] = []

    def looked(self, board: str, kind: Mapping[str, Any]) -> None: ...

    def prepare(self) -> None: ...

    def opened(self, board: str, about: Mapping[str, Any]) -> None: ...

    def call_for(self, item: int) -> int:
        return item

    def came(self, board: str, item: int, value: Any) -> bool:
        self.found.append((item, value))
        self.by[board] = self.by.get(board, 0) + 1
        return False

    def enough(self) -> str:
        return ""

    def failed(self, board: str, error: OhforgeError, given_up: bool, left: Sequence[int]) -> None:
        self.failures.append(f"{board}: {error.message}")
