"""Which host keys the user knows, and of whom: OpenSSH's files of known hosts."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

REVOKED = "@revoked"


@dataclass(frozen=True, kw_only=True)
class KnownKey:
    """A key that a file has for a host."""

    kind: str
    blob: bytes
    file: str
    revoked: bool = False
    """Whether it is marked as one that must not be trusted any more."""


def read_known(files: Sequence[str], name: str) -> list[KnownKey]:
    """The keys of the host `name` in `files`; one that is not there, or cannot be read, knows nobody.

    Keys of certificate authorities are left out: no certificate of a host is understood here.
    """
    return [key for file in files for key in _read(file, name)]


def fingerprint(kind: str, blob: bytes) -> str:
    """A host's key as OpenSSH shows it (``ssh-keygen -l``)."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest} ({kind})"


def _read(file: str, name: str) -> Iterator[KnownKey]:
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", REVOKED) or not _is_meant(name, words[0]):
            continue
        with contextlib.suppress(binascii.Error):
            yield KnownKey(
                kind=words[1], blob=base64.b64decode(words[2], validate=True), file=file, revoked=marker == REVOKED
            )


def _is_meant(name: str, field: str) -> bool:
    """Whether the first word of a line, patterns or the hash of a name, stands for the host."""
    name = name.lower()
    if field.startswith("|1|"):
        with contextlib.suppress(ValueError):
            salt, digest = (base64.b64decode(part) for part in field.split("|")[2:4])
            return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
        return False
    patterns = field.lower().split(",")
    if any(_fits(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_fits(name, pattern) for pattern in patterns if not pattern.startswith("!"))


def _fits(name: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), name) is not None
