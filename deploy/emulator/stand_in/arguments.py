"""How hdc reads its command line: options, then a command of one or two words, then that command's text.

The rules are hdc's own, not those of getopt or of any shell: see docs/hdc.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

ONE_WORD = frozenset(
    {
        *("shell", "any", "kill", "start", "tconn", "tmode", "smode", "hilog", "fport", "rport"),
        *("checkserver", "version", "help", "discover", "install", "uninstall", "sideload"),
        *("jpid", "track-jpid", "bugreport", "keygen", "alive"),
    }
)
TWO_WORDS = frozenset(
    {
        ("list", "targets"),
        ("file", "send"),
        ("file", "recv"),
        ("target", "mount"),
        ("target", "boot"),
    }
)
WAIT = "wait"
LONGEST_QUOTED = 61_437
"""Bytes of a word with a blank in it that still reach the server; a longer one arrives as nothing."""
LONGEST_KEY = 32
WITH_VALUE = frozenset("tsledoiL")
FLAGS = frozenset("hvpmfcnSN")


class BadArgument(Exception):
    """What the client prints of a wrong option, and on which stream (1 or 2)."""

    def __init__(self, text: str, stream: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.stream = stream


@dataclass(frozen=True, kw_only=True)
class Call:
    """A command line taken apart. `command` is its name, `rest` what stands behind it as the server gets it."""

    key: str = ""
    server: str = ""
    flags: frozenset[str] = frozenset()
    command: str = ""
    rest: bytes = b""
    arguments: tuple[str, ...] = ()

    @property
    def line(self) -> bytes:
        """The command as it travels to the server."""
        return self.command.encode() + self.rest


def read_call(argv: Sequence[str], cwd: str) -> Call:
    """Takes a command line apart (without the program's name). Raises BadArgument."""
    start, length = _find_command(argv)
    call = _read_options(argv[:start])
    command = " ".join(argv[start : start + length])
    later = argv[start + length :]
    rest = b""
    if command in ("file send", "file recv", "install", "sideload"):
        rest += b' remote -cwd "%b/"' % os.fsencode(cwd.rstrip("/"))
    for word in later:
        rest += b" " + _quoted(os.fsencode(word))
    return Call(key=call.key, server=call.server, flags=call.flags, command=command, rest=rest, arguments=tuple(later))


def _find_command(argv: Sequence[str]) -> tuple[int, int]:
    """Where the command begins and how many words it has; (len(argv), 0) without one."""
    for at, word in enumerate(argv):
        if word in ONE_WORD or word.startswith(WAIT):
            return at, 1
        if at + 1 < len(argv) and (word, argv[at + 1]) in TWO_WORDS:
            return at, 2
    return len(argv), 0


def _quoted(word: bytes) -> bytes:
    if b" " not in word:
        return word
    return b'"' + word + b'"' if len(word) <= LONGEST_QUOTED else b""


def _read_options(argv: Sequence[str]) -> Call:
    values = dict.fromkeys(WITH_VALUE, "")
    flags = set()
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        if not word.startswith("-") or word == "-":
            flags.add("?")
            continue
        letters = word[1:]
        while letters:
            letter, letters = letters[0], letters[1:]
            if letter in WITH_VALUE:
                value = letters
                if not value and at < len(argv):
                    value, at = argv[at], at + 1
                values[letter] = value
                letters = ""
            else:
                flags.add(letter if letter in FLAGS else "?")
    size = len(os.fsencode(values["t"]))
    if size > LONGEST_KEY:
        raise BadArgument(f"Sizeo of of parament '-t' {size} is too long\n")
    return Call(key=values["t"], server=values["s"], flags=frozenset(flags))
