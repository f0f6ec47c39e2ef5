"""Addresses for people and logs: without what must stay secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ADDRESS = re.compile(
    r"(file://|[a-z][a-z0-9+.-]*://(?!/))(?:[^/?#\s]*@)?((?:[\w.-]*|\[[\da-f:.]+\])(?::\d{0,5})?(?:/[^?#]*)?)",
    re.IGNORECASE,
)
"""Start with the scheme; what follows the user's name and password, up to the query."""
SECRET = re.compile(r"\?|:.*@", re.DOTALL)
WITHIN_TEXT = re.compile(r"\b([a-z][a-z0-9+.-]+:/+[^\s'\"`]*?)([.,;:!)]*(?=[\s'\"`]|$))", re.IGNORECASE)
"""An address in a sentence, and the punctuation that follows it."""


def shown(url: str) -> str:
    """`url` for people and logs: without user name, password and query, also when it is malformed.

    The user of an ``ssh://`` stays: it is no secret there, and without it the address is another.
    """
    if found := re.fullmatch(ADDRESS.pattern + r"(?:[?#].*)?", url, re.IGNORECASE | re.DOTALL):
        user = re.match(r"ssh://([^/?#:@\s]+@)", url)
        return found[1] + (user[1] if user else "") + found[2]
    return (re.match(r"[a-z]+:/+|", url, re.IGNORECASE) or [""])[0] + "…" if SECRET.search(url) else url


def quoted(word: str) -> str:
    """Any word of a user's in quotes; one that may be an address, which was put in the wrong place, as `shown` has it."""
    return repr(shown(word) if re.search(r":/|:.*@", word, re.DOTALL) else word)


def without_secrets(text: str) -> str:
    """`text` with every address in it as `shown` has it: whoever writes a sentence need not know what a word is."""
    return WITHIN_TEXT.sub(lambda found: shown(found[1]) + found[2], text)


def plain_without_secrets(value: Any) -> Any:
    """As `without_secrets`, for all texts in what becomes JSON."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {name: plain_without_secrets(entry) for name, entry in value.items()}
    return [plain_without_secrets(entry) for entry in value] if isinstance(value, list | tuple) else value
