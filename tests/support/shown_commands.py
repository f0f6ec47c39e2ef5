"""The commands that stand in README and docs, and what ``tests/data/shown_commands.yaml`` says of each."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache

import yaml

from tests.support.emulated import ROOT

TABLE = ROOT / "tests" / "data" / "shown_commands.yaml"
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TASKS = ("invoke", "ohforge")
"""Programs whose first word is a task."""
MANAGE = ("$manage", "ohforge-emulator", "python -m deploy.emulator.manage")
"""Names of the program for emulated boards."""
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A command as it stands on a page, without its comment."""

    page: str
    text: str
    mentioned: bool
    """Whether it stands in a sentence, where a task may be named without what it needs."""

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)

    @property
    def is_task(self) -> bool:
        return self.text.split()[0] in TASKS

    @property
    def manage_words(self) -> list[str]:
        """The words for the program of emulated boards; none when it is another program."""
        head = next((head for head in MANAGE if self.text.startswith(f"{head} ")), "")
        return shlex.split(self.text.removeprefix(head)) if head else []


@dataclass(frozen=True, kw_only=True)
class Row:
    """How a command is tested: run as it is and what it prints then, by another test, or not, and why."""

    pattern: str
    run: str
    test: str
    holds: str
    why_not: str


@cache
def shown_commands() -> tuple[Shown, ...]:
    """Every command of every page, each once a page, in order."""
    found: dict[tuple[str, str], Shown] = {}
    for page in PAGES:
        for text, mentioned in _commands_of(page.read_text()):
            shown = Shown(page=page.name, text=text, mentioned=mentioned)
            found.setdefault((page.name, text), shown)
    return tuple(found.values())


def _commands_of(text: str) -> list[tuple[str, bool]]:
    found = []
    for kind, block in FENCED.findall(text):
        lines = _lines(block)
        found += [(line, False) for line in lines if kind == "sh" or _is_command(line)]
    rest = FENCED.sub("", text)
    found += [
        (line, False) for line in _lines(re.sub(r"^(?! {4}).*$", "", rest, flags=re.MULTILINE)) if _is_command(line)
    ]
    return found + [(name, True) for name in INLINE.findall(rest) if _is_command(name)]


def _lines(block: str) -> list[str]:
    joined = block.replace("\\\n", " ")
    lines = (re.sub(r"(^|\s)#.*", "", line).strip().removeprefix("$ ") for line in joined.splitlines())
    parts = (" ".join(part.split()) for line in lines for part in line.split(" && ") if part)
    return [re.sub(r"^\S+/bin/(?=(ohforge|invoke) )", "", part) for part in parts]


def _is_command(line: str) -> bool:
    head, _, rest = line.partition(" ")
    return (head in TASKS and re.match(r"(--[a-z]|[a-z]+(\.[a-z0-9]+)?( |$))", rest) is not None) or any(
        line.startswith(f"{name} ") for name in MANAGE
    )


@cache
def load_rows() -> tuple[Row, ...]:
    rows = yaml.safe_load(TABLE.read_text())
    empty = {"run": "", "test": "", "holds": "", "why_not": ""}
    return tuple(Row(**{**empty, **row}) for row in rows)


def find_row(shown: Shown) -> Row | None:
    """The first row that fits; `ohforge` and `invoke` are the same."""
    text = re.sub(r"^(ohforge|invoke) ", "invoke ", shown.text)
    for name in MANAGE:
        text = f"manage {text.removeprefix(name).strip()}" if text.startswith(f"{name} ") else text
    return next((row for row in load_rows() if re.fullmatch(row.pattern, text)), None)
