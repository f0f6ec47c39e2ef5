"""Where in a model's text its answer stands: rules in their order, of which the first that applies decides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from bench.eval.number import FORBIDDEN, RUN, plain_text, read_number, read_run, simplify

BOX, HASHES, PHRASE, LAST_NUMBER = "box", "hash line", "phrase", "last number"
"""The rules, as verdicts name them: the first three make the strict verdict, all four the lenient one."""

BRACES = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|\Z)|\\\\(?!boxed|fbox)|\\[{}]|[{}]")
HASH_LINE = re.compile(r"^[ \t]*####(.*)$", re.MULTILINE)
SAID = re.compile(r"\b(?i:answer)\s*(?:is\b\s*:?|:)|答案\s*(?:是|为|:)\s*:?|^[ \t]*A:", re.MULTILINE)
SENTENCE_END = re.compile(r"[.!?](?=[\s)\]\"'”’$]|\Z)|[。\n]")
CALCULATOR = re.compile(r"<<[^<>\n]*>>")
EMPHASIS = re.compile(r"[*_]+|`+")
BULLET = re.compile(r"^[ \t]*[*+•-][ \t]+", re.MULTILINE)
BLANKS = re.compile(r"\s+")
IN_A_WORD = re.compile(r"[A-Za-z]")
LIST_MARK = re.compile(r"[ \t]*\(?[0-9]{1,3}[.)、]\s+(?=\S)")
LABEL = re.compile(
    r"(?:\b(?:step|part|note|method|option|case|example|question|problem|section|item|line|figure|table)|步骤|第)\s*[0-9]+",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """What a text answers. A rule without a value is one that decided that there is no answer."""

    rule: str | None
    value: Fraction | None
    boxes: int
    """How many complete boxes there are."""
    first_box: Fraction | None
    open_box: bool
    """Whether the text ends in a box that was begun and not closed."""


def extract(text: str, truncated: bool | None) -> Extraction:
    """Looks for the answer. `truncated`: whether the text was cut; None, not known: then it was, when a box is open."""
    text = plain_text(text)
    boxes, open_box = find_boxes(text)
    first = read_number(without_emphasis(boxes[0])) if boxes else None
    rule, value = _decide(text, boxes, open_box, open_box if truncated is None else truncated)
    return Extraction(rule=rule, value=value, boxes=len(boxes), first_box=first, open_box=open_box)


def _decide(text: str, boxes: list[str], open_box: bool, truncated: bool) -> tuple[str | None, Fraction | None]:
    if boxes:
        return BOX, read_number(without_emphasis(boxes[-1]))
    text = without_emphasis(BULLET.sub("", CALCULATOR.sub("", text)))
    if (value := _behind_hashes(text)) is not None:
        return HASHES, value
    if (value := _behind_phrase(text)) is not None:
        return PHRASE, value
    if not truncated and not open_box and (value := _last_number(text)) is not None:
        return LAST_NUMBER, value
    return None, None


def find_boxes(text: str) -> tuple[list[str], bool]:
    """The contents of all complete boxes, ``\\boxed{…}`` and ``\\fbox{…}``, that have no complete one in them; and whether one is open."""
    if "box" not in text:
        return [], False
    open_starts: list[int | None] = []
    found: list[tuple[int, int]] = []
    for brace in BRACES.finditer(text):
        match brace[0]:
            case "{":
                open_starts.append(None)
            case "}":
                start = open_starts.pop() if open_starts else None
                if start is not None and (not found or found[-1][0] < start):
                    found.append((start, brace.start()))
            case box if "box" in box:
                open_starts.append(brace.end())
    return [text[start:end] for start, end in found], any(start is not None for start in open_starts)


def without_emphasis(text: str) -> str:
    """`text` without the marks of Markdown around words; signs of multiplication stay."""

    def strip(found: re.Match[str]) -> str:
        run, before, after = found[0], text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        between_digits = before.isdigit() and after.isdigit()
        if run[0] == "`":
            return " " if between_digits else ""
        spaced = before == after == " "
        joined = before.isalnum() and after.isalnum() and (len(run) == 1 or between_digits)
        return (
            run
            if spaced or joined or (before == ")" and after.isalnum()) or (before.isalnum() and after == "(")
            else ""
        )

    return EMPHASIS.sub(strip, text)


def _behind_hashes(text: str) -> Fraction | None:
    """The number of the last line that begins with ``####``; a heading such as ``#### Step 3`` is none."""
    lines = HASH_LINE.findall(text) if "####" in text else []
    return read_number(lines[-1]) if lines and not LABEL.search(lines[-1]) else None


def _behind_phrase(text: str) -> Fraction | None:
    """The number of the sentence behind the last ``answer is``, ``Answer:``, ``答案是`` or ``A:`` that has digits in it."""
    limit = len(text)
    for said in reversed(list(SAID.finditer(text))):
        start = _skip_blanks(text, said.end(), limit)
        end = SENTENCE_END.search(text, start, limit)
        value = text[start : end.start() if end else limit]
        below = "\n" in text[said.end() : start] and LIST_MARK.match(text, start, limit)
        if any(map(str.isdigit, value)) and not below:
            return None if "\\boxed" in value or "\\fbox" in value else read_number(value)
        limit = said.start()
    return None


def _skip_blanks(text: str, start: int, limit: int) -> int:
    found = BLANKS.match(text, start, limit)
    return found.end() if found else start


def _last_number(text: str) -> Fraction | None:
    """The last number that is no mark of a list, no label and no part of a word; none when it belongs to an expression."""
    for line in reversed(text.splitlines()):
        if not any(map(str.isdigit, line)):
            continue
        mark = LIST_MARK.match(line)
        line = LABEL.sub(" ", simplify(line[mark.end() :] if mark else line))
        runs = [run for run in RUN.finditer(line) if not IN_A_WORD.match(line, run.start() - 1)]
        if runs:
            return _number_in(line, runs[-1])
    return None


def _number_in(line: str, run: re.Match[str]) -> Fraction | None:
    before, after = line[: run.start()], line[run.end() :].lstrip()
    if after[:1] in FORBIDDEN | {"/"} or before.rstrip()[-1:] in FORBIDDEN | {"/"}:
        return None
    number = read_run(run[0])
    if number is None or not before.rstrip().endswith("-"):
        return number
    ahead = before.rstrip().removesuffix("-").rstrip()
    if ahead[-1:].isdigit() or ahead.endswith(")"):
        return None
    return -number if before.endswith("-") and not before[-2:-1].isalpha() else number
