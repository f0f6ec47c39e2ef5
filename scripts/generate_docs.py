"""Writes the pages that are made from code and tables (`PAGES`). Run after changing one of those."""

from __future__ import annotations

import dataclasses
import re
import sys
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from core.errors import Category, all_errors  # noqa: E402
from core.settings import BoardEntry, Settings, Timeouts  # noqa: E402
from deploy.emulator.board.faults import FAULTS  # noqa: E402
from deploy.hdc.board import RETRY_PAUSES  # noqa: E402
from deploy.hdc.errors import OPERATIONS, Fault, read_faults  # noqa: E402
from native.openharmony.failures import load_failures  # noqa: E402
from native.recipe.exit_status import StatusTable, load_statuses  # noqa: E402
from tests.shared.fault_rules import expected_table, load_rules  # noqa: E402


def errors_page() -> str:
    """The catalogue of errors, as Markdown."""
    lines = [
        "# Errors",
        "",
        "Made from `core/errors/` by `scripts/generate_docs.py`.",
        "",
        "Every failure of ohforge itself ends with a status from 64 to 99: one number per category. A program's own",
        "status is passed through by `board.shell` and `board.run --program` (128 + n for signal n). A command line",
        "that cannot be read ends with 64.",
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
        "Settings stand under `ohforge:` in these places; later wins, and a flag of a task wins over all:",
        "",
        "1. `/etc/invoke.yaml`, for all users of a computer",
        "2. `~/.invoke.yaml`, for all projects of a user",
        "3. `invoke.yaml` of the project: in the current folder, else in the nearest folder above it that has one; in the clone",
        "   that is the one beside `tasks.py`",
        "4. variables such as `INVOKE_OHFORGE_BOARD` or `INVOKE_OHFORGE_TIMEOUTS_RUN`",
        "5. the file that `--config FILE` or `INVOKE_RUNTIME_CONFIG` names",
        "",
        "An unknown key or a value of the wrong kind is an error that names the file, the key and the nearest known key.",
        "`invoke` and `ohforge` read the same ([command-line.md](command-line.md)).",
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


def statuses_page() -> str:
    """What the ends of our programs mean, as Markdown."""
    lines = [
        "# How programs on a board end",
        "",
        "Made from `native/programs/mslite/status.yaml`, `native/programs/nnrt/status.yaml` and `native/recipe/exit_status.yaml` by",
        "`scripts/generate_docs.py`. What a program printed counts more than the number: 255 alone can mean two things.",
        "",
    ]
    for title, program in (("mslite", "mslite"), ("nnrt", "nnrt"), ("Every program", "")):
        table = load_statuses(program) if program else load_statuses("no such program")
        lines += [f"## {title}", "", "| Exit status | Name | Status | Meaning | What to try |", "|---|---|---|---|---|"]
        lines += [*_status_rows(table, whole=not program), ""]
    return "\n".join(lines)


def _status_rows(table: StatusTable, *, whole: bool) -> typing.Iterator[str]:
    shell = load_statuses("no such program").by_exit
    for status, row in sorted(table.by_exit.items()):
        if whole or row != shell.get(status):
            code = "" if row.code is None else row.code
            yield f"| {status} | {row.name} | {code} | {row.sentence} | {row.remedy} |"


def source_failures_page() -> str:
    """The known failures of build.sh, as Markdown."""
    lines = [
        "# Known failures of OpenHarmony's build.sh",
        "",
        "Made from `native/openharmony/failures.yaml` by `scripts/generate_docs.py`. The first that a log shows is the one that is named",
        "([source-build.md](source-build.md)).",
        "",
        "| Name | What happened | What to try |",
        "|---|---|---|",
        *[f"| {row.name} | {row.sentence} | {row.remedy} |" for row in load_failures()],
    ]
    return "\n".join(lines) + "\n"


def faults_page() -> str:
    """What every fault does to every operation, as Markdown; the tests measure each cell."""
    rules = load_rules()
    table, operations = expected_table(rules), list(rules["operations"])
    lines = [
        "# Faults",
        "",
        "Made by rule from `tests/data/fault_rules.yaml` by `scripts/generate_docs.py`.",
        "`tests/integration/deploy/hdc/test_fault_matrix.py` switches each fault of the [emulated board](emulated-board.md#faults) on,",
        "for as long as the operation lasts, and measures every cell: how the operation ends (`ok`, or the",
        "[error](errors.md) with its exit status), and what is left of it. An operation that says `ok` has been looked after: the",
        "output and status are right, the files are whole. None outlasts its deadline.",
        "",
        "In parentheses: `file`, the whole file where it is wanted (for a pull: here); `in the store`, the whole file in the",
        "board's store; `unfinished`, a part there, from which the next push goes on if it is a large file's; `it ran`, the command was",
        "executed, whatever came back; `record`, the state in the run record; for `clean` what was not removed; `orphan`, what the",
        "program had left behind still ran. `choose` is told no board, and takes the stand-in for a real hdc.",
        "",
        f"| Fault | {' | '.join(operations)} |",
        f"|---|{'---|' * len(operations)}",
    ]
    for fault, row in table.items():
        name = fault.removesuffix(" later")
        what = FAULTS[name].text if name in FAULTS else "no fault"
        what += ", when the operation is under way" if name != fault else ""
        cells = [re.sub(r"^(\w+)", r"`\1`", row[operation]) for operation in operations]
        lines.append(f"| `{fault}`: {what} | {' | '.join(cells)} |")
    lines += ["", "Where something else happens than what follows from the rules:", ""]
    for fault, cells_of in rules["deviations"].items():
        lines += [f"- `{fault}`, {operation}: {deviation['why']}." for operation, deviation in cells_of.items()]
    return "\n".join(lines) + "\n"


def hdc_messages_page() -> str:
    """What hdc says and what it is taken for, as Markdown."""
    lines = [
        "# What hdc says",
        "",
        "Made from `deploy/hdc/errors.yaml` by `scripts/generate_docs.py`.",
        "",
        "hdc's exit status is always 0; what went wrong stands in its output. The first row that fits counts. Releases are",
        "those of OpenHarmony whose hdc says it, where that is known. *Tried again* means: the same command, up to",
        f"{len(RETRY_PAUSES)} times, with pauses of {', '.join(f'{pause:g}' for pause in RETRY_PAUSES)} s, since hdc had not begun it.",
        "",
        "| hdc says (pattern) | Releases | What it means | Error | What ohforge does | What to try |",
        "|---|---|---|---|---|---|",
    ]
    for fault in read_faults():
        pattern = fault.pattern.pattern.replace("|", "\\|")
        remedy = fault.remedy or fault.error.default_remedy
        lines.append(
            f"| `{pattern}`{_during(fault)} | {fault.releases} | {fault.meaning} | {fault.error.code} `{fault.error.__name__}` "
            f"| {_answer(fault)} | {remedy} |"
        )
    return "\n".join(lines) + "\n"


def _during(fault: Fault) -> str:
    return f" ({', '.join(fault.during)})" if fault.during != OPERATIONS else ""


def _answer(fault: Fault) -> str:
    if fault.asks_user:
        return "waits for the user, then once more"
    if fault.new_server:
        return "a TCP board: once more with a server of its own on another port"
    if fault.transient:
        return "tried again" + ("; a TCP board is connected again first" if fault.reconnect else "")
    return "a TCP board: connected again and tried again" if fault.reconnect else "told at once"


PAGES = {
    "docs/errors.md": errors_page,
    "docs/configuration.md": configuration_page,
    "docs/program-statuses.md": statuses_page,
    "docs/source-failures.md": source_failures_page,
    "docs/faults.md": faults_page,
    "docs/hdc-messages.md": hdc_messages_page,
}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (ROOT / name).write_text(make())
