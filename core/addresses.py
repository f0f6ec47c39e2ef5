"""Addresses for people and logs: without what must stay secret."""

from __future__ import annotations

import re

ADDRESS = re.compile(
    r"(file://|[a-z][a-z0-9+.-]*://(?!/))(?:[^/?#\s]*@)?((?:[\w.-]*|\[[\da-f:.]+\])(?::\d{0,5})?(?:/[^?#]*)?)",
    re.IGNORECASE,
)
"""Start with the scheme; what follows the user's name and password, up to the query."""
SECRET = re.compile(r"\?|:.*@", re.DOTALL)
WITHIN_TEXT = re.compile(r"\b[a-z][a-z0-9+.-]+:/+[^\s'\"`]*", re.IGNORECASE)


def shown(url: str) -> str:
    """`url` for people and logs: without user name, password and query, also when it is malformed."""
    if found := re.fullmatch(ADDRESS.pattern + r"(?:[?#].*)?", url, re.IGNORECASE | re.DOTALL):
        return found[1] + found[2]
    return (re.match(r"[a-z]+:/+|", url, re.IGNORECASE) or [""])[0] + "…" if SECRET.search(url) else url


def quoted(word: str) -> str:
    """Any word of a user's in quotes; one that may be an address, which was put in the wrong place, as `shown` has it."""
    return repr(shown(word) if re.search(r":/|:.*@", word, re.DOTALL) else word)


def without_secrets(text: str) -> str:
    """`text` with every address in it as `shown` has it: whoever writes a sentence need not know what a word is."""
    return WITHIN_TEXT.sub(lambda found: shown(found[0]), text)
