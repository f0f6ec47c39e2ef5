"""How hdc reads its command line: options, then a command of one or two words, then that command's text.

The rules are hdc's own, not those of getopt or of any shell: see docs/hdc.md.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

ONE_WORD = frozenset(
    {
        *("shell", "any", "kill", "start", "tconn", "tmode", "smode", "hilog", "fport", "rport"),
        *("checkserver", "version", "help", "discover", "install", "uninstall", "sideload"),
        *("jpid", "track-jpid", "bugreport", "keygen", "alive", "reconnect"),
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
LARGEST_LEVEL = 6
DEBUG_LEVEL = 4
"""From this log level on (``-l``) the client also tells a pipe what otherwise only a terminal is told."""
WITH_VALUE = frozenset("tsledoiL")
FLAGS = frozenset("hvpmfcnSN")
DECIDING = frozenset("hv")
"""What stands behind one of these is not looked at any more."""


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
    forward_ip: str = ""
    """Where forwarded ports shall be listened at (``-e``)."""
    level: int = 0
    words: tuple[str, ...] = ()
    """What stands behind the options when there is no command."""
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
    return replace(call, command=command, rest=rest, arguments=tuple(later))


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
    flags: set[str] = set()
    at = 0
    while at < len(argv) and not flags & DECIDING:
        word = argv[at]
        at += 1
        if not word.startswith("-") or word == "-":
            flags.add("?")
            continue
        letters = word[1:]
        while letters and not flags & DECIDING:
            letter, letters = letters[0], letters[1:]
            if letter not in WITH_VALUE:
                flags.add(letter if letter in FLAGS else "?")
            elif letters or at < len(argv):
                if not letters:
                    letters, at = argv[at], at + 1
                values[letter], letters = letters, ""
                _check(letter, values[letter])
    if "N" in flags:
        raise BadArgument("Error: -N is reserved for internal use\n")
    return Call(
        key=values["t"],
        server=values["s"],
        forward_ip=values["e"],
        level=int(values["l"] or 0),
        flags=frozenset(flags),
        words=tuple(argv[at:]),
    )


def _check(option: str, value: str) -> None:
    """Raises BadArgument for a value at which hdc stops; an address of ``-s`` is the server's own business."""
    size = len(os.fsencode(value))
    if option == "t" and size > LONGEST_KEY:
        raise BadArgument(f"Sizeo of of parament '-t' {size} is too long\n")
    if option == "e" and not _is_address(value):
        raise BadArgument("[E001106]-e content IP incorrect.\n")
    if option == "l" and not value.isdecimal():
        raise BadArgument("Loglevel error: invalid number string!\n")
    if option == "l" and int(value) > LARGEST_LEVEL:
        raise BadArgument("Loglevel error!\n")
    if option == "d":
        raise BadArgument("Not support command...\n")
    if option == "o" and not value.rpartition(":")[2].isdecimal():
        raise BadArgument(f"The port must be digit buf:{value}\n")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
