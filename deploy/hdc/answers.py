"""What one call of hdc came to."""

from __future__ import annotations

import re
from collections.abc import Callable

from core.errors import LostConnection, TransferError
from core.process import Result
from deploy.hdc.errors import Fault, find_fault, without_log_lines

FINISHED = re.compile(r"FileTransfer finish, Size:(\d+), File count = (\d+)")


class Refused(Exception):
    """hdc said that it did not do what it was asked."""

    def __init__(self, text: str, during: str, what: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.during = during
        self.what = what
        self.fault: Fault | None = find_fault(text, during)


class ScriptDamaged(Exception):
    """A pushed script is not what was sent."""


def check_transfer(
    result: Result, serial: str, direction: str, source: str, target: str, size: Callable[[], int | None]
) -> None:
    """Raises Refused, LostConnection or TransferError unless hdc said that one whole file has arrived.

    `direction` is ``send`` or ``receive``; `size` gives the bytes of the file where hdc runs, None when there is none.
    """
    text = without_log_lines(result.text).strip()
    finished = FINISHED.search(text)
    what = f"sending {source} to {target}" if direction == "send" else f"receiving {source}"
    if finished is None or "[Fail]" in text:
        everything = f"{result.text}\n{result.error_text}".strip()
        if not text and find_fault(everything, direction) is None:
            raise LostConnection(f"The link to board {serial} ended while {what}; only a part has arrived.")
        raise Refused(everything, direction, what)
    arrived = size()
    if arrived is None:
        raise TransferError(f"Board {serial}, {what}: hdc reported success, but there is no file.")
    if int(finished[1]) != arrived or int(finished[2]) != 1:
        raise TransferError(
            f"Board {serial}, {what}: {finished[1]} bytes in {finished[2]} file(s) were reported, not {arrived} in one."
        )
