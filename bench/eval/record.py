"""What an evaluation leaves behind: ``record.json`` (docs/eval.schema.json) and ``answers.jsonl``, a line for each answer.

A line is written and flushed to the disk when its answer is whole, so that whatever ends an evaluation, all answers
that came before it are there, and none twice.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.record_kind import RecordKind
from core.errors import DISK_FULL, InvalidData, NotEnoughSpace
from core.record_folder import RecordFolder, make_record_folder
from core.session import PROJECT, Session

SCHEMA = 1
KIND = "eval"
EVAL = RecordKind(
    name=KIND,
    schema=SCHEMA,
    schema_file=PROJECT / "docs" / "eval.schema.json",
    title="an evaluation",
    maker="ohforge eval.gsm8k",
    where="Name the folder that `ohforge eval.gsm8k` has shown, or latest.",
)
ANSWERS = "answers.jsonl"
ANSWER, CHECK = "answer", "check"
"""What a line was asked for: to be graded, or to see whether a shorter answer is the beginning of a longer one."""
WHOLE = "whole"
"""Among the verdicts of a line, that on all of its text; others are on what came within so many tokens."""


class EvalRecord(RecordFolder):
    """The record of one evaluation."""

    @property
    def answers(self) -> Path:
        return self.folder / ANSWERS


class AnswersFile:
    """``answers.jsonl``, to which answers are added; what a killed process left of half a line is taken away first."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b", buffering=0)
        self._file.truncate(_end_of_last_line(path))

    def add(self, line: Mapping[str, Any]) -> None:
        """Adds a line, whole or not at all. Raises NotEnoughSpace."""
        content = json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
        begin = self._file.seek(0, os.SEEK_END)
        try:
            if self._file.write(content) != len(content):
                raise OSError(next(iter(DISK_FULL)), "the disk took only a part of a line")
            flush_to_disk(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(begin)
            if error.errno not in DISK_FULL:
                raise
            raise NotEnoughSpace(
                f"The disk that holds {self._file.name} became full. All answers but the last are kept.",
                remedy="Free some space and go on with --resume.",
            ) from error

    def close(self) -> None:
        self._file.close()


def read_answers(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a record's answers, in the order in which they came; half a line at the end is none.

    Raises InvalidData, with the line, for one that cannot be read.
    """
    path = folder / ANSWERS
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidData(f"{path}, line {number} is no JSON: {error}.") from error
            if not isinstance(value, dict) or not isinstance(value.get("id"), str):
                raise InvalidData(f"{path}, line {number} is no answer: it has no id.")
            yield value


def make_eval_folder(session: Session, started: str, name: str) -> Path:
    """``<runs>/<UTC time>-eval-<name>-<id>``"""
    return make_record_folder(session.settings.runs, started, "eval", name)


def find_eval(session: Session, name: str) -> Path:
    """The folder of an evaluation's record; see `RecordKind.find`."""
    return EVAL.find(session, name)


def read_eval(folder: Path) -> dict[str, Any]:
    """The record of an evaluation. Raises InvalidData for a record of another kind or form."""
    return EVAL.read(folder)


def flush_to_disk(descriptor: int) -> None:
    os.fsync(descriptor)


def _end_of_last_line(path: Path) -> int:
    """Bytes of a file up to its last newline."""
    size = path.stat().st_size
    with path.open("rb") as file:
        while size:
            begin = max(0, size - 65536)
            file.seek(begin)
            if (found := file.read(size - begin).rfind(b"\n")) >= 0:
                return begin + found + 1
            size = begin
    return 0
