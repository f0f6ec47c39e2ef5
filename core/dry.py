"""What a call would do: with ``--dry`` it is told instead of done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from core.console import Console
from core.files import human_bytes

MOVES = frozenset({"fetch", "send", "pull"})


@dataclass(frozen=True, kw_only=True)
class Would:
    """One thing that would be done. Sizes in bytes; None and empty text where it is not known, or means nothing."""

    action: str
    """``fetch``, ``build``, ``send`` …; ``use`` for what is there already and stays as it is."""
    what: str
    size: int | None = None
    there: int | None = None
    """How much of it is there already."""
    source: str = ""
    where: str = ""
    """Folder, file or board at which something would be other than before."""
    why: str = ""

    def sentence(self) -> str:
        """For people."""
        where = f" {self._preposition} {self.where}" if self.where else ""
        facts = [human_bytes(self.size) if self.size is not None else "", self._shown_there, self.why]
        shown = "; ".join(filter(None, facts))
        origin = f" from {self.source}" if self.source else ""
        return f"would {self.action} {self.what}{origin}{where}{f': {shown}' if shown else ''}"

    @property
    def _shown_there(self) -> str:
        if not self.there or self.action == "use":
            return ""
        return (
            "it is there already" if self.there == self.size else f"{human_bytes(self.there)} of it are there already"
        )

    @property
    def _preposition(self) -> str:
        if self.action in MOVES:
            return "to"
        return "on" if self.where.startswith(("board ", "ssh://")) else "in"


def tell(console: Console, would: Sequence[Would]) -> dict[str, Any]:
    """Prints what would be done; returns the same for ``--json``."""
    for entry in would:
        console.info(entry.sentence())
    if all(entry.action == "use" for entry in would):
        console.info("nothing would be changed")
    return {"dry": True, "would": [asdict(entry) for entry in would]}
