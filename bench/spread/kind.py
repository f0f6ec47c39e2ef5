"""Of what kind a board is: what must be the same where answers or times of several boards become one number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import UnlikeBoards
from core.session import Session
from deploy.board.survey import survey_board
from deploy.hdc.choose import choose_board

GIB = 1 << 30


def kind_of_board(session: Session, name: str) -> dict[str, Any]:
    """The kind of the board of that name, and its ``serial``; by its profile and by what it says itself.

    Raises what choosing and asking a board raise.
    """
    board = choose_board(session, name)
    found = survey_board(session, board)
    return {
        "serial": board.serial,
        "emulated": board.emulated or found.is_emulated,
        "profile": board.profile.name,
        "chip": board.profile.soc,
        "model": found.parameters.get("const.product.model", ""),
        "machine": found.machine,
        "CPU features": list(found.cpu_features),
        "memory": f"{found.memory_bytes / GIB:.1f} GiB",
    }


def check_alike(board: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises UnlikeBoards, naming every key in which `board` is not as the boards before it."""
    keys = [key for key in wanted if found.get(key) != wanted[key]]
    if keys:
        said = "; ".join(f"{key}: {_shown(found.get(key))} against {_shown(wanted[key])}" for key in keys)
        raise UnlikeBoards(f"Board {board} is not of the kind of the others: {said}.", board=board, differs=keys)


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
