"""What becomes of links in a tree that goes to a board or comes from there: the words of ``--links``."""

from __future__ import annotations

from enum import StrEnum

from core.errors import UsageError


class Links(StrEnum):
    """What becomes of links that are found below what is named."""

    FOLLOW = "follow"
    """What they lead to is copied in their place."""
    KEEP = "keep"
    """They are made anew on the other side, where they lead to something that is copied too."""
    REFUSE = "refuse"
    """They are an error."""

    @classmethod
    def read(cls, text: str) -> Links:
        """Raises UsageError for a word that is none of them."""
        try:
            return cls(text)
        except ValueError:
            raise UsageError(f"--links {text!r} is not possible; use {', '.join(cls)}.") from None
