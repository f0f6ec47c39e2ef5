"""Questions with their right answers, and which of them are asked, in what order."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.eval.grading import read_gold
from core.errors import InvalidData, UsageError

LONGEST_LINE = 1024 * 1024
"""Bytes; the longest question of the known sets has 848 characters."""


@dataclass(frozen=True, kw_only=True)
class Item:
    id: str
    """``<set>-<place in the file, from 0>``"""
    question: str
    gold: str
    """The right answer, as the file has it."""


def read_items(path: Path, name: str) -> list[Item]:
    """The questions of a file: ``.tsv`` with question and answer, else JSON lines with ``question`` and ``answer``.

    An answer is a number, or a text that ends in ``#### 18``; blank lines are passed over. Raises InvalidData, naming
    the line that has another form.
    """
    items: list[Item] = []
    for number, line in _read_lines(path):
        try:
            question, gold = _read_tsv(line) if path.suffix == ".tsv" else _read_json(line)
        except ValueError as fault:
            raise InvalidData(
                f"{path}, line {number}: {fault}.", remedy="Correct the line, or take it away; nothing was asked."
            ) from None
        items.append(Item(id=f"{name}-{len(items)}", question=question, gold=gold))
    if not items:
        raise InvalidData(f"{path} has no question in it.", remedy="Name a file of questions with --data.")
    return items


def choose_items(items: list[Item], *, limit: int, seed: int) -> list[Item]:
    """`limit` of the items (0: all) in an order that depends on `seed` and their number only.

    The first n of a larger choice are the choice of n. Raises UsageError.
    """
    if limit < 0:
        raise UsageError(f"--limit {limit} is no number of questions.", remedy="0 asks all.")
    order = random.Random(seed).sample(range(len(items)), len(items))  # noqa: S311 - it shall be the same again
    return [items[place] for place in order[: limit or None]]


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise InvalidData(f"{path}, line {number} has more than {LONGEST_LINE} bytes: it is no question.")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n")
            except UnicodeDecodeError as error:
                raise InvalidData(f"{path}, line {number} is no UTF-8: {error}.") from error
            if text.strip():
                yield number, text


def _read_tsv(line: str) -> tuple[str, str]:
    question, tab, gold = line.rpartition("\t")
    if not tab or not question.strip():
        raise ValueError("it is no question and answer with a tab between them")
    return question, _checked(gold)


def _read_json(line: str) -> tuple[str, str]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from None
    question = value.get("question") if isinstance(value, dict) else None
    if not isinstance(question, str) or not question.strip():
        raise ValueError("it has no text under 'question'")
    gold = value.get("answer", value.get("gold"))
    if gold is None or isinstance(gold, bool | dict | list):
        raise ValueError("it has no number or text under 'answer'")
    return question, _checked(str(gold))


def _checked(gold: str) -> str:
    """The gold behind the last ``####``, as it stands there."""
    found = gold.rpartition("####")[2].strip()
    if read_gold(found) is None:
        raise ValueError(f"its answer is no number: {found[:60]!r}")
    return found
