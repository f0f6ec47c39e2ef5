"""The table of public projects: a verdict is about what a cell was built from."""

from __future__ import annotations

from dataclasses import replace

from tests.shared.projects_matrix import Cell, Project, cells, inputs_of
from toolchains.arch import ARM32

LIBRARY = Project(name="library", file="library-1.tar.gz", sha256="aa")
USER = Project(name="user", file="user-1.tar.gz", sha256="bb", needs=("library",), options={"WITH": "1"})
OTHER = Project(name="other", file="other-1.tar.gz", sha256="cc")


def inputs(*projects: Project) -> dict[str, str]:
    table = {project.name: project for project in projects}
    return {str(cell): inputs_of(cell, table) for cell in cells(table)}


def changed(*projects: Project) -> set[str]:
    """Names of the projects whose cells ask for a new verdict when the table becomes `projects`."""
    before, after = inputs(LIBRARY, USER, OTHER), inputs(*projects)
    return {cell.split(",")[0] for cell in before if before[cell] != after[cell]}


def test_a_changed_option_asks_for_new_verdicts_of_that_project_alone() -> None:
    assert changed(LIBRARY, USER, OTHER) == set()
    assert changed(LIBRARY, replace(USER, options={"WITH": "2"}), OTHER) == {"user"}


def test_another_archive_of_a_library_asks_for_new_verdicts_of_what_needs_it() -> None:
    assert changed(replace(LIBRARY, sha256="dd"), USER, OTHER) == {"library", "user"}


def test_the_cells_of_a_project_have_inputs_of_their_own() -> None:
    assert len(set(inputs(LIBRARY, USER, OTHER).values())) == 12
    assert inputs_of(Cell(project=OTHER, arch=ARM32, toolchain="zig"), {}) in inputs(OTHER).values()
