"""Text from outside that becomes a file's name, a folder's name or a key: one form, looked at in one place."""

from __future__ import annotations

import re

from core.errors import HostileArchive

FORM = re.compile(r"[A-Za-z0-9][\w.+~-]{0,199}", re.ASCII)


def checked_name(text: object, what: str) -> str:
    """`text` if it can be one part of a path and a word on the screen; `what` says whose it is. Raises HostileArchive."""
    if not isinstance(text, str) or not FORM.fullmatch(text):
        raise HostileArchive(f"{what} is {text!r:.100}, which is no name of letters, digits, dots and dashes.")
    return text
