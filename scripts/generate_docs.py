"""Writes the pages, and the tables in pages, that are made from code (`PAGES`). Run after changing one of those."""

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
from deploy.hdc.board import RETRIES  # noqa: E402
from deploy.hdc.errors import OPERATIONS, Fault, read_faults  # noqa: E402
from native.openharmony.failures import load_failures  # noqa: E402
from native.recipe.exit_status import StatusTable, load_statuses  # noqa: E402
from tests.shared.fault_rules import expected_table, load_rules  # noqa: E402
from toolchains.catalogue import read_catalogue  # noqa: E402


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


def emulated_board_page() -> str:
    """The page of the emulated board with all faults, and what each does to every operation; the tests measure each cell."""
    rules = load_rules()
    return _with_tables(
        "docs/emulated-board.md",
        {
            "faults": ["| Fault | Parameters | What happens |", "|---|---|---|", *_fault_rows()],
            "fault matrix": [*_matrix_rows(expected_table(rules), list(rules["operations"])), "", *_deviations(rules)],
        },
    )


def _fault_rows() -> typing.Iterator[str]:
    for fault in FAULTS.values():
        parameters = ", ".join(f"`{name}` ({value:.0f})" for name, value in fault.parameters.items())
        yield f"| `{fault.name}` | {parameters} | {fault.text} |"


def _deviations(rules: typing.Any) -> typing.Iterator[str]:
    yield "Where something else happens than what follows from the rules:"
    yield ""
    for fault, cells in rules["deviations"].items():
        yield from (f"- `{fault}`, {operation}: {deviation['why']}." for operation, deviation in cells.items())


def _matrix_rows(table: dict[str, dict[str, str]], operations: list[str]) -> typing.Iterator[str]:
    yield f"| Fault | {' | '.join(operations)} |"
    yield f"|---|{'---|' * len(operations)}"
    for fault, row in table.items():
        name = fault.removesuffix(" later")
        cells = [re.sub(r"^(\w+)", r"`\1`", row[operation]) for operation in operations]
        yield f"| {name if name == 'none' else f'`{name}`'}{'' if name == fault else ', later'} | {' | '.join(cells)} |"


def hdc_page() -> str:
    """The page of hdc with what it says and what that is taken for."""
    pauses = ", ".join(f"{pause:g}" for pause in RETRIES.pauses())
    lines = [
        f"*Tried again* means: the same command, up to {RETRIES.times} times, with pauses of {pauses} s, since hdc had not begun it.",
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
    return _with_tables("docs/hdc.md", {"messages": lines})


def sdk_page() -> str:
    """The page of the SDK with what each release holds."""
    lines = [
        "| Release | API | Packages | clang | CMake | musl | hdc | MindSpore Lite | NNRt | DAYU200's image | Notes |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for release in read_catalogue().releases:
        kind = "" if release.release_type == "Release" else f" {release.release_type}"
        known = f" ({release.libraries.mindspore_lite_known})" if release.libraries.mindspore_lite_known else ""
        cells = [
            *(release.version, str(release.api_level), release.sdk_version + kind, release.clang, release.cmake),
            *(release.musl, release.hdc, f"`{release.libraries.mindspore_lite}`{known}"),
            *(", ".join(f"`{name}`" for name in release.libraries.nnrt), f"`{release.dayu200_image}`"),
            " ".join(release.notes),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return _with_tables("docs/sdk.md", {"releases": lines})


def _with_tables(page: str, tables: dict[str, list[str]]) -> str:
    """A page written by hand, with the lines between its marks made anew."""
    text = (ROOT / page).read_text()
    for name, lines in tables.items():
        mark = re.compile(rf"(<!-- {name}: made by [^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
        if len(mark.findall(text)) != 1:
            raise SystemExit(f"{page} must have one place for {name}.")
        text = mark.sub(lambda found, lines=lines: "\n".join((found[1], *lines, "", found[2])), text)
    return text


def _during(fault: Fault) -> str:
    return f" ({', '.join(fault.during)})" if fault.during != OPERATIONS else ""


def _answer(fault: Fault) -> str:
    if fault.asks_user:
        return "waits for the user, then once more"
    if fault.new_server:
        return "a TCP board: once more with a server of its own on another port"
    if fault.server_remembers:
        return "a TCP board whose user was not asked by this command: asked, by a server of its own that is begun anew"
    if fault.transient:
        return "tried again" + ("; a TCP board is connected again first" if fault.reconnect else "")
    return "a TCP board: connected again and tried again" if fault.reconnect else "told at once"


PAGES = {
    "docs/errors.md": errors_page,
    "docs/configuration.md": configuration_page,
    "docs/program-statuses.md": statuses_page,
    "docs/source-failures.md": source_failures_page,
    "docs/emulated-board.md": emulated_board_page,
    "docs/hdc.md": hdc_page,
    "docs/sdk.md": sdk_page,
}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (ROOT / name).write_text(make())
