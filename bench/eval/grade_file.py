"""Grades a file of answers, one JSON object a line, in memory that does not grow with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench.eval.grading import Verdict, grade, read_gold
from bench.eval.second_opinion import RIGHT, WRONG, MathVerify, Question
from core.data_file import find_fault
from core.errors import UsageError

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes; an answer of a million tokens has some four million."""
FORM = {
    "type": "object",
    "required": ["text", "gold"],
    "properties": {
        "text": {"type": "string"},
        "gold": {"type": ["string", "number"]},
        "truncated": {"type": ["boolean", "null"]},
    },
}
"""As a schema for what is wrong with a line; checking each by it would take longer than grading it."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One line's text, right answer and whether it was cut, which None leaves to the grader."""

    text: str
    gold: Fraction
    truncated: bool | None
    id: Any = None


@dataclass(frozen=True, kw_only=True)
class GradedLine:
    """What came of one line, counted from 1: a verdict, or why there is none."""

    line: int
    answer: Answer | None = None
    verdict: Verdict | None = None
    fault: str = ""
    second_opinion: str | None = None
    """What math-verify says, one of the words in `bench.eval.second_opinion`; None: it was not asked."""

    @property
    def is_disputed(self) -> bool:
        """Whether both have an opinion, and not the same."""
        if self.verdict is None or self.second_opinion not in (RIGHT, WRONG):
            return False
        return self.verdict.lenient != (self.second_opinion == RIGHT)

    def as_json(self) -> dict[str, Any]:
        if self.verdict is None:
            none = {"strict": None, "lenient": None, "extracted": None, "status": "broken", "fault": self.fault}
            return {"line": self.line, **none}
        named = {"id": self.answer.id} if self.answer is not None and self.answer.id is not None else {}
        second = {"math_verify": self.second_opinion} if self.second_opinion is not None else {}
        return {"line": self.line, **named, **self.verdict.as_json(), **second}


def grade_file(path: Path) -> Iterator[GradedLine]:
    """Grades each line that is not blank: an object with ``text``, ``gold`` and optionally ``truncated`` and ``id``.

    A line that is none is told as such, and does not keep the others from being graded. Raises UsageError when there is
    no such file.
    """
    try:
        file = path.open("rb")
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UsageError(f"The answers in {path} cannot be read: {error.strerror}.") from error
    with file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                yield GradedLine(line=number, fault=f"it has more than {LONGEST_LINE >> 20} MiB")
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
            elif line.strip():
                yield _grade_line(number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)


def with_second_opinion(graded: GradedLine, second: MathVerify) -> GradedLine:
    """The same line with what math-verify thinks of its answer; a line without one as it is."""
    if graded.answer is None:
        return graded
    question = Question(text=graded.answer.text, gold=graded.answer.gold)
    return replace(graded, second_opinion=second.judge(question))


def _grade_line(number: int, line: bytes) -> GradedLine:
    try:
        answer = _read_answer(line)
    except ValueError as fault:
        return GradedLine(line=number, fault=str(fault))
    return GradedLine(line=number, answer=answer, verdict=grade(answer.text, answer.gold, answer.truncated))


def _read_answer(line: bytes) -> Answer:
    """Raises ValueError with what is wrong, as the end of a sentence that begins with the line."""
    try:
        value = json.loads(line)
    except UnicodeDecodeError as error:
        raise ValueError("it is no UTF-8") from error
    except (ValueError, RecursionError) as error:
        said = f": {error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"it is no JSON{said}") from error
    match value:
        case {"text": str(), "gold": str() | int() | float()} if isinstance(value.get("truncated"), bool | None):
            pass
        case _:
            fault = find_fault(value, FORM)
            sentence = fault[1] if fault else "it is of another form"
            raise ValueError(sentence.removeprefix("the file: ").replace("the file", "it", 1).removesuffix("."))
    gold = read_gold(value["gold"])
    if gold is None:
        raise ValueError(f"its 'gold' is no number: {str(value['gold'])[:60]!r}")
    return Answer(text=value["text"], gold=gold, truncated=value.get("truncated"), id=value.get("id"))
