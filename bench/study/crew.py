"""Which boards work on a study, and in whose place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.study.spec import Study
from core.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Crew:
    """The boards of ``study.run --boards``."""

    lanes: Mapping[str, tuple[str, ...]]
    """By the name of a study's board, the boards that answer in its place; cells of other boards are left."""
    scheduler: str = ""
    """Of the workers that have them, for the questions; empty: this computer has them."""

    @classmethod
    def of(cls, study: Study, boards: Sequence[str], scheduler: str = "") -> Crew:
        """Each board of the study does its own cells; others help where the study has one board only.

        Raises UsageError when it is not clear whom a board helps.
        """
        known = tuple(study.content.get("boards", ()))
        own = [board for board in known if board in boards]
        helpers = tuple(board for board in boards if board not in known)
        if helpers and len(known) != 1:
            raise UsageError(
                f"The study does not name {', '.join(helpers)}, and has {len(known)} boards: whom they help is not clear.",
                remedy="Name boards of the study; others can help only where it has one board.",
            )
        lanes = {known[0]: (*own, *helpers)} if helpers else {board: (board,) for board in own}
        return cls(lanes=lanes, scheduler=scheduler)
