"""Writes the pages that are made from code: docs/errors.md and docs/configuration.md. Run after changing either."""

from __future__ import annotations

import dataclasses
import sys
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.errors import Category, all_errors  # noqa: E402
from core.settings import BoardEntry, Settings, Timeouts  # noqa: E402


def errors_page() -> str:
    """The catalogue of errors, as Markdown."""
    lines = [
        "# Errors",
        "",
        "Made from `core/errors.py` by `scripts/generate_docs.py`.",
        "",
        "Every failure of ohforge itself ends with a status from 64 to 99: one number per category. A program's own",
        "status is passed through by `board.shell` and `board.run --program` (128 + n for signal n). Invoke ends with 1",
        "when it does not understand the command line.",
        "",
        "| Exit status | Category |",
        "|---|---|",
        *[f"| {category.value} | {category.label} |" for category in Category],
        "",
        "| Code | Category | What happened | What to try |",
        "|---|---|---|---|",
    ]
    for error in all_errors():
        meaning = " ".join((error.__doc__ or "").split())
        lines.append(
            f"| {error.code} `{error.__name__}` | {error.category.label} | {meaning} | {error.default_remedy} |"
        )
    return "\n".join(lines) + "\n"


def configuration_page() -> str:
    """All settings with defaults, as Markdown."""
    lines = [
        "# Configuration",
        "",
        "Made from `core/settings.py` by `scripts/generate_docs.py`.",
        "",
        "Settings stand under `ohforge:` in `invoke.yaml` beside `tasks.py`, in `~/.invoke.yaml`, or in variables such as",
        "`INVOKE_OHFORGE_BOARD`; later wins, and a flag of a task wins over all. An unknown key or a value of the wrong",
        "kind is an error that names the file, the key and the nearest known key.",
        "",
        "| Variable | Moves |",
        "|---|---|",
        "| `OHFORGE_DATA_DIR` | what is installed: SDKs, emulated boards |",
        "| `OHFORGE_CACHE_DIR` | what can be had again: downloads, sources, compiler cache |",
        "| `OHFORGE_LEASE_DIR` | the notes of who uses which real board |",
        "| `OHFORGE_HDC` | the hdc program |",
        "",
        "| Key | Default | Meaning |",
        "|---|---|---|",
        *_rows("ohforge", Settings),
        *_rows("ohforge.boards.NAME", BoardEntry),
        *_rows("ohforge.timeouts", Timeouts),
    ]
    return "\n".join(lines) + "\n"


def _rows(prefix: str, cls: type) -> typing.Iterator[str]:
    instance = cls()
    for entry in dataclasses.fields(cls):
        value = getattr(instance, entry.name)
        if dataclasses.is_dataclass(value):
            continue
        shown = ", ".join(value) if isinstance(value, tuple) else str(value)
        yield f"| `{prefix}.{entry.name}` | {f'`{shown}`' if shown not in ('', '{}') else ''} | {entry.metadata['help']} |"


PAGES = {"docs/errors.md": errors_page, "docs/configuration.md": configuration_page}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (ROOT / name).write_text(make())
