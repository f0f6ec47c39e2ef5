"""The words behind ``file send`` and ``file recv``, and what is refused before a file is touched."""

from __future__ import annotations

import os
from dataclasses import dataclass

from deploy.emulator.protocol.releases import Release

SEND_USAGE = "Usage: hdc file send [-b bundlename] local remote"
RECEIVE_USAGE = "Usage: hdc file recv [-b bundlename] remote local"
NOT_ALLOWED = "[E005008] Operation not allowed"
_NO_BUNDLE = "[E005003] The parameter is missing, correct your input by referring below:"
_PROTECTED = ("/data/service/el1/public/hdc", "/data/service/el2/public/hdc_service")
"""Where hdcd keeps its keys."""


class TaskFailed(Exception):
    """The transfer stops; the text is what stands behind ``[Fail]``. The error that caused it is ``__cause__``."""


class NotOpened(TaskFailed):
    """A file cannot be opened: the one failure that a client also writes into its log."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``file send`` and ``file recv``."""

    keep_times: bool = False
    compress: bool = False
    modes: bool = False
    newer_only: bool = False
    cwd: str = ""
    remote: bool = False
    bundle: str = ""


def refuse_bundle(bundle: str) -> None:
    """Raises TaskFailed for the folder of an application: there are none on an emulated board."""
    if bundle:
        raise TaskFailed(f"[E005101] Invalid bundle name: {bundle}")


def check_allowed(path: str, release: Release) -> None:
    """Raises TaskFailed for a place of hdcd's own keys."""
    if release.protects_keys and any(place in os.path.normpath(path) for place in _PROTECTED):
        raise TaskFailed(NOT_ALLOWED)


def split_arguments(line: bytes) -> list[bytes]:
    """Splits at blanks; a double quote switches quoting on and off and cannot be escaped."""
    words: list[bytes] = []
    word = bytearray()
    quoted = started = False
    for byte in line:
        if byte == ord('"'):
            quoted = not quoted
            started = True
        elif byte in b" \t\r\n" and not quoted:
            if started:
                words.append(bytes(word))
            word, started = bytearray(), False
        else:
            word.append(byte)
            started = True
    if started:
        words.append(bytes(word))
    return words


def parse_arguments(line: bytes, *, bundles: bool = True, usage: str = "") -> tuple[Options, list[str]]:
    """Options and paths of a file command; `bundles`: ``-b`` is an option, without a name of which `usage` is shown.

    Raises TaskFailed for an option that does not exist.
    """
    words = [os.fsdecode(word) for word in split_arguments(line)]
    flags: dict[str, bool] = {}
    cwd = bundle = ""
    paths = []
    names = {"-a": "keep_times", "-z": "compress", "-m": "modes", "-sync": "newer_only", "remote": "remote"}
    at = 0
    while at < len(words):
        word = words[at]
        if word in names:
            flags[names[word]] = True
        elif word == "-cwd" or (word == "-b" and bundles):
            at += 1
            if word == "-b" and at == len(words):
                raise TaskFailed(f"{_NO_BUNDLE}\n{usage}")
            value = words[at] if at < len(words) else ""
            cwd, bundle = (value, bundle) if word == "-cwd" else (cwd, value)
        elif word.startswith("-"):
            raise TaskFailed(f"Unknown file option: {word}")
        else:
            paths.append(word)
        at += 1
    return Options(cwd=cwd, bundle=bundle, **flags), paths
