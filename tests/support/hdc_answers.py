"""Answers of an hdc for tests of the client, in its own words (real hdc 3.2.0f)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from core.process import Result

Answer = Callable[[tuple[str, ...]], Result | bytes]


def token_of(argv: tuple[str, ...]) -> str:
    """The token of a wrapped command."""
    found = re.match(r"_oh=(\w+);", argv[-1])
    assert found is not None, argv
    return found[1]


def answered(output: bytes = b"", status: int | str = 0, pid: int = 4711) -> Answer:
    """A wrapped command that printed `output` and ended with `status`."""

    def answer(argv: tuple[str, ...]) -> bytes:
        token = token_of(argv)
        return f"{token}:P:{pid}\n".encode() + output + f"{token}:X:{status}\n".encode()

    return answer


def cut_off(output: bytes = b"", pid: int = 4711) -> Answer:
    """A wrapped command whose link broke after `output`: silence, status 0."""
    return lambda argv: f"{token_of(argv)}:P:{pid}\n".encode() + output


def sent(size: int | None = None) -> Answer:
    """A file that was sent whole, or `size` bytes of it."""

    def answer(argv: tuple[str, ...]) -> bytes:
        arrived = Path(argv[-2]).stat().st_size if size is None else size
        return f"FileTransfer finish, Size:{arrived}, File count = 1, time:0ms rate:infkB/s\r\n".encode()

    return answer


def received(content: bytes) -> Answer:
    """A file with `content` that was received whole."""

    def answer(argv: tuple[str, ...]) -> bytes:
        Path(argv[-1]).write_bytes(content)
        return f"FileTransfer finish, Size:{len(content)}, File count = 1, time:3ms rate:9.00kB/s\n".encode()

    return answer


def in_turn(*answers: Answer | bytes | Exception) -> Answer:
    """The first answer to the first call, and so on; the last one to all that follow."""
    left = list(answers)

    def answer(argv: tuple[str, ...]) -> Result | bytes:
        now = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(now, Exception):
            raise now
        return now if isinstance(now, bytes) else now(argv)

    return answer
