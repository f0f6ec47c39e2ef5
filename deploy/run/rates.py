"""How fast a board copies memory and reads its storage: measured there by the agent, and kept for `model.fit`."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.errors import AgentUnavailable, BoardError, NoSpaceOnBoard
from core.files import write_json
from core.names import file_name_of
from core.record_folder import now
from core.session import Session
from deploy.agent.agent import AgentHandle, agents_to_ask_for, find_agent
from deploy.board.protocol import Board
from deploy.board.script import quote
from deploy.board.survey import Question, Survey, require_usable, survey_board
from deploy.transfer.push import place_program

MEBIBYTE = 1024 * 1024
MOST_BYTES = 64 * MEBIBYTE
"""Of the file that is read, and of the buffers that are copied."""
LEAST_BYTES = 8 * MEBIBYTE
SHARE_OF_MEMORY, SHARE_OF_STORAGE = 4, 10
"""The parts of what is available that are used."""
THREAD_BYTES = 2 * MEBIBYTE
PASSES = 3
SECONDS = 300.0
MOST_CACHED = 0.02
"""Share of the file's pages that may still be in memory before it is read from storage."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What was measured on a board, in bytes a second. None: it could not be."""

    memory: float | None
    """Bytes read and bytes written of copying, by all CPUs together."""
    storage: float | None
    """Of reading a file from begin to end that is not in memory."""
    storage_why: str
    """Why `storage` is None."""
    threads: int
    copied: tuple[float, ...]
    """Bytes copied a second, of every pass."""
    read: tuple[float, ...]
    file_bytes: int
    buffer_bytes: int
    measured: str
    """When, in UTC."""
    emulated: bool
    system: Mapping[str, Any]
    """What the board was at that time: of another system they say nothing."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_rates(session: Session, board: Board) -> Rates:
    """Measures on a board that nobody else uses, and keeps the result for `find_rates`. Takes some seconds.

    Raises AgentUnavailable where the agent does not run, NoSpaceOnBoard, BoardError, and what the board raises.
    """
    survey = survey_board(session, board, Question(agents=agents_to_ask_for(session, board)))
    require_usable(board, survey)
    agent = find_agent(session, board, survey, place=place_program)
    if not isinstance(agent, AgentHandle):
        raise AgentUnavailable(f"Board {board.serial} has no agent, which measures: {agent.reason}.")
    folder = f"{board.profile.device_dir}/ohforge"
    words = [agent.path, "measure", f"--file={_file_size(board, survey)}", f"--passes={PASSES}", *_memory_words(survey)]
    session.console.info(f"measuring memory and storage of board {board.serial}: some seconds")
    result = board.shell(
        " ".join(map(quote, [*words, folder])), deadline=Deadline.after(SECONDS, f"the rates of board {board.serial}")
    )
    if result.exit_code:
        raise BoardError(
            f"The agent could not measure on board {board.serial}: {result.text.strip()[-300:]}", remedy=""
        )
    rates = read_rates(
        result.text, emulated=board.emulated, system=_system_of(session, board, survey.machine, survey.kernel)
    )
    write_json(_note_of(session, board), rates.as_json())
    return rates


def find_rates(session: Session, board: Board, *, machine: str, kernel: str) -> Rates | None:
    """What was measured on the board, when it is still the system that it was (`Survey`); None when nothing was."""
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        value = json.loads(_note_of(session, board).read_text(encoding="utf-8"))
        rates = Rates(**{**value, "copied": tuple(value["copied"]), "read": tuple(value["read"])})
        if rates.system == _system_of(session, board, machine, kernel):
            return rates
    return None


def read_rates(text: str, *, emulated: bool, system: Mapping[str, Any]) -> Rates:
    """Understands the agent's answer. Raises BoardError for another one."""
    try:
        answer = json.loads(text)
        copied, read = _floats(answer["copied"]), _floats(answer["read"])
        cached, failed = float(answer["cached"]), int(answer["errno"])
        sizes = {name: int(answer[name]) for name in ("threads", "file_bytes", "buffer_bytes")}
    except (ValueError, KeyError, TypeError) as error:
        raise BoardError(f"The agent's answer cannot be understood: {text[-300:]!r}.", remedy="") from error
    why = _why_no_storage(read, cached, failed)
    return Rates(
        memory=2 * statistics.median(copied) if copied else None,
        storage=statistics.median(read) if not why else None,
        storage_why=why,
        copied=copied,
        read=read,
        measured=now(),
        emulated=emulated,
        system=system,
        **sizes,
    )


def _why_no_storage(read: Sequence[float], cached: float, failed: int) -> str:
    if failed or not read:
        return f"a file could not be written or read there (errno {failed})"
    if cached < 0:
        return "the board does not tell which pages of a file are in memory"
    if cached > MOST_CACHED:
        return f"{cached:.0%} of the file stayed in memory, as on a disk that is in memory itself"
    return ""


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))


def _memory_words(survey: Survey) -> list[str]:
    """As much memory as may be taken for some seconds, and as many threads as it is enough for."""
    spare = survey.available_bytes // SHARE_OF_MEMORY if survey.available_bytes else MOST_BYTES
    size = max(LEAST_BYTES, min(MOST_BYTES, spare))
    return [f"--buffer={size}", f"--threads={min(max(survey.cores, 1), size // THREAD_BYTES)}"]


def _file_size(board: Board, survey: Survey) -> int:
    free = survey.free_bytes if survey.free_bytes is not None else MOST_BYTES * SHARE_OF_STORAGE
    size = min(MOST_BYTES, free // SHARE_OF_STORAGE)
    if size < LEAST_BYTES:
        raise NoSpaceOnBoard(f"Board {board.serial} has too little free storage to measure how fast it is read.")
    return size


def _system_of(session: Session, board: Board, machine: str, kernel: str) -> dict[str, Any]:
    system: dict[str, Any] = {"machine": machine, "kernel": kernel}
    if board.emulated:
        from deploy.hdc.emulated import limits_of

        system["limits"] = limits_of(session, board.serial)
    return system


def _note_of(session: Session, board: Board) -> Path:
    return session.settings.cache / "boards" / f"{file_name_of(board.serial)}-rates.json"
