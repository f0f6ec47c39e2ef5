"""The documentation is in step with the code and with itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from generate_docs import PAGES

from commands.collection import ns

ROOT = Path(__file__).parents[2]
PAGES_FOR_PEOPLE = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs").glob("*.md"),
]
LINK = re.compile(r"\[[^]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_made_from_code_are_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text() == PAGES[name](), "run .venv/bin/python scripts/generate_docs.py"


def code_of(page: str) -> list[str]:
    """The commands of a page without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]


def outline(page: str) -> list[str]:
    """Levels of the headings, in order, and how many table rows and list items stand below each."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    return re.findall(r"^(#+ |\||- )", text, re.MULTILINE)


def test_both_readmes_have_the_same_commands_and_the_same_outline() -> None:
    assert code_of("README.md") == code_of("README.zh-CN.md")
    assert outline("README.md") == outline("README.zh-CN.md")


@pytest.mark.parametrize("page", PAGES_FOR_PEOPLE, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("https://", "http://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_task_is_documented_and_explains_every_flag() -> None:
    assert {"sdk.fetch", "build.build", "board.run", "doctor"} <= set(ns.task_names)
    for name in ns.task_names:
        assert ns[name].__doc__, name
        for argument in ns[name].get_arguments():
            assert argument.help, f"{name} {argument.name}"


def test_what_scripts_and_benchmarks_take_from_the_tests_lies_in_one_place_that_says_so() -> None:
    files = [file for folder in ("scripts", "benchmarks", "tests/shared") for file in (ROOT / folder).rglob("*.py")]
    assert [file for file in files if "tests.support" in file.read_text()] == []


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text()
    for requirement in project["dependencies"]:
        name = re.split(r"[><=!~\[ ]", requirement)[0]
        assert re.search(rf"\b{re.escape(name)}\b", page), name


def test_every_row_about_the_stand_in_names_the_tests_that_hold_it_down() -> None:
    page = (ROOT / "docs" / "hdc.md").read_text()
    contract = defined_in("tests/contract")
    others = defined_in("tests/unit", "tests/integration")
    named = set()
    for row in re.findall(r"^\|.*`test_.*\|$", page, re.MULTILINE):
        for part in row.split("|")[-2].split(";"):
            names = set(re.findall(r"`(test_\w+)`", part))
            missing = names - (contract if part.strip().startswith("contract ") else others)
            assert not missing, f"docs/hdc.md names {missing}"
            named |= names
    assert contract <= named, f"docs/hdc.md does not name {contract - named}"


def defined_in(*folders: str) -> set[str]:
    """Names of the tests below these folders."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("test_*.py")]
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text()
    linked = set(re.findall(r"\]\(([\w.-]+)\)", index))
    pages = {path.name for path in (ROOT / "docs").iterdir()}
    assert linked == pages - {"index.md"}
    assert "docs/index.md" in (ROOT / "README.md").read_text()


def test_the_page_of_tunings_counts_what_its_table_shows() -> None:
    page = (ROOT / "docs/tuning-matrix.md").read_text()
    said = re.search(r"(\d+) of the (\d+) combinations .* good, (\d+) failed, (\d+) were not run\.", page)
    assert said is not None
    cells = [cell for row in re.findall(r"^\| .*", page, re.MULTILINE)[1:] for cell in row.split(" | ")[3:-1]]
    shown = [cells.count(word) for word in ("good", "**failed**", "not run")]
    assert [int(said[1]), int(said[3]), int(said[4])] == shown
    assert int(said[2]) == len(cells) == sum(shown)
