"""Text from outside that becomes a file's name, a folder's name or a key: one form, looked at in one place."""

from __future__ import annotations

import re

from core.errors import HostileArchive
from core.files import sha256_text

FORM = re.compile(r"[A-Za-z0-9][\w.+~-]{0,199}", re.ASCII)


def checked_name(text: object, what: str) -> str:
    """`text` if it can be one part of a path and a word on the screen; `what` says whose it is. Raises HostileArchive."""
    if not isinstance(text, str) or not FORM.fullmatch(text):
        raise HostileArchive(f"{what} is {text!r:.100}, which is no name of letters, digits, dots and dashes.")
    return text


def file_name_of(text: str) -> str:
    """A file's name for any text, such as a board's serial: it leads into no folder, and no other text has it."""
    readable = re.sub(r"[^A-Za-z0-9-]", "-", text)[:40]
    return f"{readable}-{sha256_text(repr(text))[:12]}"
