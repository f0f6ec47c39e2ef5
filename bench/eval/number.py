"""Reads the one number of a short text as people and models write it: an exact fraction, or nothing.

Nothing is ever evaluated, and every step takes time in proportion to the text: ``9^{9^{9^9}}`` costs as much as any
other text of eleven characters.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

LONGEST = 100
"""Characters of the longest number that is read; no answer to a question of these sets has more than ten."""
FORBIDDEN = frozenset("^_*+")
"""What makes an expression of a number: then it is none."""


MOST_USED = 0xFFFF
"""Code points up to here are remembered, however many of them a text has."""


class _PlainCharacters(dict[int, str | int]):
    """Code point → what it stands for, as Unicode's NFKC says, for `str.translate`.

    One character after another, because the whole text at once takes quadratic time for a long run of accents. Raised
    and lowered digits keep saying so: 10² is not 102.
    """

    def __missing__(self, code: int) -> str | int:
        kind = unicodedata.decomposition(chr(code)).partition(" ")[0]
        if not kind.startswith("<"):
            return self.setdefault(code, code) if code <= MOST_USED else code
        plain = unicodedata.normalize("NFKC", chr(code))
        match kind:
            case "<super>":
                plain = f"^{plain}"
            case "<sub>":
                plain = f"_{plain}"
            case "<circle>":
                plain = " "
            case "<fraction>":
                plain = f" {plain.replace(FRACTION_SLASH, '/')}"
            case "<square>":
                plain = re.sub("[0-9]", "", plain)
        self[code] = plain
        return plain


FRACTION_SLASH, MINUS, EN_DASH = "\u2044", "\u2212", "\u2013"
PLAIN = _PlainCharacters(
    {
        **{ord(character): "*" for character in "×÷·⋅∙"},
        **{ord(character): "^" for character in "√∛π≤≥≠∞"},
        ord("±"): "+",
        ord("≈"): " ",
        ord(MINUS): "-",
        ord(FRACTION_SLASH): "/",
        ord("∕"): "/",
        **dict.fromkeys(map(ord, "\r\x85\u2028\u2029"), "\n"),
    }
)
CURRENCY = "$" + "".join(
    sorted(character for character in map(chr, range(0xA2, 0x20D0)) if unicodedata.category(character) == "Sc")
)
SIGNED_DASH = re.compile(rf"{EN_DASH}(?=\s*(?:\\?[{re.escape(CURRENCY)}])?[0-9.])")

SUBSTITUTES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\{,\}(?:\\!)?|,\\!"), ","),
    (re.compile(r"\\\\(?=[A-Za-z])"), r"\\"),
    (re.compile(r"\\\\|\\[,;:!> ]|~"), " "),
    (re.compile(r"\\[()\[\]]"), " "),
    (re.compile(r"\\([%#&])"), r"\1"),
    # Between two numbers a currency sign parts them; elsewhere it goes without a trace: -$10.
    (re.compile(rf"(?<=[0-9])(?:\\?[{re.escape(CURRENCY)}])+"), " "),
    (re.compile(rf"\\?[{re.escape(CURRENCY)}]"), ""),
    *[(re.compile(r"\\(?:text|mathrm|textbf|mathbf|mbox|mathit|textit|operatorname)\s*\{([^{}]*)\}"), r"\1")] * 2,
)
FRACTION = re.compile(r"\\[dtc]?frac\s*(?:\{([^{}]*)\}|([0-9]))\s*(?:\{([^{}]*)\}|([0-9]))")
COMMAND = re.compile(r"\\([A-Za-z]+)")
OPERATORS = frozenset(["times", "cdot", "div", "ast"])
UNSEEN = frozenset(
    [
        "approx",
        "left",
        "right",
        "displaystyle",
        "textstyle",
        "quad",
        "qquad",
        "big",
        "Big",
        "bigl",
        "bigr",
        "Bigl",
        "Bigr",
        "implies",
        "Rightarrow",
        "rightarrow",
        "to",
        "therefore",
        "because",
        "ldots",
        "dots",
        "cdots",
        "newline",
    ]
)
"""Commands that change nothing of a number beside them; every other one makes an expression of it."""

_INTEGER = r"(?:[0-9]+|[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]{0,2}(?: [0-9]{3})+)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.[0-9]+)?|\.[0-9]+)"
DECIMAL = re.compile(rf"-?{_DECIMAL}")
RATIO = re.compile(rf"({_DECIMAL}) ?/ ?({_DECIMAL})")
MIXED = re.compile(r"([0-9]+) ([0-9]+) ?/ ?([0-9]+)")
RUN = re.compile(r"(?:(?<![\w.])\.)?[0-9]+(?:(?:[.,]| ?/ ?| )[0-9]+)*")
"""All digits that belong together, whether they make a number or not."""
BLANKS = re.compile(r"\s+")


def plain_text(text: str) -> str:
    """`text` with plain characters for full-width and other compatible ones, and every kind of line end as one."""
    if not text.isascii() or "\r" in text:
        text = text.replace("\r\n", "\n").translate(PLAIN)
        text = SIGNED_DASH.sub("-", text)
    return text


def read_number(text: str) -> Fraction | None:
    """The only number of a plain text, behind its last ``=``; words and units around it count for nothing."""
    value = simplify(text).rpartition("=")[2]
    if not FORBIDDEN.isdisjoint(value):
        return None
    runs = list(RUN.finditer(value))
    if len(runs) != 1:
        return None
    number = read_run(runs[0][0])
    before = value[: runs[0].start()]
    if number is None or not before.rstrip().endswith("-"):
        return number
    ahead = before.rstrip().removesuffix("-")
    if before.endswith("-"):
        return None if ahead[-1:].isalnum() or ahead.rstrip().endswith((")", "-")) else -number
    return number if any(map(str.isalnum, ahead)) else -number


def read_run(run: str) -> Fraction | None:
    """What a match of `RUN` says, without its sign."""
    if len(run) > LONGEST:
        return None
    if DECIMAL.fullmatch(run):
        return _exact(run)
    if (mixed := MIXED.fullmatch(run)) and 0 < int(mixed[2]) < int(mixed[3]):
        return int(mixed[1]) + Fraction(int(mixed[2]), int(mixed[3]))
    ratio = RATIO.fullmatch(run)
    if ratio is None or not (below := _exact(ratio[2])):
        return None
    return _exact(ratio[1]) / below


def simplify(text: str) -> str:
    """A plain text without LaTeX: what is no number there, and no unit, is left as a forbidden character."""
    for pattern, substitute in SUBSTITUTES:
        text = pattern.sub(substitute, text)
    if "\\" in text:
        text = COMMAND.sub(_command, FRACTION.sub(_fraction, text)).replace("\\", " ")
    return BLANKS.sub(" ", text.replace("}{", " ").replace("{", "").replace("}", ""))


def _fraction(found: re.Match[str]) -> str:
    above, below = (found[1] or found[2] or "").strip(), (found[3] or found[4] or "").strip()
    if DECIMAL.fullmatch(above) and DECIMAL.fullmatch(below):
        return f" {above}/{below} "
    return "^"


def _command(found: re.Match[str]) -> str:
    if found[1] in UNSEEN:
        return " "
    return "*" if found[1] in OPERATORS else "^"


def _exact(decimal: str) -> Fraction:
    return Fraction(decimal.replace(",", "").replace(" ", ""))
